/** Rows of the fleet table: which are taken, by what, and when they are free again. */

import { type FleetTable, takePlacementRow } from "@zml/engine";

/** A pool of row numbers. Lowest first while the table fills, so that memory is touched only for what is used. */
export class RowPool {
  readonly #size: number;
  readonly #free: number[] = [];
  #next = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** A free row, -1: none is left. */
  take(): number {
    const freed = this.#free.pop();
    if (freed !== undefined) return freed;
    if (this.#next >= this.#size) return -1;
    this.#next += 1;
    return this.#next - 1;
  }

  /** Gives a row back. */
  free(row: number): void {
    this.#free.push(row);
  }
}

/** What an assignment works with. */
export interface AssignOptions {
  readonly table: FleetTable;
  readonly pool: RowPool;
  readonly version: number;
  readonly before: ReadonlyMap<string, number>;
}

/**
 * The placement rows of one node. A model that leaves the node keeps its row until every worker has acknowledged that
 * and no request runs on the node; a model that comes back before finds its figures again.
 */
export class PlacementRows {
  readonly #rows = new Map<string, { placement: number; leftAtVersion: number }>();
  #leaving = 0;

  /**
   * Takes a row for each name and marks the others as left at `version`. Names for which no row is left are absent.
   *
   * @param before what the last call returned; returned again when it still holds, so that no change can be told by
   *   identity.
   */
  assign(names: readonly string[], { table, pool, version, before }: AssignOptions): ReadonlyMap<string, number> {
    if (before.size === names.length && names.every((name) => before.has(name))) return before;
    const assigned = new Map<string, number>();
    for (const name of names) {
      let entry = this.#rows.get(name);
      if (entry === undefined) {
        const placement = pool.take();
        if (placement < 0) continue;
        takePlacementRow(table, placement);
        entry = { placement, leftAtVersion: Number.POSITIVE_INFINITY };
        this.#rows.set(name, entry);
      }
      entry.leftAtVersion = Number.POSITIVE_INFINITY;
      assigned.set(name, entry.placement);
    }
    this.#leaving = 0;
    for (const [name, entry] of this.#rows) {
      if (assigned.has(name)) continue;
      this.#leaving += 1;
      if (entry.leftAtVersion === Number.POSITIVE_INFINITY) entry.leftAtVersion = version;
    }
    return assigned;
  }

  /** Every row, also of models that left. */
  get all(): number[] {
    return Array.from(this.#rows.values(), ({ placement }) => placement);
  }

  /** True when a row waits to be freed. */
  get isAnyLeaving(): boolean {
    return this.#leaving > 0;
  }

  /** Frees what left at `ackedVersion` or before. The node must be idle. */
  collect(pool: RowPool, ackedVersion: number): void {
    for (const [name, entry] of this.#rows) {
      if (entry.leftAtVersion > ackedVersion) continue;
      pool.free(entry.placement);
      this.#rows.delete(name);
      this.#leaving -= 1;
    }
  }

  /** Frees all rows of a node that is gone. */
  clear(pool: RowPool): void {
    for (const { placement } of this.#rows.values()) pool.free(placement);
    this.#rows.clear();
    this.#leaving = 0;
  }
}
