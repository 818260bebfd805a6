/** A local server that stands in for a price interface. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** What the server was asked. */
export interface Asked {
  readonly method: string;
  /** Path and query. */
  readonly url: URL;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** What it answers; a function may do worse to the connection. */
export type Answer =
  | { readonly status?: number; readonly headers?: Record<string, string>; readonly body: string | Uint8Array }
  | ((response: ServerResponse) => void);

export interface PriceServer {
  readonly url: string;
  readonly asked: Asked[];
  /** Answers from now on. */
  answer: (asked: Asked) => Answer;
}

/** Starts one; it goes with the test. */
export async function priceServer(t: TestContext, answer: (asked: Asked) => Answer): Promise<PriceServer> {
  const server = createServer(async (request, response) => {
    let body = "";
    try {
      for await (const chunk of request.setEncoding("utf8")) body += chunk;
    } catch {
      return;
    }
    const asked: Asked = {
      method: request.method ?? "",
      url: new URL(request.url ?? "/", "http://prices.test"),
      headers: request.headers,
      body,
    };
    own.asked.push(asked);
    const reply = own.answer(asked);
    if (typeof reply === "function") {
      reply(response);
      return;
    }
    response.writeHead(reply.status ?? 200, reply.headers ?? {});
    response.end(reply.body);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const own: PriceServer = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: [], answer };
  return own;
}

/** JSON as an answer. */
export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return { status, headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(value) };
}
