/** For tests: one source that runs alone, with what it told. */

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { SourceConfig } from "@zml/protocol";
import { configured } from "../../control/testing/configured.ts";
import { type Found, type Look, type StartSource, targetKey } from "../source.ts";

/** Waits that are over long before this are the rule; it only ends what hangs. */
const PATIENCE_MS = 20_000;

export interface RunningSourceTest {
  readonly looks: Look[];
  readonly config: SourceConfig;
  /** The last list that was told; fails when there is none. */
  found(): Found;
  /** The targets of the last list, sorted. */
  keys(): string[];
  /** The last look, once one after those so far fulfils the condition. */
  until(what: string, holds: (look: Look) => boolean): Promise<Look>;
  stop(): Promise<void>;
}

/** The configuration of a source out of YAML, without its name. */
export function sourceConfig(yaml: string, env: Record<string, string> = {}): SourceConfig {
  const text = `discovery:\n  sources:\n    - name: s\n${yaml.replaceAll(/^(?=.)/gm, "      ")}\n`;
  const [source] = configured(text, env).config.discovery.sources;
  assert.ok(source !== undefined);
  return source;
}

/** Starts it; it ends with the test. */
export function runningSource(t: TestContext, start: StartSource, config: SourceConfig): RunningSourceTest {
  const looks: Look[] = [];
  const waiting = new Set<() => void>();
  const running = start({
    config,
    clock: { nowMs: () => performance.now(), random: () => 0.5 },
    onLook: (look) => {
      looks.push(look);
      for (const wake of waiting) wake();
    },
  });
  t.after(() => running.stop());
  const found = () => {
    const last = looks.findLast((look) => look.found !== null)?.found;
    assert.ok(last != null, `a list was told: ${JSON.stringify(looks)}`);
    return last;
  };
  return {
    looks,
    config,
    found,
    keys: () => found().targets.map(targetKey).sort(),
    async until(what, holds) {
      const { promise, resolve } = Promise.withResolvers<Look>();
      const wake = (): void => {
        const last = looks.at(-1);
        if (last !== undefined && holds(last)) resolve(last);
      };
      waiting.add(wake);
      wake();
      const timer = setTimeout(() => {
        assert.fail(`waited in vain until ${what}: ${JSON.stringify(looks.slice(-3))}`);
      }, PATIENCE_MS);
      const look = await promise;
      clearTimeout(timer);
      waiting.delete(wake);
      return look;
    },
    stop: () => running.stop(),
  };
}
