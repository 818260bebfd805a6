import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { renewed } from "./page.ts";
import { svgOf, ticksOf } from "./plots.ts";
import { renderedPage, standingPage } from "./write-page.ts";

describe("the page of the routing bench", () => {
  it("stands as its outcome says: nobody has changed a number by hand", () => {
    for (const [name, text] of Object.entries(renderedPage())) {
      assert.equal(standingPage(name), text, `docs/benchmarks/${name}: npm run bench:routing -- --write`);
    }
  });

  it("keeps what stands around its parts, and wants a place for each", () => {
    const page = "a\n<!-- from: x -->\nold $1\n<!-- to: x -->\nb\n";
    const once = renewed(page, { x: "new $& $1" });
    assert.equal(once, "a\n<!-- from: x -->\n\nnew $& $1\n\n<!-- to: x -->\nb\n");
    assert.equal(renewed(once, { x: "new $& $1" }), once);
    assert.throws(() => renewed(page, { y: "" }), /no place for y/);
  });
});

describe("plots", () => {
  it("have round ticks that enclose what they show", () => {
    assert.deepEqual(ticksOf(0, 135), [0, 20, 40, 60, 80, 100, 120, 140]);
    assert.deepEqual(ticksOf(40, 100), [40, 50, 60, 70, 80, 90, 100]);
    assert.deepEqual(ticksOf(0.24, 0.53), [0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55]);
    assert.ok(ticksOf(3, 3).length >= 2 && (ticksOf(3, 3)[0] ?? 9) <= 3);
  });

  it("draw each line once, name it, and keep within the box", () => {
    const line = (name: string, y: number) => ({
      name,
      points: [[0, y] as const, [10, y] as const],
      isOwn: name === "own",
    });
    const svg = svgOf({
      title: "a < b",
      x: "x",
      y: "y",
      yTo: 5,
      lines: [line("own", 1), line("other", 1), line("high", 9)],
    });
    assert.match(svg, /a &lt; b/);
    assert.equal(svg.match(/<path d="M60\.0 /g)?.length, 3);
    for (const [, y] of svg.matchAll(/cy="([\d.]+)"/g)) assert.ok(Number(y) >= 36 && Number(y) <= 370, y);
    const names = [...svg.matchAll(/<text x="602" y="([\d.]+)"/g)].map(([, y]) => Number(y)).sort((a, b) => a - b);
    assert.ok(
      names.every((y, index) => index === 0 || y - (names[index - 1] as number) > 12),
      `${names}`,
    );
  });
});
