/** A small DNS server for tests: A, AAAA and SRV over UDP and TCP on one port, with whatever codes a test wants. */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { TestContext } from "node:test";

export const RCODE = { noError: 0, formErr: 1, servFail: 2, nxDomain: 3, refused: 5 } as const;
const TYPES: Readonly<Record<number, "A" | "AAAA" | "SRV">> = { 1: "A", 28: "AAAA", 33: "SRV" };
/** Larger answers are truncated over UDP, so that the asker comes back over TCP. */
const UDP_BYTES_MAX = 512;

/** What a question is answered with; "silence": nothing. */
export type DnsAnswer =
  | "silence"
  | { readonly rcode?: number; readonly a?: readonly string[]; readonly aaaa?: readonly string[] }
  | { readonly rcode?: number; readonly srv: readonly { readonly name: string; readonly port: number }[] };

export interface DnsServer {
  /** ADDRESS:PORT */
  readonly address: string;
  /** `A name`, `SRV name`, … over `udp` or `tcp`. */
  readonly asked: { readonly question: string; readonly over: "udp" | "tcp" }[];
  /** Answers from now on. */
  answer: (type: "A" | "AAAA" | "SRV", name: string) => DnsAnswer;
}

/** Starts one; it goes with the test. */
export async function dnsServer(t: TestContext, answer: DnsServer["answer"]): Promise<DnsServer> {
  const udp = createSocket("udp4");
  const tcp = createServer((socket) => {
    let held = Buffer.alloc(0);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      held = Buffer.concat([held, chunk]);
      while (held.length >= 2 && held.length >= 2 + held.readUInt16BE(0)) {
        const size = held.readUInt16BE(0);
        const reply = own.reply(held.subarray(2, 2 + size), "tcp");
        held = held.subarray(2 + size);
        if (reply === null) continue;
        const head = Buffer.alloc(2);
        head.writeUInt16BE(reply.length);
        socket.write(Buffer.concat([head, reply]));
      }
    });
  });
  await once(tcp.listen(0, "127.0.0.1"), "listening");
  const { port } = tcp.address() as AddressInfo;
  udp.bind(port, "127.0.0.1");
  await once(udp, "listening");
  udp.on("message", (message, { port: from, address }) => {
    const reply = own.reply(message, "udp");
    if (reply !== null) udp.send(reply, from, address);
  });
  t.after(() => {
    udp.close();
    tcp.close();
  });
  const own = {
    address: `127.0.0.1:${port}`,
    asked: [] as DnsServer["asked"],
    answer,
    reply(question: Buffer, over: "udp" | "tcp"): Buffer | null {
      const { name, end } = readName(question, 12);
      const type = TYPES[question.readUInt16BE(end)];
      if (type === undefined) return response(question, end, RCODE.noError, []);
      own.asked.push({ question: `${type} ${name}`, over });
      const given = own.answer(type, name);
      if (given === "silence") return null;
      const records = recordsOf(given, type);
      const full = response(question, end, given.rcode ?? RCODE.noError, records);
      if (over === "tcp" || full.length <= UDP_BYTES_MAX) return full;
      const cut = response(question, end, RCODE.noError, []);
      cut.writeUInt16BE(cut.readUInt16BE(2) | 0x0200, 2);
      return cut;
    },
  };
  return own;
}

function recordsOf(
  answer: Exclude<DnsAnswer, "silence">,
  type: "A" | "AAAA" | "SRV",
): { type: number; data: Buffer }[] {
  if ("srv" in answer) {
    return answer.srv.map(({ name, port }) => {
      const numbers = Buffer.alloc(6);
      numbers.writeUInt16BE(port, 4);
      return { type: 33, data: Buffer.concat([numbers, writeName(name)]) };
    });
  }
  if (type === "A")
    return (answer.a ?? []).map((address) => ({ type: 1, data: Buffer.from(address.split(".").map(Number)) }));
  return (answer.aaaa ?? []).map((address) => ({ type: 28, data: v6Bytes(address) }));
}

function response(question: Buffer, end: number, rcode: number, records: { type: number; data: Buffer }[]): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(question.readUInt16BE(0), 0);
  // an answer, recursion wanted and there
  head.writeUInt16BE(0x8180 | rcode, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(records.length, 6);
  const parts = [head, question.subarray(12, end + 4)];
  for (const { type, data } of records) {
    const fixed = Buffer.alloc(12);
    // the name of the question
    fixed.writeUInt16BE(0xc00c, 0);
    fixed.writeUInt16BE(type, 2);
    fixed.writeUInt16BE(1, 4);
    // an hour: whoever caches it is found out
    fixed.writeUInt32BE(3600, 6);
    fixed.writeUInt16BE(data.length, 10);
    parts.push(fixed, data);
  }
  return Buffer.concat(parts);
}

function readName(message: Buffer, start: number): { name: string; end: number } {
  const labels: string[] = [];
  let at = start;
  for (let size = message[at] ?? 0; size > 0; size = message[at] ?? 0) {
    labels.push(message.subarray(at + 1, at + 1 + size).toString("latin1"));
    at += 1 + size;
  }
  // askers mix upper and lower case to make answers harder to forge
  return { name: labels.join(".").toLowerCase(), end: at + 1 };
}

function writeName(name: string): Buffer {
  const labels = name.split(".").filter((label) => label !== "");
  return Buffer.concat([
    ...labels.flatMap((label) => [Buffer.from([label.length]), Buffer.from(label)]),
    Buffer.from([0]),
  ]);
}

function v6Bytes(address: string): Buffer {
  const canonical = address.split("::");
  const left = (canonical[0] ?? "").split(":").filter((group) => group !== "");
  const right = (canonical[1] ?? "").split(":").filter((group) => group !== "");
  const groups = [...left, ...Array.from({ length: 8 - left.length - right.length }, () => "0"), ...right];
  const bytes = Buffer.alloc(16);
  for (const [index, group] of groups.entries()) bytes.writeUInt16BE(Number.parseInt(group, 16), 2 * index);
  return bytes;
}
