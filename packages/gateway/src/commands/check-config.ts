/** `zml check-config`: everything that is wrong with a file, at once. */

import { formatProblems } from "../config/config-problem.ts";
import { readConfigFile } from "./config-file.ts";
import { EXIT } from "./exit-codes.ts";
import { counted } from "./nodes-words.ts";
import type { Terminal } from "./terminal.ts";

/** @returns the exit code. */
export async function checkConfig(
  terminal: Terminal,
  { config: fileName, json }: { config: string; json: boolean },
): Promise<number> {
  const { config, errors, warnings } = await readConfigFile(fileName, terminal.env);
  const isOk = errors.length === 0;
  if (json) {
    terminal.out(`${JSON.stringify({ file: fileName, ok: isOk, errors, warnings })}\n`);
    return isOk ? EXIT.ok : EXIT.failed;
  }
  if (errors.length > 0) terminal.error(`${formatProblems(errors)}\n`);
  if (warnings.length > 0) terminal.error(`${formatProblems(warnings).replaceAll(/^/gm, "warning: ")}\n`);
  if (config === undefined || !isOk) {
    terminal.error(`${fileName}: ${counted(errors.length, "error")}, ${counted(warnings.length, "warning")}\n`);
    return EXIT.failed;
  }
  const { nodes, policies, models } = config;
  const parts = [counted(nodes.length, "node"), counted(policies.length, "policy"), counted(models.length, "model")];
  terminal.out(`${fileName}: ok, ${parts.join(", ")}, ${counted(warnings.length, "warning")}\n`);
  return EXIT.ok;
}
