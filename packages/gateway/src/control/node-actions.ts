/** What an operator does to a running node's cells of the fleet table, and what they say afterwards. */

import { announceRoom, clearCooldown, coolDownNow, type FleetTable, msOfTick, tickOf } from "@zml/engine";
import type { NodeActionJson } from "@zml/protocol/admin";
import type { Fleet, FleetNode } from "./fleet.ts";

/** What the actions work on. */
export interface NodeActionsOptions {
  readonly table: FleetTable;
  readonly fleet: Fleet;
  /** Engine clock, ms. */
  readonly nowMs: () => number;
}

/** Null: there is no such node. */
export class NodeActions {
  readonly #options: NodeActionsOptions;

  constructor(options: NodeActionsOptions) {
    this.#options = options;
  }

  state(account: string, id: string): NodeActionJson | null {
    const node = this.#find(account, id);
    return node === null ? null : this.#report(node);
  }

  /** @param lengthMs at least a tick */
  cooldown(account: string, id: string, lengthMs: number): NodeActionJson | null {
    const node = this.#find(account, id);
    if (node === null) return null;
    const { table } = this.#options;
    const nowMs = this.#options.nowMs();
    coolDownNow(table, node.row, { nowMs, nowTick: tickOf(nowMs), lengthMs });
    return this.#report(node);
  }

  clearCooldown(account: string, id: string): NodeActionJson | null {
    const node = this.#find(account, id);
    if (node === null) return null;
    const { table } = this.#options;
    clearCooldown(table, node.row);
    announceRoom(table);
    return this.#report(node);
  }

  /** Of two rows of one id, one of which is leaving, the one that stays. */
  #find(account: string, id: string): FleetNode | null {
    const all = [...this.#options.fleet.nodes].filter(({ config }) => config.id === id && config.account === account);
    return all.find(({ leftAtVersion }) => leftAtVersion === Number.POSITIVE_INFINITY) ?? all[0] ?? null;
  }

  #report({ row, config }: FleetNode): NodeActionJson {
    const { table, nowMs } = this.#options;
    const remainingMs = msOfTick(Atomics.load(table.cooldownUntil, row)) - nowMs();
    return {
      id: config.id,
      account: config.account,
      is_draining: table.isDraining[row] === 1 || table.isLive[row] !== 1,
      cooldown_remaining_ms: remainingMs > 0 ? Math.round(remainingMs) : null,
      in_flight: Atomics.load(table.total.inFlight, row),
    };
  }
}
