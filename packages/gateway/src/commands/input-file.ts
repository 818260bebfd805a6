/** A file that an option names, or standard input; or why it can't be read, with what to name instead. */

import { readFile } from "node:fs/promises";
import type { Terminal } from "./terminal.ts";

const WORDS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "this user may not read it",
};

/** Why a file can't be read, in words. */
export function whyUnreadable(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
  return WORDS[code] ?? `it can't be read (${code})`;
}

/** What was read. */
export interface InputFile {
  /** For messages. */
  readonly name: string;
  readonly bytes: Buffer;
}

/**
 * Reads a file; `-` is standard input.
 *
 * @param option that names it, such as `--policy`.
 */
export async function readInput(
  terminal: Terminal,
  file: string,
  option: string,
): Promise<InputFile | { readonly problem: string }> {
  const name = file === "-" ? "standard input" : file;
  try {
    return { name, bytes: file === "-" ? Buffer.from(await terminal.input()) : await readFile(file) };
  } catch (error) {
    const next = `name a file with ${option} FILE, or standard input with ${option} -`;
    return { problem: `zml: ${name}: ${whyUnreadable(error)}: ${next}` };
  }
}
