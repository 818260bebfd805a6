import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { parseMetrics } from "./metrics-text.ts";
import { type OracleSample, type PrometheusOracle, startPrometheusOracle } from "./testing/prometheus-oracle.ts";

/** Samples of every legal name that stands in a text, in the order of the text where there is one line. */
function ours(text: string): OracleSample[] {
  const wanted = new Set(text.match(/[a-zA-Z_:][a-zA-Z0-9_:]*/g));
  return Array.from(parseMetrics(text, wanted), ([name, samples]) =>
    samples.map(({ labels, value }) => ({ name, labels: Object.fromEntries(labels), value })),
  ).flat();
}

const sorted = (samples: readonly OracleSample[]) =>
  samples
    .map((sample) => JSON.stringify([sample.name, Object.entries(sample.labels).sort(), `${sample.value}`]))
    .sort();

/** Where ours reads another thing on purpose. Each is pinned below; the fuzzer takes no other difference. */
const DIFFERENCES: readonly {
  readonly claim: string;
  readonly line: string;
  readonly theirs: OracleSample[] | null;
  readonly ours: OracleSample[];
  /** True for every line that may show the difference. */
  readonly has: (line: string) => boolean;
}[] = [
  {
    claim: "a comment that is no good HELP or TYPE is a comment",
    line: "# TYPE m",
    theirs: null,
    ours: [],
    has: (line) => /^\s*#/.test(line),
  },
  {
    claim: "a tab ends a value also where blanks stand beside it",
    line: "m 5\t7 ",
    theirs: [{ name: "m", labels: {}, value: 5 }],
    ours: [{ name: "m", labels: {}, value: 5 }],
    has: () => false,
  },
  {
    claim: "a tab between value and time, and a blank before them",
    line: "m  5\t1700",
    theirs: [{ name: "m", labels: {}, value: 5 }],
    ours: [{ name: "m", labels: {}, value: 5 }],
    has: () => false,
  },
  {
    claim: "an exemplar without a number at its end does no harm",
    line: 'm 5 # {trace="x',
    theirs: null,
    ours: [{ name: "m", labels: {}, value: 5 }],
    has: (line) => /[^#]#/.test(line),
  },
  {
    claim: "what stands between value and last number is no time",
    line: "m 5 x 7",
    theirs: [{ name: "m", labels: {}, value: 5 }],
    ours: [],
    has: (line) => rest(line).length > 2,
  },
  {
    claim: "an empty label is none that an engine writes",
    line: 'm{a=,b="x"} 5',
    theirs: [{ name: "m", labels: { b: "x" }, value: 5 }],
    ours: [],
    has: (line) => /=\s*[,}]|,\s*,/.test(line),
  },
  {
    claim: "a name alone has no value, even where it ends like a number",
    line: "inf",
    theirs: [{ name: "in", labels: {}, value: Number.POSITIVE_INFINITY }],
    ours: [],
    has: (line) => /^\s*[^\s{]+\s*$/.test(line),
  },
  {
    claim: "a label with a reserved name is a label",
    line: 'm{__x="y"} 5',
    theirs: null,
    ours: [{ name: "m", labels: { __x: "y" }, value: 5 }],
    has: (line) => /[{,]\s*__/.test(line),
  },
  {
    claim: "a name that no scraper asks for, and that only a quoted form allows",
    line: '{"m.x",a="b"} 5',
    theirs: [{ name: "m.x", labels: { a: "b" }, value: 5 }],
    ours: [],
    has: (line) => /[{,]\s*"/.test(line),
  },
  {
    claim: "a name with more beside it than a name has",
    line: 'm 4{a="b"} 5',
    theirs: [{ name: "m 4", labels: { a: "b" }, value: 5 }],
    ours: [],
    // below, samples of such names are left out of theirs
    has: () => false,
  },
  {
    claim: "a carriage return is a blank wherever it stands",
    line: "m\r5",
    theirs: null,
    ours: [{ name: "m", labels: {}, value: 5 }],
    has: (line) => /\r(?!$)/.test(line) || (line.includes("\t") && / /.test(line)),
  },
];

function hasLegalName({ name }: OracleSample): boolean {
  return /^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(name);
}

/** Words behind the labels, or behind the name where there are none. */
function rest(line: string): string[] {
  return line
    .replace(/^\s*[^\s{]*\s*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?/, "")
    .split(/\s+/)
    .filter((word) => word !== "");
}

const blank = fc.constantFrom("", "", "", " ", "  ");
const name = fc.constantFrom("m", "m:x", "vllm:num_requests_running", "_a1", "inf", "m_total");
const label = fc.constantFrom("a", "b", "le", "dp_rank", "engine");
const text = fc.string({
  unit: fc.constantFrom("a", " ", ",", "{", "}", "=", '\\"', "\\\\", "\\n", "#", "é", "x", "\\q"),
  maxLength: 6,
});
const number = fc.oneof(
  fc.double().map((value) => (Number.isFinite(value) ? String(value) : "NaN")),
  fc.constantFrom(
    "NaN",
    "+Inf",
    "-Inf",
    "Inf",
    "inf",
    "nan",
    "infinity",
    "1.",
    ".5",
    "+5",
    "-0",
    "1e5",
    "1.7e+09",
    "1e400",
  ),
  fc.constantFrom("9223372036854775794", "3.21457e+06", "0x10", "1_000", "5f", "--1", "e5", "", "1e", "00012", "0b1"),
);
const pair = fc.tuple(label, blank, blank, text).map(([key, left, right, value]) => `${key}${left}=${right}"${value}"`);
const labels = fc.option(
  fc
    .tuple(
      fc.array(pair, { maxLength: 3 }),
      fc.constantFrom(",", ", ", " ,"),
      fc.constantFrom("", ",", " , "),
      fc.constantFrom("", " ", ","),
    )
    .map(([pairs, comma, end, space]) => `{${space}${pairs.join(comma)}${pairs.length > 0 ? end : ""}}`),
  { nil: "" },
);
const end = fc.constantFrom(
  "",
  "",
  "",
  " 1700000000000",
  " 1.7e9",
  ' # {trace="x}"} 0.5',
  " 17 # {} 1 2",
  " x",
  " ",
  "\r",
  "\t",
);
const line = fc
  .tuple(blank, name, blank, labels, fc.constantFrom(" ", "  ", "\t", ""), number, end)
  .map(([indent, own, gap, block, space, value, tail]) => `${indent}${own}${gap}${block}${space}${value}${tail}`);
const damage = fc.record({
  at: fc.nat(),
  drop: fc.nat({ max: 5 }),
  insert: fc.string({
    unit: fc.constantFrom('"', "{", "}", ",", "=", " ", "1", "\\", "#", "m", "\t", "\r"),
    maxLength: 2,
  }),
});

describe("our parser beside prometheus_client's", { timeout: 110_000 }, () => {
  let oracle: PrometheusOracle;
  before(async () => {
    oracle = await startPrometheusOracle();
  });
  after(() => oracle?.stop());

  for (const { claim, line: pinned, theirs, ours: own } of DIFFERENCES) {
    it(`differs on purpose: ${claim}`, async () => {
      assert.deepEqual(await oracle.lines(pinned), [theirs]);
      assert.deepEqual(ours(pinned), own);
    });
  }

  it("reads the same of any line, whole or damaged, but where it differs on purpose", async () => {
    let same = 0;
    let different = 0;
    const damaged = fc.tuple(fc.array(line, { minLength: 1, maxLength: 4 }), fc.option(damage)).map(([lines, hit]) => {
      const whole = lines.join("\n");
      if (hit === null) return whole;
      const at = hit.at % (whole.length + 1);
      return whole.slice(0, at) + hit.insert + whole.slice(at + hit.drop);
    });
    await fc.assert(
      fc.asyncProperty(damaged, async (whole) => {
        const theirs = await oracle.lines(whole);
        whole.split("\n").forEach((one, index) => {
          const [own, expected] = [sorted(ours(one)), sorted((theirs[index] ?? []).filter(hasLegalName))];
          if (isDeepStrictEqual(own, expected)) same += 1;
          else if (DIFFERENCES.some(({ has }) => has(one))) different += 1;
          else assert.deepEqual(own, expected, JSON.stringify(one));
        });
      }),
      { numRuns: 4000 },
    );
    assert.ok(same > 8 * different, `${same} lines are read alike, ${different} differ on purpose`);
  });

  const sample = fc.record({
    family: fc.constantFrom("m", "n:x", "requests"),
    kind: fc.constantFrom("gauge", "counter", "untyped", "none"),
    series: fc.array(fc.tuple(fc.array(pair, { maxLength: 3 }), fc.constantFrom("1", "2.5", "NaN", "+Inf", "1e9")), {
      maxLength: 4,
    }),
    newline: fc.constantFrom("\n", "\r\n", "\n\n"),
  });

  it("reads the same of a whole text: types or none, families apart, series twice, CR LF, no last line feed", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(sample, { maxLength: 5 }), fc.boolean(), async (families, isCut) => {
        const lines = families.flatMap(({ family, kind, series, newline }) => {
          // the client adds _total to the samples of a counter that lack it
          const own = kind === "counter" ? `${family}_total` : family;
          const head =
            kind === "none" ? [] : [`# HELP ${own} some "help" {a="b"} 1${newline}`, `# TYPE ${own} ${kind}${newline}`];
          return [...head, ...series.map(([pairs, value]) => `${own}{${pairs.join(",")}} ${value}${newline}`)];
        });
        const whole = isCut ? lines.join("").replace(/\r?\n+$/, "") : lines.join("");
        const theirs = await oracle.text(whole, "text");
        // a label twice: the client refuses the whole text, we the line
        if (theirs !== null) assert.deepEqual(sorted(ours(whole)), sorted(theirs));
      }),
      { numRuns: 1500 },
    );
  });

  it("reads the same of OpenMetrics: exemplars, units, times in seconds, # EOF", async () => {
    const value = fc.constantFrom("1", "2.5", "1e9", "17");
    const tail = fc.constantFrom("", " 1.7e9", " 1700000000.123");
    const exemplar = fc.constantFrom("", ' # {trace_id="a b"} 0.5', ' # {trace_id="}",span="b"} 1 1.5');
    await fc.assert(
      fc.asyncProperty(value, tail, exemplar, value, async (counted, time, example, gauge) => {
        const whole = [
          "# TYPE c counter",
          "# HELP c counted",
          `c_total{a="x"} ${counted}${time}${example}`,
          `c_created{a="x"} 1.5${time}`,
          "# TYPE g_seconds gauge",
          "# UNIT g_seconds seconds",
          `g_seconds ${gauge}${time}`,
          "# EOF\n",
        ].join("\n");
        const theirs = await oracle.text(whole, "openmetrics");
        assert.ok(theirs !== null, whole);
        assert.deepEqual(sorted(ours(whole)), sorted(theirs));
      }),
      { numRuns: 200 },
    );
  });
});
