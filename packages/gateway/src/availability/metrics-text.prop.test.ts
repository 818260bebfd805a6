import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { foldMetric, parseMetrics } from "./metrics-text.ts";

interface Line {
  name: string;
  labels: [string, string][];
  value: number;
  spelling: { space: string; comma: boolean; end: string; timestamp: boolean };
}

const name = fc.stringMatching(/^[a-zA-Z_:][a-zA-Z0-9_:]{0,12}$/);
const label = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,8}$/);
const labelValue = fc.string({
  unit: fc.constantFrom("a", "b", " ", ",", "{", "}", "=", '"', "\\", "\n", "#", "é", "n"),
});
const value = fc.oneof(
  fc.double({ noDefaultInfinity: true, noNaN: true }).map((number) => number + 0),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1.7e9, 0),
);
const line: fc.Arbitrary<Line> = fc.record({
  name,
  labels: fc.uniqueArray(fc.tuple(label, labelValue), { selector: ([key]) => key, maxLength: 4 }),
  value,
  spelling: fc.record({
    space: fc.constantFrom("", " ", "\t"),
    comma: fc.boolean(),
    end: fc.constantFrom("\n", "\r\n", " \n", "\n\n", '\n# HELP x {a="b"} 1\n'),
    timestamp: fc.boolean(),
  }),
});

function spell(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  return value === Number.POSITIVE_INFINITY ? "+Inf" : value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}

function render({ name, labels, value, spelling }: Line): string {
  const { space } = spelling;
  const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  const pairs = labels.map(([key, text]) => `${key}${space}=${space}"${escaped(text)}"`).join(`,${space}`);
  const block = labels.length === 0 ? "" : `{${space}${pairs}${spelling.comma ? "," : ""}${space}}${space}`;
  return `${name}${block} ${spell(value)}${spelling.timestamp ? " 1700000000000" : ""}${spelling.end}`;
}

/** The grammar as one expression: slow and obvious. */
const GRAMMAR =
  /^[ \t\r]*([^ \t\r{#][^ \t\r{]*)(?=[ \t\r{]|$)[ \t\r]*(?:\{((?:[^=},"]*[^=},"\s][^=},"]*=[ \t\r]*"(?:[^"\\]|\\[\s\S])*"[ \t\r]*(?:,|(?=\})))*[ \t\r]*)\})?[ \t\r]*([^ \t\r]+)/;

function reference(text: string): { name: string; labels: Record<string, string>; value: number }[] {
  return text.split("\n").flatMap((row) => {
    const match = GRAMMAR.exec(row);
    if (match === null) return [];
    const [, name = "", block = "", token = ""] = match;
    const value = /^[+-]?Inf$/.test(token) ? (token.startsWith("-") ? -Infinity : Infinity) : Number(token);
    if (Number.isNaN(value) && token !== "NaN") return [];
    const labels: Record<string, string> = {};
    for (const [, key = "", text = ""] of block.matchAll(/([^=},"]+)=[ \t\r]*"((?:[^"\\]|\\.)*)"/g)) {
      labels[key.trim()] = text.replace(/\\([\s\S])/g, (whole, escaped: string) =>
        escaped === "n" ? "\n" : escaped === '"' || escaped === "\\" ? escaped : whole,
      );
    }
    return [{ name, labels, value }];
  });
}

function flat(text: string) {
  return Array.from(parseMetrics(text), ([name, samples]) =>
    samples.map(({ labels, value }) => ({ name, labels: Object.fromEntries(labels), value })),
  ).flat();
}

const byName = <T extends { name: string }>(rows: T[]): T[] =>
  rows.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

describe("the Prometheus text parser", () => {
  it("gives back what was written, in every spelling", () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
        const expected = lines.map(({ name, labels, value }) => ({ name, labels: Object.fromEntries(labels), value }));
        assert.deepEqual(byName(flat(lines.map(render).join(""))), byName(expected));
      }),
    );
  });

  it("agrees with a slow reference on damaged text", () => {
    const damage = fc.record({
      at: fc.nat(),
      drop: fc.nat({ max: 6 }),
      insert: fc.string({ unit: fc.constantFrom('"', "{", "}", ",", " ", "1", "\\"), maxLength: 2 }),
    });
    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 3 }), damage, (lines, { at, drop, insert }) => {
        const whole = lines.map(render).join("");
        const cut = at % whole.length;
        const text = whole.slice(0, cut) + insert + whole.slice(cut + drop);
        assert.deepEqual(byName(flat(text)), byName(reference(text)));
      }),
      { numRuns: 500 },
    );
  });

  it("throws on nothing, and finds the same with a list of wanted names", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.array(line, { maxLength: 4 }), (noise, lines) => {
        const text = `${noise}\n${lines.map(render).join("")}`;
        const wanted = new Set(lines.slice(0, 2).map((entry) => entry.name));
        const all = parseMetrics(text);
        const some = parseMetrics(text, wanted);
        for (const name of wanted) assert.deepEqual(some.get(name), all.get(name));
        assert.ok([...some.keys()].every((name) => wanted.has(name)));
      }),
    );
  });
});

describe("folding the series of a node", () => {
  const fold = (text: string, kind: "sum" | "mean" | "max") => foldMetric(parseMetrics(text), ["m", "old"], kind);

  it("sums data-parallel ranks and counts copies of other processes and tensor ranks once", () => {
    assert.equal(fold('m{engine="0"} 3\nm{engine="1"} 4\n', "sum"), 7);
    assert.equal(fold('m{engine="0",pid="1"} 3\nm{engine="0",pid="2"} 0\nm{pid="1",engine="1"} 4\n', "sum"), 7);
    assert.equal(fold('m{tp_rank="0",dp_rank="0"} 3\nm{tp_rank="1",dp_rank="0"} 3\n', "sum"), 3);
    assert.equal(fold('m{pp_rank="0"} 3\nm{pp_rank="1"} 2\n', "sum"), 3);
    assert.equal(fold('m{engine="0",pid="1"} 0.5\nm{engine="1",pid="1"} 0.1\n', "mean"), 0.3);
  });

  it("reads an old name only where the new one has no value", () => {
    assert.equal(fold("old 5\nm 4\n", "sum"), 4);
    assert.equal(fold("old 5\nm NaN\n", "sum"), 5);
  });

  it("keeps unknown unknown: missing, NaN, infinite, negative, and the marks of exporters", () => {
    for (const text of ["", "x 1", "m NaN", "m +Inf", "m -1", "m 9223372036854775794"]) {
      assert.equal(fold(text, "sum"), Number.NaN, text);
    }
    assert.equal(fold('m{engine="0"} NaN\nm{engine="1"} 4\n', "sum"), 4);
  });
});
