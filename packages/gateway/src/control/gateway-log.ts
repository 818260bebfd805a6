/** Where the gateway's own lines go. A pino logger fits; tests pass none. */
export interface GatewayLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Says nothing. */
export const SILENT_LOG: GatewayLog = { debug() {}, info() {}, warn() {}, error() {} };
