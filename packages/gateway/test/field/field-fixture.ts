/**
 * What every field test stands on: scripted nodes behind a data plane, raw callers, and a probe that looks after each
 * case for what it left behind. The probe is part of the fixture, so that no case can forget it.
 */

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { type FixtureNode, type PlaneFixture, startPlane, until } from "../plane-fixture.ts";
import { RawClient } from "../raw-client.ts";
import { type NodeScript, type ScriptedNode, startScriptedNode } from "../scripted-node.ts";

/** True in `npm run test:field -- --long`: forms that take minutes run too. */
export const isLong = process.env["ZML_FIELD_LONG"] === "1";

/** Options of a test that has a long form. */
export const longForm = isLong ? { timeout: 20 * 60_000 } : {};

/** A node of a field: its script, and what is configured for it. */
export type FieldNode = NodeScript | (Partial<FixtureNode> & { script: NodeScript; atHead?: boolean });

export interface Field {
  readonly nodes: ScriptedNode[];
  readonly plane: PlaneFixture;
  /** A caller on a socket of its own, which ends with the test. */
  caller(): Promise<RawClient>;
  /** Fails unless nothing is in flight, waits, or is held; also run at the end of the test. */
  probe(): Promise<void>;
}

/**
 * Starts nodes `n0`, `n1`, … behind a data plane. After the test the probe looks at it, then it ends.
 *
 * @param options as of `startPlane`; `mayLog` true where the case logs by design.
 */
export async function startField(
  t: TestContext,
  nodes: readonly FieldNode[],
  options: Parameters<typeof startPlane>[1] & { mayLog?: boolean } = {},
): Promise<Field> {
  const strays: unknown[] = [];
  const onStray = (error: unknown): number => strays.push(error);
  process.on("unhandledRejection", onStray);
  process.on("warning", onStray);
  const specs = nodes.map((node) => (typeof node === "function" ? { script: node } : node));
  const scripted = await Promise.all(
    specs.map(({ script, atHead }) => startScriptedNode(script, atHead === undefined ? {} : { atHead })),
  );
  const { mayLog = false, ...rest } = options;
  const plane = await startPlane(
    specs.map(({ script: _script, atHead: _atHead, ...spec }, index) => ({
      id: `n${index}`,
      url: (scripted[index] as ScriptedNode).url,
      family: `F${index}`,
      ...spec,
    })),
    rest,
  );
  const callers: RawClient[] = [];
  const probe = async (): Promise<void> => {
    await plane.settled();
    assert.equal(plane.plane.parked.count, 0, "nobody waits");
    assert.ok(
      specs.every((_, row) => plane.plane.upstreamOf(row)?.running.size === 0),
      "no attempt runs",
    );
    assert.deepEqual(strays, [], "no unhandled rejection, no warning");
    if (!mayLog) assert.deepEqual(plane.logs, [], "nothing failed inside the gateway");
  };
  t.after(async () => {
    for (const caller of callers) caller.socket.destroy();
    try {
      await probe();
    } finally {
      await plane.stop();
      process.off("unhandledRejection", onStray);
      process.off("warning", onStray);
    }
    await until(() => scripted.every((node) => node.openSockets() === 0), "the end of every connection to a node");
    for (const node of scripted) await node.stop();
  });
  return {
    nodes: scripted,
    plane,
    probe,
    async caller() {
      const caller = await RawClient.open(plane.port);
      callers.push(caller);
      return caller;
    },
  };
}

/** The routing that an answer tells. */
export function routingOf(headers: Record<string, string> | Headers): ReturnType<typeof decodeRoutingHeader> {
  const value = headers instanceof Headers ? headers.get("x-zml-routing") : headers["x-zml-routing"];
  return decodeRoutingHeader(value ?? "");
}

/** Waits, in tests that are about time itself. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
