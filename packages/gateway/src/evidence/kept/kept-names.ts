/** Names behind the indexes of kept records, looked up when somebody reads one. */

import type { EvidenceNames } from "../render-decision.ts";
import type { DecisionDatabase, NameKind } from "./decision-database.ts";

/** Names of a run. Each is asked for once. */
export function keptNames(database: DecisionDatabase, run: number): EvidenceNames {
  const known = new Map<string, { scope: string; name: string } | null>();
  const find = (kind: NameKind, index: number) => {
    if (index < 0) return null;
    const key = `${kind} ${index}`;
    let found = known.get(key);
    if (found === undefined) {
      found = database.nameOf(run, kind, index);
      known.set(key, found);
    }
    return found;
  };
  return {
    model: (index) => {
      const found = find("models", index);
      return found === null ? null : { account: found.scope, name: found.name };
    },
    policy: (index) => find("policies", index)?.name ?? null,
    family: (index) => find("families", index)?.name ?? null,
    node: (identity) => {
      const found = find("identities", identity);
      return found === null ? null : { id: found.name, url: found.scope };
    },
    key: (index) => find("keys", index)?.name ?? null,
  };
}
