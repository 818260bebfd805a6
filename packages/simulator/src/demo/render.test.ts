import assert from "node:assert/strict";
import { test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import type { DemoView } from "./render.ts";
import { renderFrame, renderLine } from "./render.ts";

const view: DemoView = {
  elapsedMs: 12_340,
  sent: 182,
  open: 23,
  failed: 0,
  redispatched: 3,
  nodes: [
    {
      id: "h100-a",
      family: "H100",
      engine: "vllm",
      state: "cooling_down",
      depth: 0,
      tokensPerSecond: 1204.4,
      healthScore: 61.7,
      usdPerHour: 2.99,
      share: 0.214,
    },
    {
      id: "l40s-b",
      family: "L40S",
      engine: "llamacpp",
      state: "healthy",
      depth: 9,
      tokensPerSecond: Number.NaN,
      healthScore: Number.NaN,
      usdPerHour: 0.86,
      share: Number.NaN,
    },
  ],
  policies: [
    {
      name: "interactive",
      costPriority: "latency",
      p50Ms: 921,
      p95Ms: 3104,
      targetMs: 5000,
      attainment: 0.981,
      usdPerMillionTokens: 0.4123,
      redispatched: 3,
      families: new Map([
        ["MI300X", 29],
        ["H100", 71],
      ]),
    },
    {
      name: "batch",
      costPriority: "cost",
      p50Ms: Number.NaN,
      p95Ms: Number.NaN,
      targetMs: 30_000,
      attainment: Number.NaN,
      usdPerMillionTokens: Number.NaN,
      redispatched: 0,
      families: new Map(),
    },
  ],
  events: ["   8.0 s  killed h100-a with 3 answers under way: they move to other nodes"],
  eventCount: 1,
};

const golden = `\
  12.3 s  182 calls, 23 open, 0 failed, 3 re-dispatched

node    family  engine    state                   depth  tokens/s  health   $/h  share
h100-a  H100    vllm      cooling_down  ········      0     1,204      62  2.99   21 %
l40s-b  L40S    llamacpp  healthy       ████████      9         -       -  0.86      -

policy       priority  p50 s  p95 s  target s  attained  $/M tokens  re-disp.  families
interactive  latency    0.92   3.10      5.00    98.1 %       0.412         3  H100 71 %, MI300X 29 %
batch        cost          -      -     30.00         -           -         0

   8.0 s  killed h100-a with 3 answers under way: they move to other nodes`;

const narrowGolden = `\
  12.3 s  182 calls, 23 open, 0 failed, 3 re-disp…

node    family  state         depth  tokens/s
h100-a  H100    cooling_down      0     1,204
l40s-b  L40S    healthy           9         -

policy       p95 s  target s  attained  $/M tokens
interactive   3.10      5.00    98.1 %       0.412
batch            -     30.00         -           -

   8.0 s  killed h100-a with 3 answers under way:…`;

test("a frame of 110 columns shows everything; unknown is a dash", () => {
  assert.equal(renderFrame(view, { width: 110, isColoured: false }).join("\n"), golden);
});

test("a narrow frame leaves out what matters least and cuts what is still too long", () => {
  assert.equal(renderFrame(view, { width: 50, isColoured: false }).join("\n"), narrowGolden);
});

test("no line is wider than the terminal, whatever its width, and no frame is higher", () => {
  for (let width = 1; width <= 130; width += 1) {
    const lines = renderFrame(view, { width, height: 9, isColoured: true });
    assert.ok(lines.length <= 9);
    for (const line of lines) assert.ok(stripVTControlCharacters(line).length <= width, `${width}: ${line}`);
  }
});

test("a low frame has room for the newest events only", () => {
  const events = ["  1.0 s  old", "  2.0 s  new"];
  const lines = renderFrame({ ...view, events }, { width: 110, height: 11, isColoured: false });
  assert.equal(lines.length, 11);
  assert.equal(lines.at(-1), "  2.0 s  new");
});

test("colours change nothing but colours, and without them there is no control character", () => {
  const coloured = renderFrame(view, { width: 110, isColoured: true }).join("\n");
  assert.notEqual(coloured, golden);
  assert.equal(stripVTControlCharacters(coloured), golden);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  assert.doesNotMatch(golden, /[\u0000-\u0009\u000b-\u001f]/);
});

test("the line for logs says how the policies stand and which nodes are not healthy", () => {
  assert.equal(
    renderLine(view),
    "  12.3 s  182 calls, 23 open, 0 failed, 3 re-dispatched | interactive p95 3.10/5.00 s $0.41/M | " +
      "batch p95 -/30.00 s $-/M | h100-a cooling_down",
  );
});
