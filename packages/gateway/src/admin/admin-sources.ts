/** What the routes answer with, and whom they tell what to do: the seams between the admin API and the gateway. */

import type { RoutingCall } from "@zml/engine";
import type { PolicyConfig } from "@zml/protocol";
import type {
  BacktestJobJson,
  DecisionJson,
  DecisionTailJson,
  DiscoveryReportJson,
  FleetReportJson,
  HistoryJson,
  Json,
  MoneyJson,
  NodeActionJson,
  PriceHistoryJson,
  PricesReportJson,
  StatusJson,
} from "@zml/protocol/admin";
import type { GatewayLog, LogControl } from "../control/gateway-log.ts";
import type { ManagedObjects } from "../control/objects/managed-objects.ts";
import type { ReloadResult } from "../control/reload.ts";
import type { PriceHistoryQuestion } from "../cost/price-history-report.ts";
import type { DecisionFilter, DecisionPage } from "../evidence/recent-decisions.ts";
import type { DecisionTailQuestion } from "../evidence/tail-decisions.ts";
import type { WhatIf, WhatIfAnswer } from "../evidence/what-if.ts";
import type { MoneyQuestion } from "../telemetry/money-report.ts";
import type { AdminLimits } from "./admin-port.ts";
import type { AdminAccess } from "./authorize.ts";

export interface AdminSources {
  readonly log: GatewayLog;
  readonly logControl: Pick<LogControl, "level" | "leftOut" | "setLevel">;
  access(): AdminAccess;
  limits(): AdminLimits;
  isReady(): boolean;
  /** The page of `/metrics`, Prometheus text format 0.0.4. */
  metrics(): string;
  readonly objects: ManagedObjects;
  fleet(): FleetReportJson;
  /** `LiveJson` as text. @param since mark of the answer that the reader has; null: none. */
  live(since: string | null): string;
  history(): HistoryJson;
  money(question: MoneyQuestion): MoneyJson;
  whatIf(call: RoutingCall, changes: WhatIf): WhatIfAnswer;
  prices(): PricesReportJson;
  /** The prices of a key since a time, of the store where there is one. */
  priceHistory(question: PriceHistoryQuestion): Promise<PriceHistoryJson>;
  discovery(): DiscoveryReportJson;
  readonly decisions: DecisionSource;
  readonly backtests: BacktestSource;
  /** All but the counts of objects. */
  status(): Omit<StatusJson, "objects">;
  reload(): Promise<ReloadResult>;
  /** Version of the configuration that is in force. */
  version(): number;
  readonly nodes: NodeActions;
}

/** Back-tests. `account` null: an operator, who sees all. Null answers: there is no such job. */
export interface BacktestSource {
  /** @throws StoreFault when what was decided last can't be written. */
  start(owner: string, ask: BacktestAsk): Promise<BacktestStart>;
  find(id: string, account: string | null): BacktestJobJson | null;
  list(account: string | null): BacktestJobJson[];
  cancel(id: string, account: string | null): BacktestJobJson | null;
}

/** What became of the wish for a back-test. */
export type BacktestStart =
  | { readonly kind: "started"; readonly job: BacktestJobJson }
  | { readonly kind: "not_kept" }
  /** The account has one that runs or waits. */
  | { readonly kind: "already_running"; readonly id: string }
  /** As many wait as may. */
  | { readonly kind: "too_many"; readonly waiting: number };

/** What is asked of a back-test. */
export interface BacktestAsk {
  /** Unix ms. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly drafts: readonly PolicyConfig[];
  readonly replaces: string | null;
  /** Whose requests are judged; null: all. */
  readonly account: string | null;
}

/** Decisions that are remembered, in the rings and in the store. */
export interface DecisionSource {
  /** Null: it is remembered nowhere. @throws StoreFault when the store can't be asked. */
  find(id: string): Promise<DecisionJson | null>;
  /** @throws StoreFault when the store can't be asked. */
  page(filter: DecisionFilter): Promise<DecisionPage>;
  /** What ended since the answer before. */
  tail(question: DecisionTailQuestion): DecisionTailJson;
  /** Copies what is kept into a new file; null: nothing is kept. Returns its size, bytes. @throws StoreFault */
  backup(path: string): Promise<number | null>;
  /** How far back decisions are remembered, as a sentence without a full stop. */
  remembered(): string;
}

/** What an operator does to a running node. Null: there is no such node. */
export interface NodeActions {
  state(account: string, id: string): Json<NodeActionJson> | null;
  cooldown(account: string, id: string, lengthMs: number): Json<NodeActionJson> | null;
  clearCooldown(account: string, id: string): Json<NodeActionJson> | null;
}
