/**
 * The product's worker without evidence and metrics: decisions leave no record but their number, requests no sample. Those
 * of attempts stay, as speeds are learned from them. There is no such switch in the product. What is taken out is named in
 * its sources, and the bench ends where a name is not there any more.
 */

import { registerHooks } from "node:module";

/** By file: what stands there, and what stands there instead. */
const CHANGES: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  "/engine/src/evidence-ring.ts": [
    [
      "const sequence = nextSequence(ring);",
      "const sequence = nextSequence(ring); Atomics.store(ring.ints, nextCell(ring), (sequence + 1) & 0x7fffffff); if (ring.records > 0) return sequence;",
    ],
    [
      "const { floats, ints } = ring;\n  const slot",
      "if (sequence >= 0) return;\n  const { floats, ints } = ring;\n  const slot",
    ],
  ],
  "/gateway/src/telemetry/request-samples.ts": [["this.#timer ??=", "if (durationMs > -1) return; this.#timer ??="]],
};

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const changes = Object.entries(CHANGES).find(([file]) => url.endsWith(file))?.[1] ?? [];
    if (changes.length === 0) return loaded;
    let text = String(loaded.source);
    for (const [from, to] of changes) {
      if (!text.includes(from)) throw new Error(`${url} has no "${from}" any more`);
      text = text.replace(from, to);
    }
    return { ...loaded, source: text };
  },
});

await import("../../packages/gateway/src/worker.ts");
