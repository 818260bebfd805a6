/** Two scripted nodes behind a data plane, ended after each test: what most tests of failures start from. */

import { afterEach } from "node:test";
import { type FixtureNode, type PlaneFixture, startPlane } from "./plane-fixture.ts";
import { healthy, type NodeScript, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";

export interface Pair {
  /** Asked first, as the preferred family; does as scripted. */
  a: ScriptedNode;
  /** The next family; well, unless scripted otherwise. */
  b: ScriptedNode;
  plane: PlaneFixture;
}

export interface PairOptions {
  /** Sections of the configuration file. */
  file?: Record<string, unknown>;
  a?: Partial<FixtureNode>;
  b?: Partial<FixtureNode>;
  bScript?: NodeScript;
  /** Run the script of `a` at the head of a request, before its body. */
  atHead?: boolean;
  plane?: Parameters<typeof startPlane>[1];
}

/** What a test file started; everything pushed here ends after the test. Call once per file. */
export function endAfterEach(): { stop(): Promise<void> }[] {
  const started: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of started.splice(0)) await each.stop();
  });
  return started;
}

/** Starts a pair; whoever gets it has it ended. */
export async function startPair(script: NodeScript, options: PairOptions = {}): Promise<Pair> {
  const a = await startScriptedNode(script, options.atHead === undefined ? {} : { atHead: options.atHead });
  const b = await startScriptedNode(options.bScript ?? healthy("b"));
  const plane = await startPlane(
    [
      { id: "a", url: a.url, family: "H100", ...options.a },
      { id: "b", url: b.url, family: "MI300X", ...options.b },
    ],
    { ...options.plane, ...(options.file === undefined ? {} : { file: options.file }) },
  );
  return { a, b, plane };
}
