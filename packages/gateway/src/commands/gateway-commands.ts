/** `zml export`, `reload`, `log-level` and `store backup`: what is asked of a running gateway as a whole. */

import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { LogLevel } from "@zml/protocol/log-levels";
import { tellUnacknowledged } from "./apply.ts";
import { type AdminOptions, askAdmin, tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import type { Terminal } from "./terminal.ts";

export interface ExportOptions extends AdminOptions {
  /** `-`: standard output. */
  readonly output: string;
  readonly json: boolean;
  readonly force: boolean;
}

/** The configuration that is in force, file and API together, as one zml.yaml. @returns the exit code. */
export async function exportConfiguration(terminal: Terminal, options: ExportOptions): Promise<number> {
  const answer = await askAdmin(terminal, options, {
    path: "/admin/v1/configuration",
    members: [],
    ...(!options.json && { accept: "application/yaml" }),
  });
  if ("problem" in answer) return tellProblem(terminal, answer);
  const { text } = answer;
  if (options.output === "-") {
    terminal.out(text);
    return EXIT.ok;
  }
  try {
    await writeFile(options.output, text, { flag: options.force ? "w" : "wx" });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    const why = code === "EEXIST" ? "is there already: overwrite it with --force" : `can't be written (${code})`;
    terminal.error(`zml: ${options.output} ${why}, or name another with -o FILE\n`);
    return EXIT.failed;
  }
  terminal.out(`${options.output} is written: zml check-config -c ${options.output} checks it\n`);
  return EXIT.ok;
}

/** @returns the exit code: 1 when the file is refused, with each of its problems. */
export async function reload(terminal: Terminal, options: AdminOptions & { readonly json: boolean }): Promise<number> {
  const answer = await askAdmin(terminal, options, {
    method: "POST",
    path: "/admin/v1/reload",
    body: {},
    members: ["kind", "version"],
    timeoutMs: 60_000,
  });
  if ("problem" in answer) return tellProblem(terminal, answer);
  const { kind, version, warnings, ...rest } = answer.value as {
    readonly kind: "applied" | "unchanged";
    readonly version: number;
    readonly warnings: readonly string[];
  };
  if (options.json) terminal.out(answer.text);
  else terminal.out(kind === "applied" ? `applied as version ${version}\n` : `nothing changed, version ${version}\n`);
  if (!options.json) for (const warning of warnings) terminal.error(`warning: ${warning}\n`);
  tellUnacknowledged(terminal, rest);
  return EXIT.ok;
}

/** What is logged; with a level from now on that. @returns the exit code. */
export async function logLevel(
  terminal: Terminal,
  { level, json, ...admin }: AdminOptions & { readonly level: LogLevel | undefined; readonly json: boolean },
): Promise<number> {
  const change = level === undefined ? {} : ({ method: "PUT", body: { level } } as const);
  const answer = await askAdmin(terminal, admin, { path: "/admin/v1/log/level", members: ["level"], ...change });
  if ("problem" in answer) return tellProblem(terminal, answer);
  terminal.out(json ? answer.text : `${(answer.value as { readonly level: string }).level}\n`);
  return EXIT.ok;
}

/** Copies the store of a running gateway, on the gateway's machine. @returns the exit code. */
export async function backupStore(
  terminal: Terminal,
  options: AdminOptions & { readonly path: string; readonly decisions: boolean; readonly json: boolean },
): Promise<number> {
  const answer = await askAdmin(terminal, options, {
    method: "POST",
    path: "/admin/v1/store/backup",
    body: { path: resolve(options.path), ...(options.decisions && { decisions: true }) },
    members: ["path", "bytes"],
    timeoutMs: 600_000,
  });
  if ("problem" in answer) return tellProblem(terminal, answer);
  const {
    path,
    bytes,
    decisions_bytes: kept,
  } = answer.value as {
    readonly path: string;
    readonly bytes: number;
    readonly decisions_bytes: number | null;
  };
  const also = kept === null ? "" : `, with kept decisions of ${kept} bytes beside it`;
  terminal.out(options.json ? answer.text : `${path} is written, ${bytes} bytes${also}\n`);
  return EXIT.ok;
}
