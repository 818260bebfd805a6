import assert from "node:assert/strict";
import { test } from "node:test";
import type { Recorded } from "./hostile-node.ts";
import { MadeRequests } from "./made-requests.ts";
import { markOf } from "./strict-requests.ts";

const request = (body: string, more = ""): Buffer =>
  Buffer.from(`POST / HTTP/1.1\r\nhost: x\r\n${more}content-length: ${body.length}\r\n\r\n${body}`);
const recorded = (body: string): Recorded => ({ requestLine: "POST /", mark: markOf(body), body: Buffer.from(body) });

const WHOLE = '{"user":"whole-7-0"}';
const DAMAGED = '{"user":"whoLe-7-1"}';

test("a request that reaches its node after its connection closed was made all the same, whatever hit its mark", () => {
  const made = new MadeRequests(60_000);
  made.open(7, Buffer.concat([request(WHOLE), request(DAMAGED)]), true);
  assert.equal(made.close(7), null);
  assert.equal(made.see(recorded(DAMAGED)), null);
  assert.equal(made.see(recorded(WHOLE)), null);
  assert.equal(made.late, 2);
  assert.match(made.see(recorded(WHOLE)) ?? "", /nobody made/, "but not twice");
  assert.match(made.see(recorded(DAMAGED)) ?? "", /nobody made/);
});

test("a request that nobody made is told while its connection is open, after it, and without a connection", () => {
  const made = new MadeRequests(60_000);
  made.open(7, request(WHOLE), true);
  assert.equal(made.see(recorded(WHOLE)), null);
  assert.equal(made.see(recorded('{"user":"hidden-7-1"}')), null, "judged at the close");
  assert.match(made.close(7) ?? "", /"hidden-7-1"/);
  assert.match(made.see(recorded('{"user":"hidden-7-2"}')) ?? "", /nobody made/);
  assert.match(made.see(recorded("}ser")) ?? "", /nobody made/);
  assert.match(made.see(recorded('{"user":"whole-8-0"}')) ?? "", /nobody made/);
});

test("a mark that was damaged into another case's is nobody's fault", () => {
  const made = new MadeRequests(60_000);
  made.open(7, request('{"user":"whole-9-0"}'), true);
  made.open(9, request('{"user":"whole-9-1"}'), true);
  assert.equal(made.see(recorded('{"user":"whole-9-0"}')), null);
  assert.equal(made.close(9), null);
});

test("of a framing that can be read in two ways, only what its own bytes can give is taken", () => {
  const made = new MadeRequests(60_000);
  made.open(
    7,
    Buffer.from(
      "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
    ),
    true,
  );
  assert.match(made.see(recorded("dcba")) ?? "", /nobody made/);
  assert.equal(made.see(recorded("abcd")), null);
  assert.match(made.see(recorded("abcd")) ?? "", /nobody made/);
});

test("a stream's body is its frames', and what stands in a field is never a request", () => {
  const made = new MadeRequests(60_000);
  made.open(7, Buffer.from(`\0\0\x05\0${DAMAGED.slice(0, 5)}\0\0\x05${DAMAGED.slice(5)} {"user":"hidden-7-0"}`), false);
  assert.equal(made.see(recorded(DAMAGED)), null);
  assert.equal(made.close(7), null);
  assert.match(made.see(recorded('{"user":"hidden-7-0"}')) ?? "", /nobody made/);
});

test("a connection explains nothing once it has been closed for long", () => {
  const made = new MadeRequests(-1);
  made.open(7, request(DAMAGED), true);
  made.close(7);
  made.open(8, request(WHOLE), true);
  assert.match(made.see(recorded(DAMAGED)) ?? "", /nobody made/);
});
