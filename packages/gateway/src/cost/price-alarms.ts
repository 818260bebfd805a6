/** What is wrong with a feed and with the prices that nodes take from it. */

import type { GatewayLog } from "../control/gateway-log.ts";
import type { FeedState } from "./price-book.ts";

/** What is wrong now. */
export interface PriceAlarm {
  readonly kind: "failing" | "missing" | "refused" | "stale";
  /** Null: the feed as a whole. */
  readonly key: string | null;
  readonly text: string;
}

/** How the log calls it. */
const ALARM_TEXTS: Readonly<Record<PriceAlarm["kind"], string>> = {
  failing: "a price feed fails: the last good prices stay",
  missing: "a price that a node names is not in its feed",
  refused: "a price is refused: the last good one stays",
  stale: "a price is old: it still counts",
};

/**
 * Everything that is wrong with a feed now, by kind and key.
 *
 * @param used keys of the feed that a node names.
 * @param ageMs time since a fetch confirmed a price, ms; NaN: unknown.
 */
export function priceAlarms(
  state: FeedState,
  used: readonly string[],
  ageMs: (key: string) => number,
): Map<string, PriceAlarm> {
  const alarms = new Map<string, PriceAlarm>();
  const raise = (alarm: PriceAlarm): void => {
    alarms.set(`${alarm.kind} ${alarm.key ?? ""}`, alarm);
  };
  if (state.error !== null) raise({ kind: "failing", key: null, text: state.error });
  const isAnswered = !Number.isNaN(state.lastSuccessMs);
  for (const key of used) {
    const problem = state.problems.get(key);
    if (problem !== undefined) raise({ kind: "refused", key, text: problem });
    else if (isAnswered && !state.delivered.has(key)) {
      const [remark] = state.notes;
      const why = remark === undefined ? "check the parts of the name" : `the feed notes: ${remark}`;
      raise({ kind: "missing", key, text: `the feed's last answer has no such price: ${why}` });
    }
    if (ageMs(key) > state.config.staleAfterMs) {
      raise({
        kind: "stale",
        key,
        text: `unconfirmed for longer than stale_after_ms (${state.config.staleAfterMs})`,
      });
    }
  }
  return alarms;
}

/** What is wrong with a feed, and was. */
export interface AlarmChange {
  readonly feed: string;
  readonly before: ReadonlyMap<string, PriceAlarm>;
  readonly now: ReadonlyMap<string, PriceAlarm>;
  /** Ids of the nodes that name a price. */
  readonly usersOf: (key: string) => readonly string[];
}

/** Logs what is new and what is over: once per change. */
export function tellChanges(log: GatewayLog, { feed, before, now, usersOf }: AlarmChange): void {
  for (const [id, { kind, key, text }] of now) {
    if (before.has(id)) continue;
    const nodes = key === null ? undefined : usersOf(key);
    log.warn({ feed, alarm: kind, key: key ?? undefined, nodes, detail: text }, ALARM_TEXTS[kind]);
  }
  for (const [id, { kind, key }] of before) {
    if (!now.has(id)) log.info({ feed, alarm: kind, key: key ?? undefined }, "a price alarm is over");
  }
}
