/**
 * What calls and events cost a Node process: raw fetch, `@zml/client` and `openai` in turn. Arguments: URL of the server,
 * rounds, rounds with paced events, calls per slot, events per stream. Prints one JSON object: µs of CPU and wall time per
 * call or event and slot. Garbage is not collected between slots: V8 would throw compiled code away with it, and compiling
 * would be what is measured. A slot of events is several streams instead, so that each collects its own.
 */

import { pathToFileURL } from "node:url";
import OpenAI from "openai";

const STREAMS_PER_SLOT = 4;

const [base = "", built = "", ...numbers] = process.argv.slice(2);
const [rounds = 0, pacedRounds = 0, calls = 0, events = 0] = numbers.map(Number);
// what npm would have, not the sources: one file, as it is published
const { ZML } = (await import(pathToFileURL(built).href)) as typeof import("@zml/client");

const ask = { model: "bench", messages: [{ role: "user" as const, content: "Why is the sky blue? ".repeat(20) }] };
const init = (body: object): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json", authorization: "Bearer sk-bench" },
  body: JSON.stringify(body),
});
const url = `${base}/v1/chat/completions`;
const zml = new ZML({ baseUrl: base, apiKey: "sk-bench" });
const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "sk-bench" });

/** As far as the bench reads it. */
interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string | null } }[];
}

const CALLS: Record<string, () => Promise<unknown>> = {
  raw: async () => (await fetch(url, init(ask))).json(),
  zml: () => zml.infer(ask),
  openai: () => openai.chat.completions.create(ask),
};

const streamed = { ...ask, stream: true as const };
const paced = { ...streamed, user: "paced" };

const STREAMS: Record<string, (asked: typeof streamed) => Promise<number>> = {
  async raw(asked) {
    const response = await fetch(url, init(asked));
    const decoder = new TextDecoder();
    let rest = "";
    let count = 0;
    for await (const piece of response.body ?? []) {
      rest += decoder.decode(piece, { stream: true });
      const whole = rest.split("\n\n");
      rest = whole.pop() ?? "";
      for (const event of whole) {
        if (event !== "data: [DONE]") count += lengthOf(JSON.parse(event.slice(6)) as Chunk);
      }
    }
    return count;
  },
  async zml(asked) {
    let count = 0;
    for await (const chunk of await zml.infer(asked)) count += lengthOf(chunk);
    return count;
  },
  async openai(asked) {
    let count = 0;
    for await (const chunk of await openai.chat.completions.create(asked)) count += lengthOf(chunk);
    return count;
  },
};

/** Each event counts once, if it has its text. */
function lengthOf(chunk: Chunk): number {
  return chunk.choices[0]?.delta.content === undefined ? 0 : 1;
}

const empty = (): Record<string, [number, number][]> => ({ raw: [], zml: [], openai: [] });
const times = { call: empty(), event: empty(), paced_event: empty() };

async function slot(into: [number, number][] | undefined, count: number, run: () => Promise<void>): Promise<void> {
  const wallStart = performance.now();
  const cpuStart = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(cpuStart);
  into?.push([(user + system) / count, ((performance.now() - wallStart) * 1000) / count]);
}

async function read(name: string, asked: typeof streamed): Promise<void> {
  const count = await STREAMS[name]?.(asked);
  if (count !== events) throw new Error(`${name}: ${count} of ${events} events came`);
}

/** Another one begins in each round. */
function inTurn(round: number): string[] {
  const names = Object.keys(CALLS);
  const first = round % names.length;
  return [...names.slice(first), ...names.slice(0, first)];
}

for (let round = 0; round < rounds; round++) {
  for (const name of inTurn(round)) {
    await slot(times.call[name], calls, async () => {
      for (let call = 0; call < calls; call++) await CALLS[name]?.();
    });
    await slot(times.event[name], events * STREAMS_PER_SLOT, async () => {
      for (let stream = 0; stream < STREAMS_PER_SLOT; stream++) await read(name, streamed);
    });
  }
}
for (let round = 0; round < pacedRounds; round++) {
  for (const name of inTurn(round)) await slot(times.paced_event[name], events, () => read(name, paced));
}
process.stdout.write(`${JSON.stringify({ node: times })}\n`);
