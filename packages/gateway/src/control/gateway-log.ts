import type { LogLevel, TelemetryConfig } from "@zml/protocol";
import type { LogFormat } from "../telemetry/log-lines.ts";

/** Where the gateway's own lines go. A pino logger fits; tests pass none. */
export interface GatewayLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The log as the process has it: what of it changes while the gateway runs. */
export interface LogControl {
  /** The least level that is written. */
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Lines that were not written: nobody read the log, or they repeated others. */
  readonly leftOut: { readonly unread: number; readonly repeated: number };
  setLevel(level: LogLevel): void;
  /**
   * Follows the configuration.
   *
   * @param secrets values that may stand in no line.
   */
  configure(settings: TelemetryConfig["log"], secrets: readonly string[]): void;
  /** Takes whole lines that somebody else made, without secrets. */
  writeLines(text: string): void;
}

/** Says nothing. */
export const SILENT_CONTROL: LogControl = {
  level: "silent",
  format: "json",
  leftOut: { unread: 0, repeated: 0 },
  setLevel() {},
  configure() {},
  writeLines() {},
};

/** Says nothing. */
export const SILENT_LOG: GatewayLog = { debug() {}, info() {}, warn() {}, error() {} };
