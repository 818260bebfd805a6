/**
 * `node:http` without the rest of its exports. An `import` of the module reads each of them, and `WebSocket` among them
 * loads Node's own undici, and `node:http2` with it: 14 MB in every thread, for nothing that is used here.
 */

export const { createServer, request, ServerResponse } = process.getBuiltinModule("node:http");
