import assert from "node:assert/strict";
import { test } from "node:test";
import { ENDINGS } from "@zml/engine";
import type { Exchange } from "../exchange.ts";
import { REQUEST_FIELDS } from "../thread-messages.ts";
import { RequestSamples } from "./request-samples.ts";
import { createTally } from "./request-tally.ts";

test("each number of a request is sent under its own name", () => {
  let sent: Float64Array = new Float64Array(0);
  const samples = new RequestSamples((flat) => {
    sent = flat;
  });
  const tally = createTally();
  const names = REQUEST_FIELDS.filter((name) => !["endpoint", "ending", "code", "durationMs"].includes(name));
  names.forEach((name, index) => {
    Reflect.set(tally, name, 1 + index);
  });
  const exchange = { tally, interruption: "caller_gone", route: { endpoint: 100 } } as unknown as Exchange;
  // more than what it has room for at first
  for (let each = 0; each < 65; each++) samples.add(exchange, 200);
  samples.flush();
  assert.equal(sent.length, 65 * REQUEST_FIELDS.length);
  const at = (name: (typeof REQUEST_FIELDS)[number]) => sent[REQUEST_FIELDS.indexOf(name)];
  for (const name of names) assert.equal(at(name), Reflect.get(tally, name), name);
  assert.deepEqual([at("endpoint"), at("code"), at("durationMs")], [100, -1, 200]);
  assert.equal(ENDINGS[at("ending") ?? -1], "cancelled");
});
