/** The system's or TLS's word for an error of a connection, such as `ECONNREFUSED`; else the error's name. */
export function codeOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : error instanceof Error ? error.name : "unknown";
}
