// Runs the shell lines of a page in a folder, as a reader would who follows it from top to bottom.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { assertPrinted, snippetsOf } from "./page-snippets.ts";

const root = join(import.meta.dirname, "..");
const launcher = join(root, "packages", "gateway", "bin", "zml.mjs");
const run = promisify(execFile);

/** Each takes far less; it only ends what hangs, ms. */
const LINE_DEADLINE_MS = 60_000;

/** Where the lines of a page run. */
export interface PageShell {
  readonly folder: string;
  /** What `python3` is. */
  readonly python: string;
  readonly env: Readonly<Record<string, string>>;
  /** Starts a line `npx zml serve …`, which runs on; gives the variables that the lines after it need. */
  serve(line: string): Promise<Readonly<Record<string, string>>>;
  /** A text as it is here: what stands for the reader's machines is replaced. */
  local(text: string): string;
  /** The other way round, for what is printed. */
  shown(text: string): string;
}

/** Writes the files of a page (blocks that begin with `# NAME`), then runs each line, and compares what is shown. */
export async function runPage(page: string, shell: PageShell): Promise<void> {
  const text = readFileSync(join(root, page), "utf8");
  for (const [, name = "", code = ""] of text.matchAll(/^```\w+\n# (\S+\.(?:yaml|py))\n([\s\S]*?)^```$/gm)) {
    writeFileSync(join(shell.folder, name), shell.local(code));
  }
  let found: Readonly<Record<string, string>> = {};
  for (const snippet of snippetsOf(page, "sh")) {
    let printed = "";
    for (const line of snippet.code.trim().split("\n")) {
      if (line.startsWith("npx zml serve")) found = await shell.serve(line);
      else printed += await runLine(line, snippet.place, shell, found);
    }
    if (printed !== "") assertPrinted(snippet, shell.shown(printed));
  }
}

async function runLine(
  line: string,
  place: string,
  { folder, python, env }: PageShell,
  found: Readonly<Record<string, string>>,
): Promise<string> {
  const [first, second, ...rest] = line.split(" ");
  const isZml = first === "npx" && second === "zml";
  assert.ok(isZml || first === "python3", `${place}: ${line} is run`);
  const [command, args] = isZml ? [process.execPath, [launcher, ...rest]] : [python, [second ?? "", ...rest]];
  const options = { cwd: folder, env: { ...process.env, ...env, ...found }, timeout: LINE_DEADLINE_MS };
  try {
    const { stdout } = await run(command, args, options);
    return stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${place}: ${line}\n${stdout ?? ""}${stderr ?? String(error)}`);
  }
}
