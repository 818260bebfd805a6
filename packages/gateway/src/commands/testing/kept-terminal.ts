/** A terminal that keeps what a command prints. */

import type { Screen, Terminal } from "../terminal.ts";

export interface KeptTerminal extends Terminal {
  /** All of standard output. */
  stdout(): string;
  /** All of standard error. */
  stderr(): string;
}

/** `input` is what stands on standard input; `answers` are typed, one for each question, then nobody is there. */
export function keptTerminal({
  env = {},
  screen = null,
  input = "",
  answers = [],
}: {
  env?: Record<string, string>;
  screen?: Screen | null;
  input?: string;
  answers?: readonly string[];
} = {}): KeptTerminal {
  let [out, error] = ["", ""];
  const left = [...answers];
  return {
    env,
    out: (text) => {
      out += text;
    },
    error: (text) => {
      error += text;
    },
    screen: () => screen,
    input: async () => input,
    ask: async (question) => {
      error += question;
      return left.shift() ?? null;
    },
    stdout: () => out,
    stderr: () => error,
  };
}
