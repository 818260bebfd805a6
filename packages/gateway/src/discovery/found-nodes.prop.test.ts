import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { configured } from "../control/testing/configured.ts";
import { FoundNodes } from "./found-nodes.ts";
import { type Look, targetKey } from "./source.ts";

const GRACE_MS = 1_000;
const MAX_NODES = 4;

const { config } = configured(
  `discovery: { sources: [{ name: s, kind: file_sd, paths: [x], node: { family: F }, empty_grace_ms: ${GRACE_MS}, max_nodes: ${MAX_NODES} }] }\n`,
);

const host = fc.constantFrom("a", "b", "c", "d", "e", "f", "169.254.0.1");
const list = fc.uniqueArray(host, { maxLength: 6 });

/** What may happen to a source, each some time after the last. */
const step = fc.record({
  afterMs: fc.integer({ min: 0, max: 700 }),
  what: fc.oneof(
    fc.record({ kind: fc.constant("list" as const), hosts: list, leaving: list, isPartial: fc.boolean() }),
    fc.record({ kind: fc.constant("empty" as const), leaving: list }),
    fc.record({ kind: fc.constant("failure" as const) }),
    fc.record({ kind: fc.constant("tick" as const) }),
  ),
});

const targets = (hosts: readonly string[]) =>
  hosts.map((name) => ({ host: name, port: 1, serverName: null, displayName: null, labels: {} }));

const look = (hosts: readonly string[], leaving: readonly string[], error: string | null): Look => ({
  found: { targets: targets(hosts), leaving: targets(leaving), dropped: [], note: null },
  error,
});

test("the nodes are those of the last list, at most so many, and only a confirmed empty list empties them", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const [source] = config.discovery.sources;
      assert.ok(source !== undefined);
      const nodes = new FoundNodes(source, config);
      const keys = () => nodes.nodes.map(({ id }) => id.slice("s:".length));
      let nowMs = 0;
      let listed: string[] = [];
      let emptySinceMs = Number.NaN;
      for (const { afterMs, what } of steps) {
        nowMs += afterMs;
        const before = keys();
        if (what.kind === "failure") {
          nodes.take({ found: null, error: "down" }, nowMs);
          assert.deepEqual(keys(), before, "a failure changes nothing");
        } else if (what.kind === "tick") nodes.tick(nowMs);
        else if (what.kind === "list" && what.hosts.length > 0) {
          nodes.take(look(what.hosts, what.leaving, what.isPartial ? "in part" : null), nowMs);
          listed = targets(what.hosts).map(targetKey);
          emptySinceMs = Number.NaN;
        } else {
          nodes.take(look([], what.leaving, null), nowMs);
          const leaving = new Set(targets(what.leaving).map(targetKey));
          listed = listed.filter((key) => !leaving.has(key));
          if (Number.isNaN(emptySinceMs)) emptySinceMs = nowMs;
        }
        assert.ok(nodes.nodes.length <= MAX_NODES);
        assert.ok(keys().every((key) => listed.includes(key)));
        assert.ok(!keys().includes("169.254.0.1:1"));
        const good = listed.filter((key) => key !== "169.254.0.1:1");
        const mayBeEmpty = good.length === 0 || nowMs - emptySinceMs >= GRACE_MS;
        // bad targets take up room among the first ones too
        if (listed.length <= MAX_NODES && !mayBeEmpty) assert.deepEqual(keys(), good.toSorted());
      }
    }),
    { numRuns: 500 },
  );
});
