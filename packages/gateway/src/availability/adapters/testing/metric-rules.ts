/** The rules by which series become numbers, as properties of every adapter that reads a metrics text. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { Adapter, NodeReading, PollResponses } from "../adapter.ts";
import { response } from "./adapter-suite.ts";

/** Metrics of an adapter whose series are added up, by the field that they become. */
export interface RuleNames {
  readonly names: Partial<Record<SummedField, string>>;
  /** Labels that every series of it needs, such as the mode of a counter. */
  readonly labels?: Partial<Record<SummedField, Readonly<Record<string, string>>>>;
  /** Label of data-parallel ranks; null: the engine has none. */
  readonly rankLabel: string | null;
  /** The rest of the round. */
  readonly responses?: Partial<PollResponses>;
}

type SummedField = "running" | "waiting" | "generationTokensTotal" | "promptTokensTotal";

/** Copies of one number: another process, or another slice of the same rank. */
const COPY_LABELS = ["pid", "tp_rank", "pp_rank", "moe_ep_rank"] as const;
const NASTY = [
  "plain",
  "a,b",
  'say \\"x\\"',
  "back\\\\slash",
  "two\\nlines",
  "sp ace",
  "}",
  "{",
  "=",
  "ü",
  "",
] as const;
/** What stands for "not available", and what a node that lies says. */
const UNUSABLE = ["NaN", "-1", "-Inf", "+Inf", "1e308", "9223372036854775794", "x", ""] as const;

interface Series {
  readonly rank: number;
  readonly model: number;
  readonly value: number;
  /** How many copies, and by which label they differ. */
  readonly copies: number;
  readonly copyLabel: (typeof COPY_LABELS)[number];
  readonly note: string;
}

const series: fc.Arbitrary<Series> = fc.record({
  rank: fc.nat(7),
  model: fc.nat(2),
  value: fc.nat(10_000),
  copies: fc.integer({ min: 1, max: 3 }),
  copyLabel: fc.constantFrom(...COPY_LABELS),
  note: fc.constantFrom(...NASTY),
});

/** How the text is written, which changes nothing. */
const style = fc.record({
  hasTypes: fc.boolean(),
  hasSpaces: fc.boolean(),
  hasTrailingComma: fc.boolean(),
  hasTimestamp: fc.boolean(),
  hasCarriageReturns: fc.boolean(),
  order: fc.array(fc.nat(1_000), { minLength: 64, maxLength: 64 }),
});
type Style = typeof style extends fc.Arbitrary<infer T> ? T : never;

/** Runs the rules for one adapter. */
export function testMetricRules(adapter: Adapter, rules: RuleNames): void {
  const fields = Object.keys(rules.names) as SummedField[];
  const read = (text: string): NodeReading =>
    adapter.read({ health: response(""), models: null, facts: {}, ...rules.responses, metrics: response(text) }, null);
  const distinct = (all: readonly Series[]) => [
    ...new Map(
      all.map((one) => [rules.rankLabel === null ? `${one.model}` : `${one.rank} ${one.model}`, one]),
    ).values(),
  ];

  const linesOf = (field: SummedField, all: readonly Series[], { hasSpaces, hasTrailingComma, hasTimestamp }: Style) =>
    all.flatMap((one) =>
      Array.from({ length: one.copies }, (_, copy) => {
        const labels: Record<string, string> = {
          model_name: `m${one.model}`,
          note: one.note,
          ...(rules.rankLabel === null ? {} : { [rules.rankLabel]: `${one.rank}` }),
          ...rules.labels?.[field],
          [one.copyLabel]: `${copy}`,
        };
        const pairs = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
        const inside = pairs.join(hasSpaces ? ", " : ",") + (hasTrailingComma ? "," : "");
        // a process that does not hold the number shows 0 for it
        const shown = copy === 0 ? one.value : copy === 1 ? 0 : one.value;
        return `${rules.names[field]}{${inside}}${hasSpaces ? "  " : " "}${shown}${hasTimestamp ? " 1700000000000" : ""}`;
      }),
    );

  const textOf = (all: readonly Series[], how: Style): string => {
    const lines = fields.flatMap((field) => [
      ...(how.hasTypes ? [`# HELP ${rules.names[field]} words {x="1"} 7`, `# TYPE ${rules.names[field]} untyped`] : []),
      ...linesOf(field, all, how),
      `${rules.names[field]}_created{x="1"} 1.7e+09`,
      `${rules.names[field]}_bucket{le="1"} 99`,
    ]);
    const shuffled = lines
      .map((line, index) => [how.order[index % how.order.length] ?? 0, line] as const)
      .sort(([a], [b]) => a - b)
      .map(([, line]) => line);
    return `${shuffled.join(how.hasCarriageReturns ? "\r\n" : "\n")}\n`;
  };

  describe(`metrics of ${adapter.name}`, () => {
    it("are summed over ranks and models, copies counted once, however the text is written", () => {
      fc.assert(
        fc.property(fc.array(series, { minLength: 1, maxLength: 12 }).map(distinct), style, (all, how) => {
          const reading = read(textOf(all, how));
          const sum = all.reduce((total, { value }) => total + value, 0);
          for (const field of fields) assert.equal(reading[field], sum, field);
        }),
        { numRuns: 150 },
      );
    });

    it("that are not available or cannot be are unknown, and spoil no other series", () => {
      const anyValue = fc.constantFrom(...UNUSABLE);
      fc.assert(
        fc.property(fc.array(series, { maxLength: 6 }).map(distinct), style, anyValue, (all, how, value) => {
          const bad = fields.map((field) => {
            const labels = Object.entries({ model_name: "other", ...rules.labels?.[field] });
            return `${rules.names[field]}{${labels.map(([key, text]) => `${key}="${text}"`).join(",")}} ${value}\n`;
          });
          const reading = read(bad.join("") + textOf(all, how));
          const sum = all.length === 0 ? Number.NaN : all.reduce((total, one) => total + one.value, 0);
          for (const field of fields) assert.equal(reading[field], sum, field);
        }),
        { numRuns: 150 },
      );
    });

    it("that end in the middle of a line never say more than the whole text does", () => {
      fc.assert(
        fc.property(fc.array(series, { minLength: 1, maxLength: 6 }).map(distinct), style, fc.nat(), (all, how, at) => {
          const text = textOf(all, how);
          const reading = read(text.slice(0, at % text.length));
          const sum = all.reduce((total, { value }) => total + value, 0);
          for (const field of fields) assert.ok(!(reading[field] > sum) && !(reading[field] < 0), field);
        }),
        { numRuns: 150 },
      );
    });

    it("that are missing are unknown, not 0", () => {
      const reading = read("up 1\n");
      for (const field of fields) assert.ok(Number.isNaN(reading[field]), field);
    });
  });
}
