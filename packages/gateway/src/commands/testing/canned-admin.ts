/** An admin port that answers what a test says, for what a real one does too rarely: conflicts, refusals, half answers. */

import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

/** What the port was asked. */
export interface Asked {
  readonly method: string;
  /** With its query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** Of JSON. */
  readonly body: unknown;
}

/** What it answers. */
export interface Canned {
  readonly status?: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface CannedAdmin {
  /** `127.0.0.1:PORT`. */
  readonly url: string;
  readonly asked: readonly Asked[];
}

/** What an end is registered with, such as a test. */
interface Owner {
  after(end: () => unknown): void;
}

/** Starts it; a question that `answer` does not know is a 404 of the admin port. */
export async function cannedAdmin(t: Owner, answer: (question: string, asked: Asked) => Canned | undefined) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const { method = "", url = "", headers } = request;
    const one = { method, url, headers, body: text === "" ? undefined : (JSON.parse(text) as unknown) };
    asked.push(one);
    const canned = answer(`${method} ${url.split("?")[0]}`, one) ?? problem(404, "not_found", "there is no such thing");
    response.writeHead(canned.status ?? 200, { "content-type": "application/json", ...canned.headers });
    response.end(typeof canned.body === "string" ? canned.body : JSON.stringify(canned.body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked } satisfies CannedAdmin;
}

/** A problem as the admin port tells it. */
export function problem(status: number, code: string, detail: string, errors?: readonly object[]): Canned {
  return {
    status,
    body: { type: `urn:zml:problem:${code}`, title: code, status, detail, code, errors, request_id: "r" },
  };
}

/** An object as the admin port tells it. */
export function object(kind: string, name: string, spec: Readonly<Record<string, unknown>>, more: object = {}) {
  const account = kind === "account" || kind === "price_feed" ? "" : "default";
  return { kind, account, name, owner: "api", revision: "1", created_at: null, updated_at: null, spec, ...more };
}
