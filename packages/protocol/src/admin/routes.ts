import { CHOICE_REASONS, NO_NODE_REASONS } from "@zml/engine/reasons";
import { z } from "zod";
import { backtestBody, backtestJobSchema, backtestParams } from "./backtest.ts";
import {
  appliedSchema,
  applyBody,
  applyHeaders,
  applyQuery,
  auditQuery,
  auditSchema,
  backupBody,
  backupSchema,
  cooldownBody,
  dryRunSchema,
  emptyBody,
  logLevelBody,
  logLevelSchema,
  nodeActionSchema,
  nodeIdParams,
  reloadSchema,
  statusSchema,
  whoamiSchema,
} from "./changes.ts";
import { decisionPageSchema, decisionSchema, decisionTailSchema } from "./decisions.ts";
import {
  accountQuery,
  cursor,
  documented,
  objectName,
  queryFlag,
  queryInteger,
  queryNumber,
  YamlBody,
} from "./fields.ts";
import { fleetReportSchema } from "./fleet.ts";
import { historySchema, liveQuery, liveSchema } from "./live.ts";
import { moneyQuery, moneySchema } from "./money.ts";
import { ALL_OBJECT_ROUTES } from "./object-routes.ts";
import { type RouteContract, route } from "./route-contract.ts";
import {
  discoveryReportSchema,
  priceHistoryParams,
  priceHistoryQuery,
  priceHistorySchema,
  pricesReportSchema,
} from "./sources.ts";
import { whatIfBody, whatIfSchema } from "./what-if.ts";

/** Every route of the admin port: the one list that is registered, documented and walked by tests. */

const json = ["application/json"] as const;
const empty = { schema: emptyBody, types: json, size: "object" } as const;
const yamlText = documented(z.instanceof(YamlBody), { description: "A zml.yaml, as text." });
const anyText = documented(z.unknown(), { type: "string" });
const anyDocument = documented(z.unknown(), { type: "object" });

export const CONFIGURATION_ROUTES = {
  apply: route({
    id: "apply",
    method: "POST",
    path: "/admin/v1/apply",
    tag: "configuration",
    summary: "Apply a part of zml.yaml",
    description:
      "All of it or nothing, as one version. What is not in it stays as it is, unless `prune` is true. A dry run answers with an entity tag of what it showed.",
    access: "operator_write",
    query: applyQuery,
    headers: applyHeaders,
    body: { schema: applyBody, types: ["application/json", "application/yaml"], size: "bulk" },
    answers: {
      200: { description: "What changed, or would change.", schema: appliedSchema, headers: ["etag"] },
      202: { description: "Stored, and in force on some workers; the others will follow.", schema: appliedSchema },
    },
    problems: [
      "invalid_yaml",
      "owned_by_file",
      "owned_by_discovery",
      "in_use",
      "needs_restart",
      "precondition_failed",
      "invalid_object",
      "store_unavailable",
    ],
  }),
  dryRun: route({
    id: "dry_run",
    method: "POST",
    path: "/admin/v1/configuration/dry-run",
    tag: "configuration",
    summary: "Check a whole zml.yaml",
    description: "Says everything that is wrong with it, with lines, or what it would change. Nothing is applied.",
    access: "operator_write",
    body: { schema: yamlText, types: ["application/yaml"], size: "bulk" },
    answers: { 200: { description: "What is wrong, or what would change.", schema: dryRunSchema } },
  }),
  get: route({
    id: "get_configuration",
    method: "GET",
    path: "/admin/v1/configuration",
    tag: "configuration",
    summary: "Export the whole configuration",
    description:
      "As zml.yaml, file and API objects together. It names where secrets are and holds none. JSON where `accept` asks for it.",
    access: "operator_read",
    answers: {
      200: {
        description: "The configuration.",
        schema: anyDocument,
        types: ["application/yaml", "application/json"],
      },
    },
  }),
  reload: route({
    id: "reload",
    method: "POST",
    path: "/admin/v1/reload",
    tag: "configuration",
    summary: "Read the configuration file again",
    access: "operator_write",
    body: empty,
    answers: {
      200: { description: "It is in force, or nothing changed.", schema: reloadSchema },
      202: { description: "In force on some workers; the others will follow.", schema: reloadSchema },
    },
    problems: ["configuration_refused"],
  }),
  audit: route({
    id: "list_audit",
    method: "GET",
    path: "/admin/v1/audit",
    tag: "configuration",
    summary: "Who changed what",
    access: "read",
    query: auditQuery,
    answers: { 200: { description: "A page, newest first.", schema: auditSchema } },
    problems: ["other_account", "store_unavailable"],
  }),
};

const acted = { 200: { description: "The node's state now.", schema: nodeActionSchema } } as const;
const action = { tag: "nodes", method: "POST", access: "operator_write", params: nodeIdParams } as const;
const ofAccount = z.strictObject({ account: accountQuery("Whose the node is. Default: `default`.") });

export const NODE_ROUTES = {
  drain: route({
    ...action,
    id: "drain_node",
    path: "/admin/v1/nodes/{id}/drain",
    summary: "Drain a node",
    description: "It gets no new request; what runs there ends there. Kept in the store, for nodes of the file too.",
    query: ofAccount,
    body: empty,
    answers: acted,
    problems: ["not_found", "store_unavailable"],
  }),
  undrain: route({
    ...action,
    id: "undrain_node",
    path: "/admin/v1/nodes/{id}/undrain",
    summary: "Let a drained node take requests again",
    query: ofAccount,
    body: empty,
    answers: acted,
    problems: ["not_found", "store_unavailable"],
  }),
  cooldown: route({
    ...action,
    id: "cooldown_node",
    path: "/admin/v1/nodes/{id}/cooldown",
    summary: "Put a node into cooldown now",
    description: "A cooldown only gets longer: one that ends later stays. Its end brings a trial, as after a failure.",
    query: ofAccount,
    body: { schema: cooldownBody, types: json, size: "object" },
    answers: acted,
    problems: ["not_found"],
  }),
  clearCooldown: route({
    ...action,
    id: "clear_cooldown",
    path: "/admin/v1/nodes/{id}/clear-cooldown",
    summary: "End a node's cooldown now",
    description: "Without a trial, and with its count of failures set back. Back-offs that the node asked for end too.",
    query: ofAccount,
    body: empty,
    answers: acted,
    problems: ["not_found"],
  }),
};

/** Decisions of a page. */
export const DECISIONS_MAX = 500;
export const DECISIONS_DEFAULT = 50;

const decisionFilter = {
  account: accountQuery("Only requests of this account. Default: all that the key may see."),
  policy: objectName("a policy").optional().describe("Only requests under this policy."),
  node: objectName("a node id").optional().describe("Only those that this node was chosen for."),
  family: objectName("a family").optional().describe("Only those that a node of this family was chosen for."),
  model: z.string().min(1).max(256).optional().describe("Only requests for this model."),
  reason: z
    .enum([...CHOICE_REASONS, ...NO_NODE_REASONS])
    .optional()
    .describe("Only those that were decided for this reason."),
  slower_than_ms: queryNumber({ min: 0, max: 86_400_000 })
    .optional()
    .describe("Only attempts that have ended and took longer."),
  redispatched: queryFlag().optional().describe("Only those that are, or are not, a second or later attempt."),
};

const decisionsQuery = z.strictObject({
  ...decisionFilter,
  limit: queryInteger({ min: 1, max: DECISIONS_MAX }).optional().describe(`Default: ${DECISIONS_DEFAULT}.`),
  cursor: cursor().optional(),
});

const decisionTailQuery = z.strictObject({
  ...decisionFilter,
  limit: queryInteger({ min: 1, max: DECISIONS_MAX }).optional().describe(`Default: ${DECISIONS_MAX}.`),
  mark: z
    .string()
    .regex(/^[a-z0-9._-]{1,8192}$/, { error: "expected the mark of the answer before" })
    .optional()
    .describe("`mark` of the answer before. It is opaque. Without one the tail begins now, with nothing."),
});

export const DECISION_ROUTES = {
  list: route({
    id: "list_decisions",
    method: "GET",
    path: "/admin/v1/decisions",
    tag: "decisions",
    summary: "List recent decisions",
    description:
      "Newest first, as far as each worker remembers them (`evidence.ring_records`), then those that the store keeps (`evidence.keep`). A page may end before it is full.",
    access: "read",
    query: decisionsQuery,
    answers: { 200: { description: "A page.", schema: decisionPageSchema } },
    problems: ["other_account", "store_unavailable"],
  }),
  tail: route({
    id: "tail_decisions",
    method: "GET",
    path: "/admin/v1/decisions/tail",
    tag: "decisions",
    summary: "Follow decisions",
    description:
      "What ended since the answer before, in the order of its ends. Ask again with its `mark`, about once a second. It is bounded: what a ring no longer has is counted as missed.",
    access: "read",
    query: decisionTailQuery,
    answers: { 200: { description: "What is new.", schema: decisionTailSchema } },
    problems: ["other_account"],
  }),
  get: route({
    id: "get_decision",
    method: "GET",
    path: "/admin/v1/decisions/{id}",
    tag: "decisions",
    summary: "Get a decision",
    access: "read",
    params: z.strictObject({
      id: z.string().min(1).max(128).describe("The member `decision` of the header `x-zml-routing`."),
    }),
    answers: { 200: { description: "The decision.", schema: decisionSchema } },
    problems: ["not_found", "store_unavailable"],
  }),
  whatIf: route({
    id: "decide",
    method: "POST",
    path: "/admin/v1/decide",
    tag: "decisions",
    summary: "Say what would be decided",
    description:
      "As a worker would decide at this moment, under other prices, without some nodes, or by a draft of a policy. Nothing is booked and nothing is sent.",
    access: "read",
    body: { schema: whatIfBody, types: json, size: "object" },
    answers: { 200: { description: "Both decisions.", schema: whatIfSchema } },
    problems: ["other_account"],
  }),
};

const backtestList = z.object({ items: z.array(backtestJobSchema).describe("Newest first, without their reports.") });

export const BACKTEST_ROUTES = {
  start: route({
    id: "start_backtest",
    method: "POST",
    path: "/admin/v1/backtest",
    tag: "decisions",
    summary: "Start a back-test",
    description:
      "Replays kept decisions (`evidence.keep`) under the policies in force and under a draft, on a thread that goes behind everything else. An account has one at a time. Operators' begin at once; others' may wait for each other, and replay no more than `evidence.backtests` lets them. Look at it until its state is neither `waiting` nor `running`.",
    access: "read",
    body: { schema: backtestBody, types: json, size: "object" },
    answers: { 202: { description: "It runs, or waits for its place.", schema: backtestJobSchema } },
    problems: ["other_account", "not_kept", "already_running", "too_many_backtests", "store_unavailable"],
  }),
  list: route({
    id: "list_backtests",
    method: "GET",
    path: "/admin/v1/backtest",
    tag: "decisions",
    summary: "List back-tests",
    description: "Those of the key's account, an operator's of all: the last eight of an account since the start.",
    access: "read",
    answers: { 200: { description: "The jobs.", schema: backtestList } },
  }),
  get: route({
    id: "get_backtest",
    method: "GET",
    path: "/admin/v1/backtest/{id}",
    tag: "decisions",
    summary: "Get a back-test, with its report once it is done",
    access: "read",
    params: backtestParams,
    answers: { 200: { description: "The job.", schema: backtestJobSchema } },
    problems: ["not_found"],
  }),
  cancel: route({
    id: "cancel_backtest",
    method: "DELETE",
    path: "/admin/v1/backtest/{id}",
    tag: "decisions",
    summary: "Cancel a back-test that runs or waits",
    access: "read",
    params: backtestParams,
    answers: { 200: { description: "The job. One that had ended stays as it was.", schema: backtestJobSchema } },
    problems: ["not_found"],
  }),
};

const report = { method: "GET", tag: "fleet", access: "operator_read" } as const;

export const FLEET_ROUTES = {
  fleet: route({
    ...report,
    id: "get_fleet",
    path: "/admin/v1/fleet",
    summary: "State of every node and model",
    answers: { 200: { description: "The fleet.", schema: fleetReportSchema } },
  }),
  live: route({
    ...report,
    id: "get_live",
    path: "/admin/v1/live",
    summary: "What changes from second to second",
    description:
      "One column per number of the nodes, and totals: what the dashboard follows. With `since`, what changed since then.",
    query: liveQuery,
    answers: { 200: { description: "Now.", schema: liveSchema } },
  }),
  history: route({
    ...report,
    id: "get_history",
    path: "/admin/v1/history",
    summary: "The last hour",
    answers: { 200: { description: "One sample each five seconds.", schema: historySchema } },
  }),
  money: route({
    ...report,
    access: "read",
    id: "get_money",
    path: "/admin/v1/money",
    summary: "What requests cost",
    description:
      "Dollars of node time by account, model, family or policy, per hour and per million tokens, and savings against the first family of each policy. Keys of other accounts see their own only.",
    query: moneyQuery,
    answers: { 200: { description: "The sums.", schema: moneySchema } },
    problems: ["other_account"],
  }),
  prices: route({
    ...report,
    id: "get_prices",
    path: "/admin/v1/prices",
    summary: "Price feeds and the provider cost table",
    answers: { 200: { description: "The prices.", schema: pricesReportSchema } },
  }),
  priceHistory: route({
    ...report,
    id: "get_price_history",
    path: "/admin/v1/prices/{key}/history",
    summary: "What one price was",
    params: priceHistoryParams,
    query: priceHistoryQuery,
    answers: { 200: { description: "Its changes.", schema: priceHistorySchema } },
  }),
  discovery: route({
    ...report,
    id: "get_discovery",
    path: "/admin/v1/discovery",
    summary: "Sources of nodes and what they found",
    answers: { 200: { description: "The sources.", schema: discoveryReportSchema } },
  }),
};

export const GATEWAY_ROUTES = {
  status: route({
    id: "get_status",
    method: "GET",
    path: "/admin/v1/status",
    tag: "gateway",
    summary: "State of the gateway",
    access: "operator_read",
    answers: { 200: { description: "The gateway.", schema: statusSchema } },
  }),
  whoami: route({
    id: "get_whoami",
    method: "GET",
    path: "/admin/v1/whoami",
    tag: "gateway",
    summary: "Who asks, and what they may",
    access: "read",
    answers: { 200: { description: "The key that was sent.", schema: whoamiSchema } },
  }),
  openapi: route({
    id: "get_openapi",
    method: "GET",
    path: "/admin/v1/openapi.json",
    tag: "gateway",
    summary: "This description, as OpenAPI 3.1",
    access: "read",
    answers: { 200: { description: "The document.", schema: anyDocument } },
  }),
  logLevel: route({
    id: "get_log_level",
    method: "GET",
    path: "/admin/v1/log/level",
    tag: "gateway",
    summary: "What is logged",
    access: "operator_read",
    answers: { 200: { description: "The level.", schema: logLevelSchema } },
  }),
  setLogLevel: route({
    id: "set_log_level",
    method: "PUT",
    path: "/admin/v1/log/level",
    tag: "gateway",
    summary: "Log more, or less, from now on",
    description: "Until the process ends, or `telemetry.log.level` of the file changes.",
    access: "operator_write",
    body: { schema: logLevelBody, types: json, size: "object" },
    answers: { 200: { description: "The level now.", schema: logLevelSchema } },
  }),
  backup: route({
    id: "backup_store",
    method: "POST",
    path: "/admin/v1/store/backup",
    tag: "gateway",
    summary: "Copy the store while it is in use",
    access: "operator_write",
    body: { schema: backupBody, types: json, size: "object" },
    answers: { 201: { description: "The copy is written.", schema: backupSchema } },
    problems: ["invalid_object", "store_unavailable"],
  }),
};

const probe = z.object({ status: z.enum(["ok", "ready", "not_ready"]) }).meta({ id: "Probe" });
const probeRoute = { method: "GET", tag: "gateway", access: "open" } as const;

/** Answered without the framework: these come every few seconds, and an idle gateway stays small. */
export const DOOR_ROUTES = {
  metrics: route({
    id: "get_metrics",
    method: "GET",
    path: "/metrics",
    tag: "gateway",
    summary: "Metrics for Prometheus",
    access: "operator_read",
    answers: { 200: { description: "Text format 0.0.4.", schema: anyText, types: ["text/plain"] } },
  }),
  healthz: route({
    ...probeRoute,
    id: "healthz",
    path: "/healthz",
    summary: "Whether the process runs",
    answers: { 200: { description: "It does.", schema: probe } },
  }),
  readyz: route({
    ...probeRoute,
    id: "readyz",
    path: "/readyz",
    summary: "Whether requests are served",
    answers: {
      200: { description: "They are.", schema: probe },
      503: { description: "Not yet, or no longer.", schema: probe },
    },
  }),
};

export const ADMIN_ROUTES: readonly RouteContract[] = [
  ...ALL_OBJECT_ROUTES,
  ...Object.values(CONFIGURATION_ROUTES),
  ...Object.values(NODE_ROUTES),
  ...Object.values(FLEET_ROUTES),
  ...Object.values(DECISION_ROUTES),
  ...Object.values(BACKTEST_ROUTES),
  ...Object.values(GATEWAY_ROUTES),
  ...Object.values(DOOR_ROUTES),
];
