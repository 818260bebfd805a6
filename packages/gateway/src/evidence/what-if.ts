/**
 * What would be decided now, with nothing booked and nothing sent: the engine decides on a copy of the fleet table, in
 * which an operator's "what if" has been written. On the control thread; a copy of 16,384 rows takes some milliseconds.
 */

import {
  admit,
  applyUpdate,
  attachFleetTable,
  createDecision,
  createDirectory,
  createEvidenceRing,
  type Directory,
  decide,
  type FleetTable,
  POLICIES_MAX,
  type PolicyData,
  type Refusal,
  type RoutingCall,
  readRecord,
  releaseBooking,
  returnTrials,
  simpleEstimator,
  writeDecision,
} from "@zml/engine";
import type { PolicyConfig } from "@zml/protocol";
import type { DecisionJson } from "@zml/protocol/admin";
import { type CompiledDirectory, compilePolicyData, EMPTY_DIRECTORY } from "../control/compile-directory.ts";
import { directoryDelta } from "../control/directory-delta.ts";
import type { FleetNode } from "../control/fleet.ts";
import type { NameRegistry } from "../control/name-registry.ts";
import { namesOf } from "./find-decision.ts";
import { renderDecision } from "./render-decision.ts";

/** What is otherwise than it is. */
export interface WhatIf {
  /** USD per GPU-hour by node id, else by family. */
  readonly prices: ReadonlyMap<string, number>;
  /** Nodes, by id, that take nothing. */
  readonly down: ReadonlySet<string>;
  /** A policy that does not exist yet, or exists otherwise; the call is decided under it. */
  readonly policy: PolicyConfig | null;
}

/** Everything that a decision on the control thread reads. */
export interface WhatIfSources {
  readonly table: FleetTable;
  readonly directory: CompiledDirectory;
  readonly names: NameRegistry;
  readonly nodes: Iterable<FleetNode>;
  readonly version: number;
  /** Engine clock, ms. */
  readonly nowMs: number;
  /** Unix ms of engine time 0. */
  readonly unixOriginMs: number;
  /** In [0, 1), for the last tie. */
  readonly draw: number;
}

export type WhatIfAnswer =
  /** Under the changes, and without them. */
  | { readonly kind: "decided"; readonly decision: DecisionJson; readonly asItIs: DecisionJson }
  /** As a caller of the data port would be refused. */
  | { readonly kind: "refused"; readonly refusal: Refusal }
  /** Names in the overrides that nothing has. */
  | {
      readonly kind: "unknown";
      readonly what: "node" | "node or family" | "family";
      readonly name: string;
      readonly known: string[];
    };

/** Nothing is otherwise. */
export const AS_IT_IS: WhatIf = { prices: new Map(), down: new Set(), policy: null };

/** Id under which such a decision is told: it has no record that could be asked for again. */
const NO_ID = "what-if";

/** Stands for a draft: no policy of this process has this index. */
const DRAFT_INDEX = POLICIES_MAX;

/** Decides a call as a worker would at this moment, as it is and under changes. O(cells of the table). */
export function whatIf(sources: WhatIfSources, call: RoutingCall, changes: WhatIf): WhatIfAnswer {
  const rows = rowsOf(sources.directory, call.account);
  const nodes = [...sources.nodes].filter(({ row }) => rows.has(row));
  const unknown = unknownName(nodes, changes) ?? unknownFamily(changes.policy, sources.directory.families);
  if (unknown !== null) return unknown;
  const table = copyOf(sources.table);
  const asItIs = decideOn(table, sources, call, null);
  if (asItIs.kind === "refused") return asItIs;
  if (isAsItIs(changes)) return { kind: "decided", decision: asItIs.decision, asItIs: asItIs.decision };
  change(table, nodes, changes);
  const changed = decideOn(table, sources, call, changes.policy);
  return changed.kind === "refused" ? changed : { ...changed, asItIs: asItIs.decision };
}

function isAsItIs({ prices, down, policy }: WhatIf): boolean {
  return prices.size === 0 && down.size === 0 && policy === null;
}

/** Decides on a table of its own, and leaves nothing there that a decision reads. */
function decideOn(
  table: FleetTable,
  sources: WhatIfSources,
  call: RoutingCall,
  draft: PolicyConfig | null,
):
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "decided"; readonly decision: DecisionJson } {
  const { names, nowMs, version } = sources;
  const directory = directoryOf(sources, draft);
  const admission = admit(directory, { ...call, policy: draft?.name ?? call.policy }, nowMs);
  if (admission.kind === "refused") return { kind: "refused", refusal: admission };
  const { request } = admission;
  const decision = createDecision();
  const decider = { table, worker: 0, directory, estimator: simpleEstimator, prefixes: null };
  const booking = decide(decider, request, nowMs, sources.draw, decision);
  if (booking !== null) request.dispatches += 1;
  const ring = createEvidenceRing(1);
  const record = readRecord(ring, writeDecision(ring, table, request, decision, { nowMs, previous: -1 }));
  if (record === null) throw new Error("a record that was just written is there");
  if (booking !== null) {
    releaseBooking(table, 0, booking, nowMs);
    const { row, placement, trial } = decision;
    returnTrials(table, { row, placement, endpoint: request.endpoint }, trial);
  }
  const known = namesOf(names);
  const told = renderDecision(
    { ...record, directoryVersion: version },
    draft === null
      ? known
      : { ...known, policy: (index) => (index === DRAFT_INDEX ? draft.name : known.policy(index)) },
    { id: NO_ID, worker: 0, unixOriginMs: sources.unixOriginMs, earlier: [] },
  );
  return { kind: "decided", decision: told };
}

/** Rows that serve a model of the account: it may name these nodes, and learns of no others. */
function rowsOf({ models }: CompiledDirectory, account: string): Set<number> {
  const rows = new Set<number>();
  for (const model of models.values()) {
    if (model.account === account) for (const row of model.rows) rows.add(row);
  }
  return rows;
}

/** Decisions write bookings and leases: none of it may reach the table that others decide on. */
function copyOf({ buffer }: FleetTable): FleetTable {
  const copy = new SharedArrayBuffer(buffer.byteLength);
  new Uint8Array(copy).set(new Uint8Array(buffer));
  return attachFleetTable(copy);
}

function unknownName(nodes: readonly FleetNode[], { prices, down }: WhatIf): WhatIfAnswer | null {
  const ids = new Set(nodes.map(({ config }) => config.id));
  const families = new Set(nodes.map(({ config }) => config.family));
  for (const name of down) {
    if (!ids.has(name)) return { kind: "unknown", what: "node", name, known: [...ids].sort() };
  }
  for (const name of prices.keys()) {
    if (ids.has(name) || families.has(name)) continue;
    return { kind: "unknown", what: "node or family", name, known: [...families, ...ids].sort() };
  }
  return null;
}

function change(table: FleetTable, nodes: readonly FleetNode[], { prices, down }: WhatIf): void {
  for (const { row, config } of nodes) {
    const usdPerGpuHour = prices.get(config.id) ?? prices.get(config.family);
    if (usdPerGpuHour !== undefined) table.priceUsdPerHour[row] = usdPerGpuHour * config.gpus;
    if (down.has(config.id)) table.isUnhealthy[row] = 1;
  }
}

function unknownFamily(draft: PolicyConfig | null, families: readonly string[]): WhatIfAnswer | null {
  const link = draft?.acceleratorPreference.find(({ family }) => !families.includes(family));
  return link === undefined
    ? null
    : { kind: "unknown", what: "family", name: link.family, known: [...families].sort() };
}

function directoryOf({ directory, names, version }: WhatIfSources, draft: PolicyConfig | null): Directory {
  const live = createDirectory();
  const update = directoryDelta(EMPTY_DIRECTORY, directory);
  if (update !== null) applyUpdate(live, { ...update, version });
  const account = draft === null ? undefined : directory.accounts.get(draft.account);
  if (draft === null || account === undefined) return live;
  const data: PolicyData = compilePolicyData(draft, DRAFT_INDEX, account.builtIn.chain, names);
  applyUpdate(live, { version, policies: [data] });
  return live;
}
