/** Lines of the log: pino makes them, secrets are taken out of them, and people at a terminal get them as text. */

import { type Logger, pino } from "pino";
import { redactNames } from "./redact.ts";

export type LogFormat = "json" | "text";

/** Times and levels are words: `{"level":"info","time":"2026-11-30T12:00:00.000Z",…,"msg":"drained"}`. */
export function createLineLog(
  level: string,
  write: (line: string) => void,
  { hasOwnTime = false }: { hasOwnTime?: boolean } = {},
): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: hasOwnTime ? false : () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }), log: redactNames },
    },
    { write },
  );
}

/** A JSON line as people read it: `12:00:00.000 INFO  drained interrupted=0`. */
export function lineAsText(line: string): string {
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return line;
  }
  const { level, time, msg, ...others } = fields;
  const clock = typeof time === "string" ? time.slice(11, 23) : "";
  const parts = Object.entries(others).map(([name, value]) => `${name}=${shown(value)}`);
  return `${[
    clock,
    String(level ?? "")
      .toUpperCase()
      .padEnd(5),
    String(msg ?? ""),
    ...parts,
  ]
    .join(" ")
    .trimEnd()}\n`;
}

function shown(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  // a line stays a line, and no text from outside moves the cursor
  return /^[!-~]+$/.test(text) && !/["=]/.test(text) ? text : JSON.stringify(text);
}
