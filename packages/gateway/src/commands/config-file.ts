/** Reads the configuration file of a command. */

import { readFile } from "node:fs/promises";
import { type ReadConfigResult, readConfig } from "../config/read-config.ts";
import { NO_SECRETS } from "../config/resolve-secrets.ts";

/** The file that commands read without `-c`. */
export const DEFAULT_CONFIG_FILE = "zml.yaml";

/** Reads and checks a file; that it can't be read is a problem like any other. Never throws. */
export async function readConfigFile(
  fileName: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<ReadConfigResult> {
  let text: string;
  try {
    text = await readFile(fileName, "utf8");
  } catch (error) {
    const problem = { file: fileName, line: 1, column: 1, path: "", message: unreadable(error), hint: HINT };
    return { secrets: NO_SECRETS, errors: [problem], warnings: [] };
  }
  return readConfig(text, { fileName, env });
}

const HINT = "name the file with -c FILE";

function unreadable(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  switch (code) {
    case "ENOENT":
      return "there is no such file";
    case "EACCES":
      return "the file may not be read by this user";
    case "EISDIR":
      return "this is a directory";
    default:
      return `the file can't be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}
