/** The short form of `npm run fuzz`, with seeds that never change; docs/benchmarks/fuzz.md has the long one. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fuzz, KINDS, nameText } from "./fuzz.ts";
import { strictRequests } from "./strict-requests.ts";

test("whatever callers and nodes send, nobody's request is made up, each is answered, and nothing is left behind", async () => {
  // every 41st byte at which an answer can be cut, and some hundred cases of each kind
  const report = await fuzz({ seed: 2026, durationMs: 4_000, cutStride: 41 });
  const failed = report.failures.map(
    ({ name, what }) => `npm run fuzz -- --seed 2026 --only ${nameText(name)}: ${what}`,
  );
  assert.deepEqual([...failed, ...report.faults], []);
  assert.equal(report.inFlightAtEnd, 0);
  assert.equal(report.workerCrashes, 0);
  for (const kind of KINDS) assert.ok(report.cases[kind] > 10, `${report.cases[kind]} cases of ${kind}`);
  assert.ok(report.recorded > 10, "well-formed requests reach the node, so that one that was smuggled would, too");
});

test("the strict reader stops at whatever two readers could see in two ways", () => {
  const body = '{"user":"a-1-0"}';
  const head = "POST / HTTP/1.1\r\nhost: x\r\n";
  const good = `${head}content-length: ${body.length}\r\n\r\n${body}`;
  const marks = (text: string) =>
    strictRequests(Buffer.from(text, "latin1")).map(({ mark, body: read }) => [mark, read !== null]);
  const hidden = good.replace("a-1-0", "b-1-1");
  assert.deepEqual(marks(good + hidden), [
    ["a-1-0", true],
    ["b-1-1", true],
  ]);
  for (const odd of [
    "content-length: +16",
    "content-length: 16\r\ncontent-length: 16",
    "transfer-encoding: gzip, chunked",
    "content-length : 16",
    "x: y\ncontent-length: 16",
  ]) {
    assert.deepEqual(marks(`${head}${odd}\r\n\r\n${body}${hidden}`), [["a-1-0", false]], odd);
  }
  for (const chunk of ["0x10", "+10", "10 ", "10;a\n"]) {
    assert.deepEqual(
      marks(`${head}transfer-encoding: chunked\r\n\r\n${chunk}\r\n${body}\r\n0\r\n\r\n${hidden}`),
      [["a-1-0", false]],
      chunk,
    );
  }
});
