// Speed of the body scanner: µs per body, µs per KB, and the longest single push. Run: node body-scanner.bench.ts
import { BodyScanner } from "./body-scanner.ts";
import { SCAN_SLICE_BYTES } from "./read-body.ts";

const MIB = 1 << 20;

/** A body of about so many bytes whose messages repeat a piece of JSON. */
function bodyOf(bytes: number, message: (index: number) => unknown): Buffer {
  const messages: unknown[] = [];
  for (let size = 0; size < bytes; ) {
    const next = message(messages.length);
    messages.push(next);
    size += Buffer.byteLength(JSON.stringify(next)) + 1;
  }
  return Buffer.from(
    JSON.stringify({ model: "llama3-70b", stream: true, max_tokens: 256, temperature: 0.7, messages }),
  );
}

const prose = "The quick brown fox jumps over the lazy dog, again and again, until it is tired of it. ";
const chat = (index: number) => ({ role: index % 2 === 0 ? "user" : "assistant", content: prose.repeat(10) });
const code = (index: number) => ({
  role: "user",
  content: `if (a[${index}] === "b") {\n\treturn "c\\n";\n}\n`.repeat(20),
});
const cjk = () => ({ role: "user", content: "漢字とかな交じりの文章です。🙂".repeat(40) });
const image = () => ({
  type: "image_url",
  image_url: { url: `data:image/png;base64,${"iVBORw0KGgo".repeat(90_000)}` },
});
const schema = (index: number) => ({ a: [1, 2.5e-3, true, null, { b: [], c: {} }], d: index, e: "f" });

const bodies: [string, Buffer][] = [
  ["chat 1 KB", bodyOf(800, chat)],
  ["chat 10 KB", bodyOf(10_000, chat)],
  ["chat 100 KB", bodyOf(100_000, chat)],
  ["code 100 KB", bodyOf(100_000, code)],
  ["CJK 100 KB", bodyOf(100_000, cjk)],
  ["schema 100 KB", bodyOf(100_000, schema)],
  ["image 1 MB", bodyOf(MIB, image)],
];

/** Longest push, each taken at the best of three passes: the machine's other work would hide the scanner's. */
function longestPushMs(body: Buffer, sliceBytes: number): number {
  const bestMs = new Float64Array(Math.ceil(body.length / sliceBytes)).fill(Number.POSITIVE_INFINITY);
  for (let pass = 0; pass < 3; pass++) {
    const scanner = new BodyScanner();
    for (let index = 0; index < bestMs.length; index++) {
      const slice = body.subarray(index * sliceBytes, (index + 1) * sliceBytes);
      const startMs = performance.now();
      scanner.push(slice);
      bestMs[index] = Math.min(bestMs[index] as number, performance.now() - startMs);
    }
    if (!scanner.end().ok) throw new Error("the bench's body is not valid");
  }
  return Math.max(...bestMs);
}

for (const [name, body] of bodies) {
  const runs = Math.ceil((40 * MIB) / (body.length + 5000));
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 5; round++) {
    const startMs = performance.now();
    for (let run = 0; run < runs; run++) {
      const scanner = new BodyScanner();
      scanner.push(body);
      scanner.end();
    }
    best = Math.min(best, ((performance.now() - startMs) * 1000) / runs);
  }
  const perKb = (best / body.length) * 1024;
  console.log(`${name.padEnd(16)} ${best.toFixed(2).padStart(9)} µs  ${perKb.toFixed(3)} µs/KB`);
}

for (const [name, message] of [
  ["image", image],
  ["chat", chat],
  ["schema", schema],
] as const) {
  const body = bodyOf(64 * MIB - 2 * MIB, message);
  for (const sliceBytes of [64 * 1024, SCAN_SLICE_BYTES]) {
    const longestMs = longestPushMs(body, sliceBytes);
    console.log(`64 MiB ${name} in ${sliceBytes / 1024} KiB pushes: longest ${longestMs.toFixed(2)} ms`);
  }
}
