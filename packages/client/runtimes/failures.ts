/** What an application sees when things fail, by address: each runtime's fetch says it in its own way. */
import { ZML } from "@zml/client";

export interface Addresses {
  readonly closed: string;
  readonly tls: string;
  readonly reset: string;
  readonly stall: string;
  readonly garbage: string;
  readonly page: string;
}

const ask = { model: "m", messages: [{ role: "user", content: "hello" }] };

/** @returns the name of each error, as JSON. */
export async function fail(at: Addresses): Promise<string> {
  const nameOf = async (call: Promise<unknown>): Promise<string> => {
    try {
      await call;
      return "none";
    } catch (error) {
      return error instanceof Error ? error.name : String(error);
    }
  };
  const to = (baseUrl: string, timeoutMs = 20_000): ZML => new ZML({ baseUrl, maxRetries: 0, timeoutMs });
  const readAll = async (client: ZML): Promise<void> => {
    for await (const _ of await client.infer({ ...ask, stream: true }));
  };
  const controller = new AbortController();
  const abort = async (): Promise<void> => {
    const stream = await to(at.stall).infer({ ...ask, stream: true, signal: controller.signal });
    await stream.next();
    const waiting = stream.next();
    controller.abort();
    await waiting;
  };
  const leave = async (): Promise<void> => {
    for await (const _ of await to(at.stall).infer({ ...ask, stream: true })) break;
  };
  return JSON.stringify({
    closed: await nameOf(to(at.closed).infer(ask)),
    tls: await nameOf(to(at.tls).infer(ask)),
    garbage: await nameOf(to(at.garbage).infer(ask)),
    page: await nameOf(to(at.page).infer(ask)),
    reset: await nameOf(readAll(to(at.reset))),
    silence: await nameOf(readAll(to(at.stall, 200))),
    abort: await nameOf(abort()),
    leave: await nameOf(leave()),
  });
}
