/** Decisions wherever they are remembered: first in the rings, then in what is kept. */

import { existsSync, statSync } from "node:fs";
import type { DecisionJson, DecisionTailJson } from "@zml/protocol/admin";
import type { DecisionSource } from "../admin/admin-sources.ts";
import type { DecisionIds } from "../decision-id.ts";
import { StoreFault } from "../store/store-fault.ts";
import { type EvidenceSources, findDecision } from "./find-decision.ts";
import type { KeptDecisions } from "./kept/kept-decisions.ts";
import { type DecisionFilter, type DecisionPage, recentDecisions } from "./recent-decisions.ts";
import { type DecisionTailQuestion, tailDecisions } from "./tail-decisions.ts";

export class DecisionSearch implements DecisionSource {
  readonly #sources: Pick<EvidenceSources, "rings" | "names"> & { readonly ids: DecisionIds };
  readonly #kept: KeptDecisions;

  constructor({
    kept,
    ...sources
  }: Pick<EvidenceSources, "rings" | "names"> & { ids: DecisionIds; kept: KeptDecisions }) {
    this.#sources = sources;
    this.#kept = kept;
  }

  /** In the rings only. */
  findRecent(id: string): DecisionJson | null {
    const { rings, names, ids } = this.#sources;
    return findDecision(id, { rings, names, unixOriginMs: ids.unixOriginMs });
  }

  async find(id: string): Promise<DecisionJson | null> {
    return this.findRecent(id) ?? (await this.#kept.find(id));
  }

  async page(filter: DecisionFilter): Promise<DecisionPage> {
    const { from, ...rest } = filter;
    const isKept = this.#kept.path !== null;
    let recent: DecisionPage | null = null;
    if (from === null || isInRings(from)) {
      recent = recentDecisions({ ...rest, from }, this.#sources);
      if (recent.next !== null || !isKept) return recent;
    }
    if (!isKept) return { items: [], next: null, lookedAt: 0 };
    const limit = filter.limit - (recent?.items.length ?? 0);
    const place = from !== null && !isInRings(from) ? from : null;
    const inRing = this.#kept.inRing();
    const older = await this.#kept.call("page", { filter: { ...rest, limit }, from: place, inRing });
    return {
      items: [...(recent?.items ?? []), ...older.items],
      next: older.next,
      lookedAt: (recent?.lookedAt ?? 0) + older.lookedAt,
    };
  }

  /** In the rings only. */
  tail(question: DecisionTailQuestion): DecisionTailJson {
    return tailDecisions(question, this.#sources);
  }

  async backup(path: string): Promise<number | null> {
    if (this.#kept.path === null) return null;
    if (existsSync(path)) throw new StoreFault("unreachable", `the file ${path} is there already: name a new one`);
    await this.#kept.call("backup", { path });
    return statSync(path).size;
  }

  remembered(): string {
    const records = this.#sources.rings[0]?.records ?? 0;
    const ring = `each worker remembers its last ${records} decisions since the start`;
    const { keep, oldestAtMs } = this.#kept.status;
    if (keep === null) return `${ring} (evidence.keep would keep them longer)`;
    const since = oldestAtMs === null ? "none yet" : `those since ${new Date(oldestAtMs).toISOString()}`;
    return `${ring}; the store keeps ${since} (evidence.keep: ${keep.days} days, ${keep.bytes} bytes)`;
  }
}

function isInRings(from: NonNullable<DecisionFilter["from"]>): from is readonly number[] {
  return Array.isArray(from);
}
