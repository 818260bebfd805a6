/** A scripted server for tests: each path answers as told, and everything is counted. */

import { createServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";

/** What a path answers; a function decides at each request, `hang` never answers. */
export type Script = { status?: number; body?: string | object } | "hang";

/** A server with its log. */
export interface ScriptedNode {
  readonly url: string;
  readonly port: number;
  /** Answers by path; others are 404. May be changed at any time. */
  readonly paths: Record<string, Script | ((request: IncomingMessage) => Script)>;
  readonly requests: IncomingMessage[];
  close(): Promise<void>;
}

/** Starts a scripted server. */
export async function startScriptedNode(paths: ScriptedNode["paths"], port = 0): Promise<ScriptedNode> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    const path = (request.url ?? "").split("?")[0] ?? "";
    const entry = paths[path] ?? { status: 404 };
    const script = typeof entry === "function" ? entry(request) : entry;
    if (script === "hang") return;
    const { status = 200, body = "" } = script;
    response.writeHead(status, { "content-type": typeof body === "string" ? "text/plain" : "application/json" });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  });
  const { url, close } = await listen(server, port);
  return { url, port: Number(new URL(url).port), paths, requests, close };
}

/** Starts a server that takes connections and says nothing. */
export async function startBlackHole(): Promise<{ url: string; close(): Promise<void> }> {
  return listen(
    createTcpServer((socket) => socket.on("error", () => {})),
    0,
  );
}

async function listen(server: Server | ReturnType<typeof createTcpServer>, port: number) {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
