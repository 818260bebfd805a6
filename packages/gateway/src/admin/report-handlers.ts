/** What the gateway sees: the fleet, prices, sources of nodes, decisions, and itself. */

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import type { ObjectOwner } from "@zml/protocol";
import {
  COLLECTION_NAMES,
  DECISION_ROUTES,
  DECISIONS_DEFAULT,
  DECISIONS_MAX,
  type DecisionJson,
  FLEET_ROUTES,
  GATEWAY_ROUTES,
  MONEY_ROWS_DEFAULT,
  PRICE_DAYS_DEFAULT,
  RESOURCES,
  type RouteInput,
} from "@zml/protocol/admin";
import { z } from "zod";
import type { ManagedObjects } from "../control/objects/managed-objects.ts";
import type { DecisionChoice } from "../evidence/recent-decisions.ts";
import { decisionsOfBackup } from "../store/store-files.ts";
import { AdminProblem, shown } from "./admin-problem.ts";
import type { AdminSources } from "./admin-sources.ts";
import { accountOf, type Principal } from "./authorize.ts";
import { type BoundRoute, bind } from "./bound-route.ts";
import { refuseStoreFault } from "./configuration-handlers.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";

/** Where a page ended: in the rings, by worker, at most 256; or in what is kept. */
const placeSchema = z.union([
  z.array(z.int().min(-1).max(0x7fffffff)).min(1).max(256),
  z.strictObject({ chunk: z.int().min(0), skip: z.int().min(0).max(1_000_000) }),
]);

const DAY_MS = 86_400_000;

export function reportHandlers(): BoundRoute[] {
  return [
    bind(FLEET_ROUTES.fleet, (_input, { sources }) => ({ status: 200, body: sources.fleet() })),
    bind(FLEET_ROUTES.live, ({ query }, { sources }) => ({
      status: 200,
      body: { type: "application/json", text: sources.live(query.since ?? null) },
    })),
    bind(FLEET_ROUTES.history, (_input, { sources }) => ({ status: 200, body: sources.history() })),
    bind(FLEET_ROUTES.money, ({ query }, { principal, sources }) => {
      const account = query.account === undefined && principal.isOperator ? null : accountOf(principal, query.account);
      const { window = "hour", by = "account", limit = MONEY_ROWS_DEFAULT } = query;
      const money = sources.money({ window, by, account, limit });
      // what the fleet costs is the operator's
      return { status: 200, body: principal.isOperator ? money : { ...money, fleet_usd_per_hour: null } };
    }),
    bind(FLEET_ROUTES.prices, (_input, { sources }) => ({ status: 200, body: sources.prices() })),
    bind(FLEET_ROUTES.priceHistory, async ({ params, query }, { sources }) => {
      const days = query.days ?? PRICE_DAYS_DEFAULT;
      const sinceMs = Date.now() - days * DAY_MS;
      return { status: 200, body: await sources.priceHistory({ key: params.key, sinceMs }) };
    }),
    bind(FLEET_ROUTES.discovery, (_input, { sources }) => ({ status: 200, body: sources.discovery() })),
    bind(DECISION_ROUTES.list, async ({ query }, { principal, sources }) => {
      const account = query.account === undefined && principal.isOperator ? null : accountOf(principal, query.account);
      const from = decodeCursor(query.cursor, placeSchema);
      const asked = sources.decisions.page({
        ...choiceOf(query, account),
        limit: query.limit ?? DECISIONS_DEFAULT,
        from,
      });
      const { items, next, lookedAt } = await asked.catch(refuseStoreFault);
      const page = {
        items: items.map((item) => decisionFor(item, principal)),
        next_cursor: next === null ? null : encodeCursor(next),
        looked_at: lookedAt,
      };
      return { status: 200, body: page };
    }),
    bind(DECISION_ROUTES.tail, ({ query }, { principal, sources }) => {
      const account = query.account === undefined && principal.isOperator ? null : accountOf(principal, query.account);
      const { limit = DECISIONS_MAX, mark = null } = query;
      const tail = sources.decisions.tail({ ...choiceOf(query, account), limit, mark });
      return { status: 200, body: { ...tail, items: tail.items.map((item) => decisionFor(item, principal)) } };
    }),
    bind(DECISION_ROUTES.get, async ({ params }, { principal, sources }) => {
      const decision = await sources.decisions.find(params.id).catch(refuseStoreFault);
      // that another account has such a decision is nothing to tell
      const isOwn = principal.isOperator || decision?.request.account === principal.account;
      if (decision === null || !isOwn) throw unknownDecision(params.id, sources.decisions.remembered());
      return { status: 200, body: decisionFor(decision, principal) };
    }),
    bind(GATEWAY_ROUTES.whoami, (_input, { principal, sources }) => ({
      status: 200,
      body: {
        name: principal.actor.name,
        account: principal.account,
        is_operator: principal.isOperator,
        may_write: principal.mayWrite,
        product_version: sources.status().product_version,
      },
    })),
    bind(GATEWAY_ROUTES.status, (_input, { sources }) => ({
      status: 200,
      body: { ...sources.status(), objects: objectCounts(sources.objects) },
    })),
    bind(GATEWAY_ROUTES.openapi, async () => {
      const { openApiDocument } = await import("./openapi.ts");
      return { status: 200, body: openApiDocument() };
    }),
    bind(GATEWAY_ROUTES.logLevel, (_input, { sources }) => ({ status: 200, body: logLevel(sources) })),
    bind(GATEWAY_ROUTES.setLogLevel, async ({ body }, { principal, sources }) => {
      const before = { level: sources.logControl.level };
      sources.logControl.setLevel(body.level);
      const entry = { kind: "", account: "", name: "log", action: "set_level", before, after: { ...body } };
      await sources.objects.note(entry, principal.actor);
      return { status: 200, body: logLevel(sources) };
    }),
    bind(GATEWAY_ROUTES.backup, async ({ body }, { principal, sources }) => {
      if (!isAbsolute(body.path)) {
        const errors = [{ path: "path", message: "it is no absolute path", hint: "begin it with /" }];
        throw new AdminProblem("invalid_body", "path: it is no absolute path: begin it with /", { errors });
      }
      if (existsSync(body.path)) {
        const errors = [{ path: "path", message: "there is such a file already", hint: "name a new one" }];
        throw new AdminProblem("invalid_object", "path: there is such a file already: name a new one", { errors });
      }
      const { bytes } = await sources.objects.backup(body.path).catch(refuseStoreFault);
      const copy = body.decisions === true ? sources.decisions.backup(decisionsOfBackup(body.path)) : null;
      const decisionsBytes = (await copy?.catch(refuseStoreFault)) ?? null;
      const entry = {
        kind: "",
        account: "",
        name: "store",
        action: "backup",
        before: null,
        after: { path: body.path },
      };
      await sources.objects.note(entry, principal.actor);
      return { status: 201, body: { path: body.path, bytes, decisions_bytes: decisionsBytes } };
    }),
  ];
}

function choiceOf(
  query: RouteInput<typeof DECISION_ROUTES.tail>["query"] | RouteInput<typeof DECISION_ROUTES.list>["query"],
  account: string | null,
): DecisionChoice {
  return {
    account,
    policy: query.policy ?? null,
    model: query.model ?? null,
    node: query.node ?? null,
    family: query.family ?? null,
    reason: query.reason ?? null,
    slowerThanMs: query.slower_than_ms ?? null,
    isRedispatched: query.redispatched ?? null,
  };
}

function logLevel({ logControl: { level, leftOut } }: AdminSources) {
  return { level, left_out_lines: leftOut.unread + leftOut.repeated };
}

/** Where a node is, is the operator's. */
function decisionFor(decision: DecisionJson, { isOperator }: Principal): DecisionJson {
  return isOperator ? decision : { ...decision, choice: { ...decision.choice, url: null } };
}

/** What somebody reads who asks for a decision that is not there. */
function unknownDecision(id: string, remembered: string): AdminProblem {
  return new AdminProblem(
    "not_found",
    `there is no decision ${shown(id)}: ids stand in the header x-zml-routing, and ${remembered}`,
  );
}

function objectCounts(objects: ManagedObjects) {
  return COLLECTION_NAMES.map((name) => {
    const { kind } = RESOURCES[name];
    const all = objects.list(kind, null);
    const count = (owner: ObjectOwner) => all.filter((object) => object.owner === owner).length;
    return {
      kind,
      total: all.length,
      owners: { file: count("file"), api: count("api"), discovery: count("discovery") },
    };
  });
}
