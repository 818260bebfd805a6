/** Fields that HTTP/2 has no place for (RFC 9113, 8.2.2). */
export const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
]);
