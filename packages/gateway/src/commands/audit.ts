/** `zml audit`: who changed what, from which value to which. */

import { isDeepStrictEqual } from "node:util";
import { askAdmin } from "./ask-admin.ts";
import { type FieldChange, fieldText } from "./changes-text.ts";
import type { ObjectsOptions } from "./get.ts";
import { objectTitle } from "./object-kinds.ts";
import { oneLine, painted } from "./table-text.ts";
import { hasColour, type Terminal } from "./terminal.ts";
import { showPage, type Watch } from "./watch-page.ts";

export interface AuditOptions extends ObjectsOptions {
  readonly kind?: string;
  readonly name?: string;
  readonly limit: number;
  readonly json: boolean;
}

interface AuditRecord {
  readonly at: string;
  readonly actor: { readonly kind: string; readonly name: string; readonly account: string };
  readonly kind: string;
  readonly account: string;
  readonly name: string;
  readonly action: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly version: number | null;
}

/** @returns the exit code. */
export function audit(terminal: Terminal, options: AuditOptions, watch: Watch | null): Promise<number> {
  const { account, kind, name, limit } = options;
  return showPage<readonly AuditRecord[]>(
    terminal,
    {
      ask: async (signal) => {
        const answer = await askAdmin(terminal, options, {
          path: "/admin/v1/audit",
          query: {
            limit,
            ...(account !== undefined && { account }),
            ...(kind !== undefined && { kind }),
            ...(name !== undefined && { name }),
          },
          members: ["items"],
          ...(signal !== undefined && { signal }),
        });
        // the other end is this product
        return "problem" in answer ? answer : { report: (answer.value as { items: readonly AuditRecord[] }).items };
      },
      lines: (items) =>
        items.length === 0
          ? ["nothing was changed since the store was made"]
          : items.flatMap((item) => linesOf(terminal, item)),
      json: options.json ? (items) => ({ items }) : null,
      less: "--limit chooses",
    },
    watch,
  );
}

function linesOf(terminal: Terminal, { at, actor, kind, account, name, action, before, after, version }: AuditRecord) {
  const what = kind === "" ? "the gateway" : objectTitle({ kind, account, name });
  const who = actor.kind === "key" ? `key ${actor.account === "" ? "" : `${actor.account}/`}${actor.name}` : actor.kind;
  const number = version === null ? "" : `, version ${version}`;
  const head = oneLine(`${at}  ${action} ${what}, by ${who}${number}`);
  const isNew = isNothing(before);
  const fields = fieldChanges(before, after).map((field) => `    ${oneLine(fieldText(field, isNew))}`);
  return [painted(head, hasColour(terminal), action === "deleted" ? "red" : null), ...fields];
}

/** What differs between two entries, at their first level; of what is gone nothing, as its making tells it. */
function fieldChanges(before: unknown, after: unknown): FieldChange[] {
  if (isNothing(after)) return [];
  if (!isMapping(after) || !(isMapping(before) || isNothing(before))) return [{ path: "", before, after }];
  const was = isMapping(before) ? before : {};
  return [...new Set([...Object.keys(was), ...Object.keys(after)])]
    .filter((key) => !isDeepStrictEqual(was[key], after[key]))
    .map((key) => ({ path: key, before: was[key], after: after[key] }));
}

function isNothing(value: unknown): boolean {
  return value === null || value === undefined;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
