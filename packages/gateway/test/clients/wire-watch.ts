/**
 * A TCP relay in front of the gateway that changes nothing and notes what goes over the wire: how often a client asks,
 * what it gets, and how long it waits in between. What a client reports of itself says nothing about its retries.
 */
import { type AddressInfo, connect, createServer } from "node:net";
import type { Owner } from "../control-fixture.ts";

export interface WireCall {
  readonly method: string;
  readonly path: string;
  readonly atMs: number;
  /** -1 while there is no answer. */
  status: number;
  answeredAtMs: number;
}

export class WireWatch {
  #calls: WireCall[] = [];
  #onStatus: ((status: number) => void) | null = null;
  /** Where it listens. */
  port = 0;

  static async start(owner: Owner, target: { host: string; port: number }): Promise<WireWatch> {
    const sockets = new Set<{ destroy(): unknown }>();
    const watch = new WireWatch();
    const server = createServer({ noDelay: true }, (client) => {
      const gateway = connect({ ...target, noDelay: true });
      let call: WireCall | null = null;
      client.on("data", (chunk: Buffer) => {
        // clients wait for an answer before they ask again, so that a request starts a chunk
        const [, method, path] = /^([A-Z]+) (\S+) HTTP\/1\.[01]\r\n/.exec(chunk.toString("latin1")) ?? [];
        if (method === undefined || path === undefined) return;
        call = { method, path, atMs: performance.now(), status: -1, answeredAtMs: Number.NaN };
        watch.#calls.push(call);
      });
      gateway.on("data", (chunk: Buffer) => {
        const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(chunk.toString("latin1"))?.[1] ?? 0);
        if (call === null || call.status >= 0 || status < 200) return;
        call.status = status;
        call.answeredAtMs = performance.now();
        watch.#onStatus?.(status);
      });
      for (const [from, to] of [
        [client, gateway],
        [gateway, client],
      ] as const) {
        sockets.add(from);
        from.pipe(to);
        from.on("error", () => to.destroy());
        from.on("close", () => {
          sockets.delete(from);
          to.destroySoon();
        });
      }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    owner.after(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    watch.port = (server.address() as AddressInfo).port;
    return watch;
  }

  /** Forgets the calls so far; `onStatus` hears the status of each answer from now on. */
  begin(onStatus: ((status: number) => void) | null): void {
    this.#calls = [];
    this.#onStatus = onStatus;
  }

  get calls(): readonly WireCall[] {
    return this.#calls;
  }
}
