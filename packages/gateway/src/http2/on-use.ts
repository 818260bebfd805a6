/**
 * `node:http2`, loaded by the first connection that speaks it: 7 MB in each worker of a fleet that speaks HTTP/1.1 on both
 * sides.
 */
export function http2(): typeof import("node:http2") {
  return process.getBuiltinModule("node:http2");
}
