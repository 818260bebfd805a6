/** The configuration as a whole: apply, dry run, export, reload, and who changed what. */

import { CONFIGURATION_ROUTES, YamlBody } from "@zml/protocol/admin";
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import type { ConfigProblem } from "../config/config-problem.ts";
import { readYaml } from "../config/yaml-text.ts";
import { StoreFault } from "../store/store-fault.ts";
import { AdminProblem } from "./admin-problem.ts";
import { accountOf, type Principal } from "./authorize.ts";
import { type BoundRoute, bind } from "./bound-route.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import { etagOf, writeCondition } from "./entity-tags.ts";
import { dateOf, refusedProblem, shownSpec } from "./write-results.ts";

const AUDIT_DEFAULT = 100;

export function configurationHandlers(): BoundRoute[] {
  return [
    bind(CONFIGURATION_ROUTES.apply, async ({ query, headers, body }, { principal, sources }) => {
      const { dry_run: isDryRun = false, prune = false } = query;
      const { ifMatch } = writeCondition(headers);
      const options = { isDryRun, prune, ifMatch, actor: principal.actor };
      const result = await sources.objects.apply(partialFile(body), options);
      if (result.kind === "refused") throw refusedProblem(result, null);
      const { changes, version, isAcknowledged, warnings } = result;
      const answer = { changes, version, is_acknowledged: isAcknowledged, warnings };
      const tag = result.planTag === null ? {} : { etag: etagOf(result.planTag) };
      return { status: isDryRun || isAcknowledged ? 200 : 202, body: answer, headers: tag };
    }),
    bind(CONFIGURATION_ROUTES.dryRun, async ({ body }, { sources }) => {
      const { errors, warnings, needsRestart, sections, changes } = await sources.objects.diffFile(body.text);
      return {
        status: 200,
        body: {
          errors: errors.map(placeJson),
          warnings: warnings.map(placeJson),
          needs_restart: needsRestart,
          sections,
          changes,
        },
      };
    }),
    bind(CONFIGURATION_ROUTES.get, (_input, { sources, accept }) => {
      const text = sources.objects.exportYaml();
      if (!/\bapplication\/json\b/.test(accept)) return { status: 200, body: { text, type: "application/yaml" } };
      return { status: 200, body: { text: `${JSON.stringify(parseYaml(text))}\n`, type: "application/json" } };
    }),
    bind(CONFIGURATION_ROUTES.reload, async (_input, { sources }) => {
      const result = await sources.reload();
      if (result.kind === "refused") {
        const errors = result.problems.map((message) => ({ path: "", message, hint: "" }));
        const detail = `the configuration is refused, the old one runs on: ${result.problems[0] ?? ""}`;
        throw new AdminProblem("configuration_refused", detail, { errors });
      }
      if (result.kind === "unchanged") {
        const same = { kind: "unchanged", version: sources.version(), is_acknowledged: true, warnings: [] } as const;
        return { status: 200, body: same };
      }
      const { kind, version, isAcknowledged, warnings } = result;
      return {
        status: isAcknowledged ? 200 : 202,
        body: { kind, version, is_acknowledged: isAcknowledged, warnings },
      };
    }),
    bind(CONFIGURATION_ROUTES.audit, async ({ query }, { principal, sources }) => {
      const { kind = null, name = null, limit = AUDIT_DEFAULT } = query;
      const account = query.account === undefined && principal.isOperator ? null : accountOf(principal, query.account);
      const beforeId = decodeCursor(query.cursor, z.int().min(1));
      // one more than asked for tells whether there is a next page
      const records = await sources.objects
        .listAudit({ account, kind, name, beforeId, limit: limit + 1 })
        .catch(refuseStoreFault);
      const page = records.slice(0, limit);
      const items = page.map(({ id, atMs, actor, action, before, after, version, ...of }) => {
        return {
          id,
          at: dateOf(atMs) ?? "",
          actor,
          kind: of.kind,
          account: of.account,
          name: of.name,
          action,
          before: shownValues(of.kind, before, principal),
          after: shownValues(of.kind, after, principal),
          version,
        };
      });
      const last = page.at(-1);
      const next = records.length > page.length && last !== undefined ? encodeCursor(last.id) : null;
      return { status: 200, body: { items, next_cursor: next } };
    }),
  ];
}

/** What the audit tells of an object is what the object itself tells. */
function shownValues(kind: string, values: unknown, principal: Principal): unknown {
  return typeof values === "object" && values !== null ? shownSpec(kind, values, principal) : values;
}

/** A fault of the store as a problem. @throws always */
export function refuseStoreFault(error: unknown): never {
  if (error instanceof StoreFault) {
    throw new AdminProblem("store_unavailable", error.message, { headers: { "retry-after": "5" } });
  }
  throw error;
}

/** @throws AdminProblem for YAML that is none, or no mapping. */
function partialFile(body: Readonly<Record<string, unknown>> | YamlBody): Readonly<Record<string, unknown>> {
  if (!(body instanceof YamlBody)) return body;
  const { value, problems } = readYaml(body.text);
  if (problems.length > 0) {
    const errors = problems.map(({ line, column, message, hint }) => {
      return { path: "", message: `line ${line}, column ${column}: ${message}`, hint: hint ?? "" };
    });
    throw new AdminProblem("invalid_yaml", `the body is not YAML: ${errors[0]?.message ?? ""}`, { errors });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new AdminProblem("invalid_body", "the body is no mapping: start with a key such as nodes:");
  }
  return value as Readonly<Record<string, unknown>>;
}

function placeJson({ line, column, path, message, hint }: ConfigProblem) {
  return { line, column, path, message, hint };
}
