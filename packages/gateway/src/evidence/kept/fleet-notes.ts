/**
 * What a replay needs to know of the fleet, noted once a second on the control thread: names that are new, the whole fleet
 * when its version changed, and nodes whose price or state did. O(nodes), some 20 µs per thousand.
 */

import type { FleetTable } from "@zml/engine";
import type { Config } from "@zml/protocol";
import type { CompiledDirectory } from "../../control/compile-directory.ts";
import type { FleetNode } from "../../control/fleet.ts";
import type { NameRegistry } from "../../control/name-registry.ts";
import { type IndexedName, NAME_KINDS, NODE_STATES, type NodeChange } from "./decision-database.ts";
import type { FleetState, KeptNode } from "./fleet-state.ts";

/** A fleet that reports itself anew all the time is noted as a whole no more often than this, ms. */
const STATE_EVERY_MS = 5_000;
/** A state that is this old is noted again, ms: what came before it can be taken out with the records of its time. */
const STATE_MAX_AGE_MS = 6 * 3_600_000;

/** Where it stands. */
export interface FleetNoteSources {
  readonly table: FleetTable;
  readonly names: NameRegistry;
  readonly fleet: () => {
    readonly version: number;
    readonly directory: CompiledDirectory;
    readonly nodes: Iterable<FleetNode>;
  };
  readonly config: () => Pick<Config, "failover" | "health">;
}

/** What is new. */
export interface FleetNews {
  readonly names: readonly IndexedName[];
  readonly state: FleetState | null;
  readonly changes: readonly NodeChange[];
}

export class FleetNotes {
  readonly #sources: FleetNoteSources;
  readonly #named = new Map<string, number>();
  /** By identity: state, price, limits as they were told. */
  readonly #told = new Map<number, Omit<NodeChange, "atMs" | "identity">>();
  #version = -1;
  #statedAtMs = Number.NEGATIVE_INFINITY;

  constructor(sources: FleetNoteSources) {
    this.#sources = sources;
  }

  /**
   * Null: nothing is new.
   *
   * @param nowMs Unix ms
   * @param isAsked somebody reads what is kept: a new version is noted however young the last one is.
   */
  take(nowMs: number, isAsked = false): FleetNews | null {
    const names = this.#newNames();
    const fleet = this.#sources.fleet();
    const sinceMs = nowMs - this.#statedAtMs;
    const isNew = fleet.version !== this.#version && (isAsked || sinceMs >= STATE_EVERY_MS);
    if (isNew || sinceMs >= STATE_MAX_AGE_MS) {
      this.#version = fleet.version;
      this.#statedAtMs = nowMs;
      const state = this.#state();
      this.#told.clear();
      for (const node of fleet.nodes) this.#told.set(this.#identityOf(node), this.#nowOf(node));
      return { names, state, changes: [] };
    }
    const changes: NodeChange[] = [];
    for (const node of fleet.nodes) {
      const identity = this.#identityOf(node);
      const now = this.#nowOf(node);
      const told = this.#told.get(identity);
      if (told !== undefined && isSame(told, now)) continue;
      this.#told.set(identity, now);
      changes.push({ atMs: nowMs, identity, ...now });
    }
    return names.length + changes.length === 0 ? null : { names, state: null, changes };
  }

  #newNames(): IndexedName[] {
    const news: IndexedName[] = [];
    for (const kind of NAME_KINDS) {
      const table = this.#sources.names[kind];
      for (let index = this.#named.get(kind) ?? 0; index < table.size; index++) {
        const { scope = "", name = "" } = table.nameOf(index) ?? {};
        // a node's address is nothing that a replay needs; a story of a decision tells it to operators
        news.push({ kind, index, scope, name });
      }
      this.#named.set(kind, table.size);
    }
    return news;
  }

  #identityOf({ row }: FleetNode): number {
    return this.#sources.table.identity[row] as number;
  }

  #nowOf({ row }: FleetNode): Omit<NodeChange, "atMs" | "identity"> {
    const { table } = this.#sources;
    const isTaking = table.isLive[row] === 1 && table.isDraining[row] !== 1;
    const isUp = table.isUnhealthy[row] !== 1 && table.goodPolls[row] !== 0;
    return {
      state: NODE_STATES.indexOf(isTaking ? (isUp ? "up" : "down") : "draining"),
      usdPerHour: table.priceUsdPerHour[row] as number,
      maxInFlight: table.maxInFlight[row] as number,
      concurrencyLimit: table.concurrencyLimit[row] as number,
    };
  }

  #state(): FleetState {
    const { table, names, config } = this.#sources;
    const { version, directory, nodes } = this.#sources.fleet();
    const known = (value: number | undefined) => (value !== undefined && Number.isFinite(value) ? value : null);
    const served = new Map<number, KeptNode["models"][number][]>();
    for (const model of directory.models.values()) {
      model.rows.forEach((row, position) => {
        const placement = model.placements[position] as number;
        const list = served.get(row) ?? [];
        list.push({
          model: model.index,
          kvCapacityTokens: known(table.kvCapacityTokens[placement]),
          contextTokens: known(table.contextTokens[placement]),
        });
        served.set(row, list);
      });
    }
    const { failover, health } = config();
    const { maxAttempts, windowMs, retryBudget } = failover;
    return {
      version,
      families: names.families.list(),
      nodes: Array.from(nodes, (node): KeptNode => {
        const now = this.#nowOf(node);
        return {
          identity: this.#identityOf(node),
          id: node.config.id,
          account: node.config.account,
          family: names.families.find("", node.config.family),
          gpus: node.config.gpus,
          state: now.state,
          usdPerHour: known(now.usdPerHour),
          maxInFlight: known(now.maxInFlight),
          concurrencyLimit: known(now.concurrencyLimit),
          models: served.get(node.row) ?? [],
        };
      }),
      models: Array.from(directory.models.values(), ({ index, account, name, policy }) => ({
        ...{ index, account, name, policy },
      })),
      policies: [...directory.policies.values(), ...Array.from(directory.accounts.values(), ({ builtIn }) => builtIn)],
      accounts: Array.from(directory.accounts.values(), ({ name, defaultPolicy }) => ({ name, defaultPolicy })),
      pollEveryMs: health.pollIntervalMs,
      failover: { maxAttempts, windowMs, retryBudget },
    };
  }
}

function isSame(a: Omit<NodeChange, "atMs" | "identity">, b: typeof a): boolean {
  return (
    a.state === b.state &&
    Object.is(a.usdPerHour, b.usdPerHour) &&
    Object.is(a.maxInFlight, b.maxInFlight) &&
    Object.is(a.concurrencyLimit, b.concurrencyLimit)
  );
}
