import assert from "node:assert/strict";
import { test } from "node:test";
import { durationText, nextDayMs, nextMonthMs, secondText } from "./limit-times.ts";

test("durations are written as OpenAI writes them, and never shorter than they are", () => {
  const texts = [0, 0.2, 350, 999.5, 1000, 1001, 59_001, 60_500, 360_000, 3_600_000, 90_061_000].map(durationText);
  assert.deepEqual(texts, ["0ms", "1ms", "350ms", "1000ms", "1s", "2s", "1m0s", "1m1s", "6m0s", "1h0m0s", "25h1m1s"]);
});

test("moments are whole seconds of RFC 3339, and never earlier than they are", () => {
  const moments = [
    "2026-12-31T23:59:59.001Z",
    "2026-12-31T23:59:59.999Z",
    "2027-01-01T00:00:00Z",
    "2027-01-01T00:00:01Z",
  ];
  assert.deepEqual(
    moments.map((moment) => secondText(Date.parse(moment))),
    ["2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-01T00:00:01Z"],
  );
});

test("days and months end at midnight UTC, also over the end of a year and from midnight on", () => {
  const iso = (ms: number) => new Date(ms).toISOString();
  assert.equal(iso(nextDayMs(Date.parse("2026-12-31T23:59:59.999Z"))), "2027-01-01T00:00:00.000Z");
  assert.equal(iso(nextDayMs(Date.parse("2027-01-01T00:00:00Z"))), "2027-01-02T00:00:00.000Z");
  assert.equal(iso(nextMonthMs(Date.parse("2026-12-31T23:59:59.999Z"))), "2027-01-01T00:00:00.000Z");
  assert.equal(iso(nextMonthMs(Date.parse("2027-01-31T12:00:00Z"))), "2027-02-01T00:00:00.000Z");
});
