/** Reads the configuration file of a command. */

import { readFileSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { type ReadConfigResult, readConfig } from "../config/read-config.ts";
import { NO_SECRETS } from "../config/resolve-secrets.ts";
import { hasSameFiles, readDataTls, readNodeTls } from "../config/tls-files.ts";

/** The file that commands read without `-c`. */
export const DEFAULT_CONFIG_FILE = "zml.yaml";

/** Reads and checks a file; that it can't be read is a problem like any other. Never throws. */
export async function readConfigFile(
  fileName: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<ReadConfigResult> {
  const text = await textOf(fileName);
  return typeof text === "string" ? readConfig(text, { fileName, env }) : text;
}

/** A configuration that was read before. */
export type ReadBefore = Required<Pick<ReadConfigResult, "config" | "source" | "secrets">>;

/**
 * The same, for a file that was read before; null when neither it nor a certificate that it names has changed, which
 * costs no more than reading them.
 */
export async function readConfigFileAgain(
  fileName: string,
  env: Readonly<Record<string, string | undefined>>,
  before: ReadBefore,
): Promise<ReadConfigResult | null> {
  const text = await textOf(fileName);
  if (typeof text !== "string") return text;
  return before.source.isSameText(text) && areFilesAsRead(before) ? null : readConfig(text, { fileName, env });
}

/**
 * Whether neither the file nor a certificate that it names has changed. At once: read step by step, each step would wait
 * for a turn of a thread that may be busy. A file that is no regular one, which could block, counts as changed.
 */
export function isConfigFileAsRead(fileName: string, before: ReadBefore): boolean {
  try {
    return (
      statSync(fileName).isFile() && before.source.isSameText(readFileSync(fileName, "utf8")) && areFilesAsRead(before)
    );
  } catch {
    // whoever reads it says why
    return false;
  }
}

function areFilesAsRead({ config, secrets }: ReadBefore): boolean {
  const [dataTls, nodeTls] = [readDataTls(config.data.tls), readNodeTls(config)];
  if (dataTls.errors.length > 0 || nodeTls.errors.length > 0) return false;
  return hasSameFiles(secrets, { ...secrets, dataTls: dataTls.files, tlsFiles: nodeTls.files });
}

/** The text of a file, or why it can't be read. */
async function textOf(fileName: string): Promise<string | ReadConfigResult> {
  try {
    return await readFile(fileName, "utf8");
  } catch (error) {
    const problem = { file: fileName, line: 1, column: 1, path: "", message: unreadable(error), hint: HINT };
    return { secrets: NO_SECRETS, errors: [problem], warnings: [] };
  }
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
