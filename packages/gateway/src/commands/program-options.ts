/** Options that several commands have. */

import { InvalidArgumentError, Option } from "commander";
import { ADMIN_KEY_ENV, ADMIN_URL_ENV, DEFAULT_ADMIN } from "./ask-admin.ts";
import { DEFAULT_CONFIG_FILE } from "./config-file.ts";
import { KIND_WORDS, kindOf, type ObjectKind } from "./object-kinds.ts";

export const adminOption = () =>
  new Option("--admin <address>", "the admin port of the gateway").env(ADMIN_URL_ENV).default(DEFAULT_ADMIN);
export const keyEnvOption = () =>
  new Option("--key-env <variable>", `the environment variable that holds the admin key, in place of ${ADMIN_KEY_ENV}`);
export const accountOption = () => new Option("--account <name>", "the account; default: that of the key");
export const jsonOption = () => new Option("--json", "print JSON").default(false);
export const wideOption = () => new Option("--wide", "all columns, whatever the window has room for").default(false);
export const watchOption = () => new Option("--watch", "draw it anew each second, until Ctrl-C").default(false);
export const timeoutOption = (ms: number) =>
  new Option("--timeout-ms <ms>", "how long a node may take for everything").argParser(countOf(1, 600_000)).default(ms);
export const configOption = () =>
  new Option("-c, --config <file>", "the configuration file").default(DEFAULT_CONFIG_FILE);

/** Reads a whole number out of an option. */
export function countOf(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It has to be a whole number from ${min} to ${max}.`);
  };
}

/** Collects an option that may stand several times. */
export function repeated(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

/** The same, of words that have no commas: they may stand between some. */
export function listOf(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), ...text.split(",").filter((part) => part !== "")];
}

/** Reads a kind of objects out of an argument: singular and plural mean the same. */
export function kindArgument(text: string): ObjectKind {
  const kind = kindOf(text);
  if (kind !== null) return kind;
  throw new InvalidArgumentError(`It has to be one of ${KIND_WORDS.join(", ")}.`);
}
