import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
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

/** The grammar as expressions: slow and obvious. */
const NUMBER = String.raw`[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[Ii][Nn][Ff](?:[Ii][Nn][Ii][Tt][Yy])?|[Nn][Aa][Nn])`;
const LABEL = String.raw`[a-zA-Z_:][a-zA-Z0-9_:]*[ \t\r]*=[ \t\r]*"(?:[^"\\]|\\[\s\S])*"`;
const BLOCK = String.raw`\{[ \t\r]*,?[ \t\r]*(?:${LABEL}[ \t\r]*(?:,[ \t\r]*${LABEL}[ \t\r]*)*,?[ \t\r]*)?\}[ \t\r]*`;
const GRAMMAR = new RegExp(
  String.raw`^[ \t\r]*([a-zA-Z_:][a-zA-Z0-9_:]*)(?=[ \t\r{])[ \t\r]*(${BLOCK})?(${NUMBER})(?:[ \t\r]+${NUMBER})?(?:[ \t\r]+#.*)?[ \t\r]*$`,
);

interface Row {
  name: string;
  labels: Record<string, string>;
  value: number;
}

function reference(text: string): Row[] {
  return text.split("\n").flatMap((row) => {
    const [, name, block = "", token = ""] = GRAMMAR.exec(row) ?? [];
    if (name === undefined) return [];
    const pairs = [...block.matchAll(/([\w:]+)[ \t\r]*=[ \t\r]*"((?:[^"\\]|\\.)*)"/g)].map(
      ([, key = "", value = ""]) => [
        key,
        value.replace(/\\(["\\n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped)),
      ],
    );
    const labels: Record<string, string> = Object.fromEntries(pairs);
    if (Object.keys(labels).length < pairs.length) return [];
    const isInfinite = /inf/i.test(token);
    return [{ name, labels, value: isInfinite ? (token.startsWith("-") ? -Infinity : Infinity) : Number(token) }];
  });
}

/** What the parser finds of every name that stands in the text. */
function flat(text: string): Row[] {
  const wanted = new Set(text.match(/[a-zA-Z_:][a-zA-Z0-9_:]*/g));
  return Array.from(parseMetrics(text, wanted), ([name, samples]) =>
    samples.map(({ labels, value }) => ({ name, labels: Object.fromEntries(labels), value })),
  ).flat();
}

const byName = (rows: Row[]): Row[] => rows.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

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

  it("throws on nothing, and finds a name whatever else is wanted", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.array(line, { maxLength: 4 }), (noise, lines) => {
        const text = `${noise}\n${lines.map(render).join("")}`;
        const names = lines.map((entry) => entry.name);
        const all = parseMetrics(text, new Set([...names, "a", "ab"]));
        for (const name of names) assert.deepEqual(parseMetrics(text, new Set([name])).get(name), all.get(name));
        assert.deepEqual(parseMetrics(text, new Set()), new Map());
      }),
    );
  });

  it("tells a wanted name from those that it begins and that begin it", () => {
    const text = 'ab_total 1\na 2\nabc 3\nab{x="1"} 4\nab\t5\nabé 6\n';
    assert.deepEqual(
      parseMetrics(text, new Set(["ab", "abcd", "ab_total_created"]))
        .get("ab")
        ?.map(({ value }) => value),
      [4, 5],
    );
    assert.deepEqual([...parseMetrics(text, new Set(["abcd", "ab_total_created"])).keys()], []);
  });
});

describe("the bounds of the Prometheus text parser", () => {
  const wanted = new Set(["m", "n"]);
  const series = (name: string, count: number, labels = 1) =>
    Array.from(
      { length: count },
      (_, at) => `${name}{${Array.from({ length: labels }, (_, index) => `l${index}="${at}"`).join(",")}} 1\n`,
    ).join("");

  it("reads a name with too many series as unknown, never as the sum of a part, and the others as they are", () => {
    const atLimit = parseMetrics(`${series("m", 1024)}n 5\n`, wanted);
    assert.equal(foldMetric(atLimit, ["m"], "sum"), 1024);
    const above = parseMetrics(`${series("m", 1025)}n 5\n`, wanted);
    assert.equal(foldMetric(above, ["m"], "sum"), Number.NaN);
    assert.equal(foldMetric(above, ["n"], "sum"), 5);
  });

  it("reads a text with too many labels or lines as one that says nothing", () => {
    assert.equal(parseMetrics(`n 5\n${series("m", 16_384 / 64, 64)}`, wanted).size, 2);
    assert.equal(parseMetrics(`n 5\n${series("m", 16_384 / 64 + 1, 64)}`, wanted).size, 0);
    assert.equal(parseMetrics(`n 5${"\n".repeat(65_536)}`, wanted).size, 1);
    assert.equal(parseMetrics(`n 5${"\n".repeat(65_537)}`, wanted).size, 0);
  });

  it("skips a series with more labels than any engine writes, and a number longer than any program prints", () => {
    assert.equal(parseMetrics(series("m", 1, 65), wanted).size, 0);
    assert.equal(parseMetrics(`m ${"1".repeat(65)}\n`, wanted).size, 0);
    assert.equal(parseMetrics(`m ${"1".repeat(64)}\n`, wanted).size, 1);
  });

  it("keeps no body alive through the label values that it gives away", () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const heapMib = () => {
      collect();
      return process.memoryUsage().heapUsed / 2 ** 20;
    };
    const before = heapMib();
    const kept = Array.from({ length: 40 }, (_, at) => {
      const body = Buffer.from(
        `m{a="${"v".repeat(40)}${at}"} 1\n${`x ${"1".repeat(61)}\n`.repeat(2 ** 13)}`,
      ).toString();
      return parseMetrics(body, wanted).get("m")?.[0]?.labels.get("a");
    });
    assert.ok(heapMib() - before < 10);
    assert.equal(kept[3], `${"v".repeat(40)}3`);
  });
});

describe("folding the series of a node", () => {
  const names = ["m", "old"];
  const wanted = new Set(names);
  const fold = (text: string, kind: "sum" | "mean" | "max") => foldMetric(parseMetrics(text, wanted), names, kind);

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
