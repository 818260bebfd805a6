/**
 * The log of the process, on standard error: JSON lines, or text at a terminal. Writing waits for nobody: what a reader does
 * not take is kept up to a bound, then left out and counted. Lines that repeat themselves are counted after a few.
 */

import type { LogLevel, TelemetryConfig } from "@zml/protocol";
import type { Logger } from "pino";
import type { GatewayLog, LogControl } from "../control/gateway-log.ts";
import { createLineLog, type LogFormat, lineAsText } from "../telemetry/log-lines.ts";
import { createRedactor } from "../telemetry/redact.ts";

/** What lines go to: a stream that buffers what is not taken. */
export interface LogStream {
  readonly writableLength: number;
  readonly destroyed: boolean;
  readonly isTTY?: boolean | undefined;
  write(text: string, onWritten?: () => void): unknown;
}

export interface LogOptions {
  readonly stream: LogStream;
  readonly level: LogLevel;
  /** `auto`: text at a terminal. */
  readonly format: LogFormat | "auto";
}

/** The window in which lines of the same text are counted, ms. */
const WINDOW_MS = 10_000;
/** Texts that are told apart in a window; beyond, all others count as one. */
const TEXTS_MAX = 512;

/** Until there is a configuration. */
const START: TelemetryConfig["log"] = { level: null, repeats: 20, bufferBytes: 4 * 2 ** 20 };

type WrittenLevel = Exclude<LogLevel, "silent">;

export class ProcessLog implements GatewayLog, LogControl {
  readonly format: LogFormat;
  readonly leftOut = { unread: 0, repeated: 0 };
  readonly #stream: LogStream;
  readonly #lines: Logger;
  #settings = START;
  #redact = createRedactor([]);
  #level: LogLevel;
  /** Lines of the present window by text, as far as they were counted. */
  readonly #seen = new Map<string, { readonly level: WrittenLevel; readonly text: string; count: number }>();
  #window: NodeJS.Timeout | null = null;
  /** Lines that nobody has been told of, that were left out. */
  #untold = 0;

  constructor({ stream, level, format }: LogOptions) {
    this.#stream = stream;
    this.#level = level;
    this.format = format === "auto" ? (stream.isTTY === true ? "text" : "json") : format;
    this.#lines = createLineLog(level, (line) => this.#write(line));
  }

  get level(): LogLevel {
    return this.#level;
  }

  setLevel(level: LogLevel): void {
    if (level === this.#level) return;
    // who reads the log should see why it changes: by the level that writes more
    const tell = (): void => this.#lines.info({ to: level }, "the log level was changed");
    const isToldBefore = this.#lines.isLevelEnabled("info");
    if (isToldBefore) tell();
    this.#level = level;
    this.#lines.level = level;
    if (!isToldBefore) tell();
  }

  configure(settings: TelemetryConfig["log"], secrets: readonly string[]): void {
    this.#settings = settings;
    this.#redact = createRedactor(secrets);
  }

  debug(fields: object, message: string): void {
    // whoever asks for them wants each
    this.#lines.debug(fields, message);
  }

  info(fields: object, message: string): void {
    this.#say("info", fields, message);
  }

  warn(fields: object, message: string): void {
    this.#say("warn", fields, message);
  }

  error(fields: object, message: string): void {
    this.#say("error", fields, message);
  }

  writeLines(text: string): void {
    this.#put(text, text.split("\n").length - 1);
  }

  /** Lets what waits leave, within so long. */
  async flush(withinMs: number): Promise<void> {
    if (this.#stream.destroyed || this.#stream.writableLength === 0) return;
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, withinMs);
    this.#stream.write("", over.resolve);
    await over.promise;
    clearTimeout(timer);
  }

  #say(level: WrittenLevel, fields: object, message: string): void {
    if (!this.#lines.isLevelEnabled(level)) return;
    if (this.#mayRepeat(level, message)) this.#lines[level](fields, message);
    else this.leftOut.repeated += 1;
  }

  #mayRepeat(level: WrittenLevel, message: string): boolean {
    this.#window ??= setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
    const key = `${level} ${message}`;
    const text = this.#seen.has(key) || this.#seen.size < TEXTS_MAX ? message : "";
    const seen = this.#seen.get(text === "" ? "" : key) ?? { level, text, count: 0 };
    seen.count += 1;
    this.#seen.set(text === "" ? "" : key, seen);
    return seen.count <= this.#settings.repeats;
  }

  #endWindow(): void {
    this.#window = null;
    const seen = [...this.#seen.values()];
    this.#seen.clear();
    for (const { level, text, count } of seen) {
      const repeated = count - this.#settings.repeats;
      if (repeated > 0)
        this.#lines[level]({ text, lines: repeated, windowMs: WINDOW_MS }, "lines that repeat were left out");
    }
  }

  #write(line: string): void {
    const clean = this.#redact(line);
    this.#put(this.format === "text" ? lineAsText(clean) : clean, 1);
  }

  #put(text: string, lines: number): void {
    const { writableLength, destroyed } = this.#stream;
    if (destroyed || writableLength + text.length > this.#settings.bufferBytes) {
      // told once what waits has left, whether or not a line comes after it
      if (this.#untold === 0 && !destroyed) this.#stream.write("", () => this.#tellLeftOut());
      this.leftOut.unread += lines;
      this.#untold += lines;
      return;
    }
    this.#tellLeftOut();
    this.#stream.write(text);
  }

  #tellLeftOut(): void {
    const lines = this.#untold;
    if (lines === 0) return;
    this.#untold = 0;
    this.#lines.warn({ lines }, "lines were left out: nobody read the log");
  }
}
