/** A price book on a configuration, for tests. */

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { Config } from "@zml/protocol";
import type { GatewayLog } from "../../control/gateway-log.ts";
import { configured } from "../../control/testing/configured.ts";
import { PriceBook, type PriceBookOptions } from "../price-book.ts";
import { SECRET } from "./provider-cases.ts";

/** Waits that are over long before this are the rule; it only ends what hangs. */
const PATIENCE_MS = 20_000;

export interface RunningBook {
  readonly book: PriceBook;
  readonly log: LogTexts;
  /** Keys of every change, in order. */
  readonly changes: string[][];
  /** Puts another configuration in force. */
  configure(text: string): void;
}

/** Every line as one text. */
export class LogTexts implements GatewayLog {
  readonly lines: string[] = [];
  debug = (fields: object, message: string) => this.#add("debug", fields, message);
  info = (fields: object, message: string) => this.#add("info", fields, message);
  warn = (fields: object, message: string) => this.#add("warn", fields, message);
  error = (fields: object, message: string) => this.#add("error", fields, message);

  count(pattern: RegExp): number {
    return this.lines.filter((line) => pattern.test(line)).length;
  }

  #add(level: string, fields: object, message: string): void {
    this.lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  }
}

/** Starts a book; it goes with the test. The feeds ask every `intervalMs`, whatever the text says. */
export function runningBook(
  t: TestContext,
  text: string,
  {
    intervalMs = 15,
    timeoutMs = 5_000,
    ...options
  }: Partial<PriceBookOptions> & { intervalMs?: number; timeoutMs?: number } = {},
): RunningBook {
  const log = new LogTexts();
  const changes: string[][] = [];
  const book = new PriceBook({
    log,
    clock: { nowMs: () => performance.now(), unixMs: () => Date.now(), random: () => 0.5 },
    onChange: (keys) => changes.push([...keys]),
    ...options,
  });
  t.after(() => book.stop());
  const configure = (next: string): void => {
    const { config, secrets } = configured(next, { PRICE_KEY: SECRET });
    const feeds = config.prices.feeds.map((feed) => ({ ...feed, intervalMs, timeoutMs }));
    book.configure({ ...config, prices: { feeds } } satisfies Config, secrets);
  };
  configure(text);
  return { book, log, changes, configure };
}

/** A configuration with one feed `f` and one node that names `key`. */
export function oneFeed(provider: string, yaml: string, key: string): string {
  return (
    `prices:\n  feeds:\n    - { name: f, provider: ${provider}, ${yaml} }\n` +
    `nodes:\n  - { id: n, url: "http://127.0.0.1:9", family: H100, gpus: 8, cost: { price: "${key}" } }\n`
  );
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(performance.now() < deadline, `waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
