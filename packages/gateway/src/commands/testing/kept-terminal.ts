/** A terminal that keeps what a command prints. */

import type { Screen, Terminal } from "../terminal.ts";

export interface KeptTerminal extends Terminal {
  /** All of standard output. */
  stdout(): string;
  /** All of standard error. */
  stderr(): string;
}

export function keptTerminal({
  env = {},
  screen = null,
}: {
  env?: Record<string, string>;
  screen?: Screen | null;
} = {}): KeptTerminal {
  let [out, error] = ["", ""];
  return {
    env,
    out: (text) => {
      out += text;
    },
    error: (text) => {
      error += text;
    },
    screen: () => screen,
    stdout: () => out,
    stderr: () => error,
  };
}
