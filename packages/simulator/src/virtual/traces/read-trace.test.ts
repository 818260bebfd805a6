import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseTrace, readTrace } from "./read-trace.ts";

const AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens";
const AGENT = "session,session_start_s,turn,start_s,input_tokens,output_tokens,duration_s,is_error";

function refused(text: string): string {
  try {
    parseTrace("t", text);
  } catch (error) {
    return String((error as Error).message);
  }
  return "taken";
}

describe("a bad trace is refused with its line", () => {
  const azure = (...rows: string[]) => refused([AZURE, ...rows].join("\r\n"));
  it("when it is empty, or has a head only", () => {
    assert.equal(refused(""), "t:1: the trace is empty");
    assert.equal(refused("\n"), "t:1: the trace is empty");
    assert.equal(azure(), "t:1: the trace has no row");
  });
  it("when it is no trace", () => {
    assert.match(
      refused("a,b\n1,2\n"),
      /^t:1: this is the head of no trace that is known: "a,b"; known are the columns TIME/,
    );
    assert.match(refused("PK\u0003\u0004"), /^t:1: this is the head of no trace/);
  });
  it("when a column is missing", () => {
    assert.match(
      refused("TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,1\n"),
      /^t:1: no column GeneratedTokens: the columns are/,
    );
    assert.match(
      refused("session,turn,start_s\n0,0,0\n"),
      /^t:1: no column input_tokens, no column output_tokens, no column dur/,
    );
  });
  it("when a row has too few cells or no numbers", () => {
    assert.match(azure("2023-11-16 18:15:46.1,12"), /^t:2: 2 cells, the head has 3/);
    assert.match(azure("2023-11-16 18:15:46.1,12,", "x"), /^t:2: GeneratedTokens is no number: ""/);
    assert.match(azure("yesterday,12,1"), /^t:2: TIMESTAMP is no time: "yesterday"/);
  });
  it("when a length is negative, broken or absurd", () => {
    assert.match(
      azure("2023-11-16 18:15:46,12,1", "2023-11-16 18:15:47,-1,1"),
      /^t:3: ContextTokens is -1: it must be 0 or more/,
    );
    assert.match(azure("2023-11-16 18:15:46,1.5,1"), /^t:2: ContextTokens is 1.5: it must be a whole number/);
    assert.match(azure("2023-11-16 18:15:46,1e9,1"), /^t:2: ContextTokens is 1000000000: at most 10000000 is a length/);
    assert.match(
      refused('{"timestamp":0,"input_length":1,"output_length":2e6,"hash_ids":[]}'),
      /^t:1: output_length is 2000000/,
    );
  });
  it("when time goes backwards", () => {
    assert.match(
      azure("2023-11-16 18:15:46,1,1", "2023-11-16 18:15:45.9,1,1"),
      /^t:3: TIMESTAMP is earlier than in the row before/,
    );
    const line = (at: number) => JSON.stringify({ timestamp: at, input_length: 1, output_length: 1, hash_ids: [] });
    assert.match(refused(`${line(5)}\n${line(4)}\n`), /^t:2: timestamp is earlier/);
    assert.match(refused(`${AGENT}\n0,0,0,5,10,1,1,0\n0,0,1,4,10,1,1,0\n`), /^t:3: start_s is earlier/);
    assert.match(
      refused(`${AGENT}\n0,0,1,5,10,1,1,0\n0,0,1,6,10,1,1,0\n`),
      /^t:3: turn 1 of session 0 comes after its turn 1/,
    );
  });
  it("when times lie further apart than anybody records", () => {
    assert.match(
      azure("2023-11-16 18:15:46,1,1", "9999-12-31 18:15:46,1,1"),
      /^t:3: TIMESTAMP is 2913\d+ days after the first row: at most 366 is a trace/,
    );
    const line = (at: number) => JSON.stringify({ timestamp: at, input_length: 1, output_length: 1, hash_ids: [] });
    assert.match(refused(`${line(0)}\n${line(1e300)}\n`), /^t:2: timestamp is 1.16e\+292 days after the first row/);
    assert.match(refused(`${AGENT}\n0,0,0,5,10,1,1,0\n0,0,1,1e12,10,1,1,0\n`), /^t:3: start_s is \d+ days after/);
  });
  it("when a column is there twice", () => {
    const head = "TIMESTAMP,ContextTokens,ContextTokens,GeneratedTokens";
    assert.equal(
      refused(`${head}\n2023-11-16 18:15:46,1,2,3\n`),
      "t:1: column ContextTokens is there twice: keep one of them",
    );
  });
  it("when a line is no JSON, or lacks a member", () => {
    assert.match(
      refused('{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[]}\n{"timestamp"'),
      /^t:2: this is no JSON/,
    );
    assert.match(refused('{"timestamp":0,"input_length":1,"output_length":1}'), /^t:1: hash_ids is no list/);
    assert.match(refused('{"timestamp":0,"output_length":1}'), /^t:1: input_length is no number/);
  });
  it("when there is no such file", () => {
    assert.throws(() => readTrace("/does/not/exist.csv"), /exist.csv:1: the trace can't be read: ENOENT/);
  });
  it("when no row has a prompt and an output", () => {
    assert.equal(azure("2023-11-16 18:15:46,0,1", "2023-11-16 18:15:46,1,0"), "t:1: no row has a prompt and an output");
  });
});

describe("a trace", () => {
  it("of Azure is read with times from its first row, whatever its line ends; empty rows are counted and left out", () => {
    const text = `${AZURE}\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:47.1805900,0,109\r\n2023-11-16 18:15:48.6805900,5,1\r\n`;
    const { format, rows, emptyRows, rps } = parseTrace("t", text);
    assert.deepEqual([format, rows.length, emptyRows, rps], ["azure", 2, 1, 1]);
    assert.deepEqual(rows[1], {
      atMs: 2_000,
      promptTokens: 5,
      outputTokens: 1,
      session: -1,
      pauseMs: Number.NaN,
      blocks: null,
    });
  });
  it("of Mooncake keeps the ids of full blocks only", () => {
    const { rows } = parseTrace("t", '{"timestamp":7,"input_length":1100,"output_length":2,"hash_ids":[4,5,6]}');
    assert.deepEqual([rows[0]?.atMs, ...(rows[0]?.blocks ?? [])], [0, 4, 5]);
  });
  it("of agents pauses from the end of the turn before, and shares a prompt's growing part only", () => {
    const turns = ["0,9,0,0,1024,5,2.5,0", "1,9,0,0,1024,5,1,0", "0,9,1,4,1600,5,1,0", "0,9,2,4.5,700,5,1,0"];
    const { rows } = parseTrace("t", [AGENT, ...turns].join("\n"));
    assert.deepEqual(
      rows.map(({ pauseMs }) => pauseMs),
      [Number.NaN, Number.NaN, 1_500, 0],
    );
    const [first, other, second, cut] = rows.map(({ blocks }) => [...(blocks ?? [])]);
    assert.deepEqual(second?.slice(0, 2), first);
    assert.notDeepEqual(other, first);
    assert.equal(first?.includes(cut?.[0] ?? -1), false);
  });
  it("of Vidur has lengths and no times", () => {
    const { rows, rps } = parseTrace("t", "num_prefill_tokens,num_decode_tokens,pd_ratio\n3772,54,69.8\n");
    assert.deepEqual(
      [rows[0]?.promptTokens, rows[0]?.outputTokens, rows[0]?.atMs, rps],
      [3772, 54, Number.NaN, Number.NaN],
    );
  });
});
