/**
 * What everything is compared with: `node:http` in, undici out, the body buffered, nothing else. Prints its port, which may
 * be given.
 */

import { createServer } from "node:http";
import { Pool } from "undici";

const pool = new Pool(process.argv[2] ?? "", { connections: 16_384, pipelining: 1 });

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
    pool.dispatch(
      { path: request.url ?? "/", method: "POST", headers: { "content-type": "application/json" }, body: body ?? null },
      {
        onRequestStart() {},
        onResponseStart(_controller, status, headers) {
          const fields: string[] = ["content-type", String(headers["content-type"])];
          if (headers["content-length"] !== undefined) fields.push("content-length", String(headers["content-length"]));
          response.writeHead(status, fields);
        },
        onResponseData(controller, chunk) {
          if (!response.write(chunk)) {
            controller.pause();
            response.once("drain", () => controller.resume());
          }
        },
        onResponseEnd() {
          response.end();
        },
        onResponseError() {
          response.destroy();
        },
      },
    );
  });
});

server.listen(Number(process.argv[3] ?? 0), "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`);
});
