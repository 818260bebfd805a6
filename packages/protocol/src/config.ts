import { COST_PRIORITIES, ENDPOINTS, ESTIMATORS } from "@zml/engine/reasons";
import { z } from "zod";
import { account, accountSchema, keySchema, sharedWithSchema } from "./account-config.ts";
import * as field from "./config-fields.ts";
import { discoverySchemaFor } from "./discovery-config.ts";
import { checkAddresses, customSchema, gpuExporterSchema } from "./node-sources-config.ts";
import { costSchema, pricesSchema } from "./price-config.ts";
import { telemetrySchema } from "./telemetry-config.ts";
import { http2Schema, nodeHttp2Schema, nodeTlsSchema, serverTlsSchema } from "./transport-config.ts";

/**
 * The configuration file: one schema per shape, keys as they stand in the file, and the only home of the defaults.
 * Rules that look at more than one object (duplicates, references) are in the gateway, beside the line numbers.
 */

/** Serving engines that have an adapter. */
export const ENGINES = ["vllm", "sglang", "llamacpp", "tgi", "trtllm", "triton", "custom"] as const;
/** A serving engine that has an adapter. */
export type EngineName = (typeof ENGINES)[number];

export const dataSchema = z
  .strictObject(
    {
      listen: field.listen().default("127.0.0.1:8080").describe("Where callers connect. Port 0: the system chooses."),
      allow_unauthenticated: field
        .flag()
        .default(false)
        .describe("Serve callers of other machines although there are no keys."),
      head_ms: field
        .durationMs({ max: 600_000 })
        .default(10_000)
        .describe("A request head that is not complete after this long ends its connection."),
      body_ms: field
        .durationMs()
        .default(120_000)
        .describe("A request body that is not complete after this long is refused."),
      keep_alive_ms: field
        .durationMs()
        // load balancers in front keep idle connections for up to 60 s; closing first would reset their next request
        .default(75_000)
        .describe("Idle connections of callers are closed after this long."),
      cors_origins: z
        .array(field.pageOrigin(), field.list)
        .max(1000, { error: "expected at most 1000 origins" })
        .default([])
        .describe('Origins whose pages may call from a browser; "*" is any.'),
      max_connections: field
        .count({ min: 1, max: 1_000_000 })
        // an idle one takes some 10 KiB: a third of a GB
        .default(32_768)
        .describe("Open connections of callers, all workers. One more is closed as it is accepted."),
      max_connections_per_address: field
        .count({ min: 1, max: 1_000_000 })
        // more than one client library or load balancer opens; it takes eight addresses to fill the port
        .default(4096)
        .describe("The same for one address: of IPv6, for all that begin with the same 64 bits."),
      trusted_proxies: z
        .array(field.network(), field.list)
        .max(1000, { error: "expected at most 1000 networks" })
        .default(["127.0.0.0/8", "::1"])
        .describe("Addresses and networks behind which many callers stand: max_connections alone holds for them."),
      tls: serverTlsSchema.optional(),
      http2: http2Schema,
    },
    field.mapping,
  )
  .prefault({})
  .describe("The data port: OpenAI-style requests.");

export const adminSchema = z
  .strictObject(
    {
      listen: field.listen().default("127.0.0.1:8081").describe("Where operators connect. Port 0: the system chooses."),
      allow_unauthenticated: field
        .flag()
        .default(false)
        .describe("Serve operators of other machines although there are no keys."),
      body_bytes: field
        .byteCount({ min: 1024, max: 2 ** 30 })
        // 10,000 nodes with every key that one may have are 12 MiB, which is also about what the YAML reader takes
        .default(16 * 2 ** 20)
        .describe("The largest body of a change of many objects. A change of one object takes 1 MiB at most."),
      request_ms: field
        .durationMs({ min: 100, max: 3_600_000 })
        // 16 MiB within it are 2.2 Mbit/s
        .default(60_000)
        .describe("A request that has not arrived after this long is refused."),
      connections: field
        .count({ min: 1, max: 65_536 })
        // each may hold a head of 128 KiB and a body of body_bytes
        .default(256)
        .describe("Open connections; further ones are closed at once."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("The admin port: what is configured, the state of the fleet and records of decisions, over REST.");

const healthFields = {
  poll_interval_ms: field.durationMs({ min: 100, max: 3_600_000 }).describe("Time between two polls of a node."),
  timeout_ms: field.durationMs({ max: 3_600_000 }).describe("A poll without an answer after this long has failed."),
  unhealthy_after: field.count({ min: 1, max: 100 }).describe("Failed polls in a row that take a node out."),
  healthy_after: field.count({ min: 1, max: 100 }).describe("Good polls in a row that bring a node back."),
  stalled_after: field
    .count({ min: 2, max: 10_000 })
    .describe("Polls in a row at which requests run and no token has moved that take a node out."),
  slow_start_ms: field
    .durationMs({ min: 0, max: 3_600_000 })
    .describe("A node that comes back, or joins, gets a share of traffic that grows for this long. 0: all at once."),
};

export const healthSchema = z
  .strictObject(
    {
      // The walkthrough: every node is polled every 5 seconds.
      poll_interval_ms: healthFields.poll_interval_ms.default(5000),
      timeout_ms: healthFields.timeout_ms.default(4000),
      unhealthy_after: healthFields.unhealthy_after.default(2),
      healthy_after: healthFields.healthy_after.default(1),
      // with a poll every 5 s some 25 s: reading a large prompt moves no counter before its end
      stalled_after: healthFields.stalled_after.default(6),
      // three polls: how the node bears its share is seen before it has all of it
      slow_start_ms: healthFields.slow_start_ms.default(15_000),
      // a fault of our own network would show on all nodes at once
      max_ejected_share: field
        .decimal("a share of a model's nodes", { min: 0, max: 1 })
        .default(0.5)
        .describe(
          "Of a model's nodes at most this share is out by health alone (late or no answers, standstill), and one at " +
            "least unless it is 0. Nodes that refuse connections, or say that they are not ready, don't count.",
        ),
      max_polls_at_once: field
        .count({ min: 1, max: 65_536 })
        .default(1024)
        .describe("Polls that run at once, of nodes that answered last time, and as many of those that did not."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("The health aggregator.");

export const limitsSchema = z
  .strictObject(
    {
      body_bytes: field
        .byteCount({ min: 1024, max: 2 ** 30 })
        .default(64 * 2 ** 20)
        .describe("The largest request body, counted on bytes read."),
      body_bytes_total: field
        .byteCount({ min: 1024, max: 2 ** 40 })
        .default(2 ** 30)
        .describe("All request bodies that are held at one time, for sending them again."),
      header_bytes: field
        .byteCount({ min: 4096, max: 2 ** 20 })
        .default(2 ** 16)
        .describe("The largest request head."),
      nodes: field
        .count({ min: 1, max: 65_536 })
        .default(16_384)
        .describe("Rows of the fleet table. Nodes that went stay in it until their last request has ended."),
      queue_requests: field
        .count({ min: 0, max: 1_000_000 })
        .default(10_000)
        .describe("Requests that may wait for room (queue_on_saturation)."),
      queue_bytes: field
        .byteCount({ min: 0, max: 2 ** 40 })
        .default(256 * 2 ** 20)
        .describe("Bytes of the bodies of the requests that wait for room."),
      prefixes: field
        .count({ min: 0, max: 2 ** 24 })
        .default(65_536)
        .describe(
          "Beginnings of prompts, of some 256 tokens and more, of which the gateway remembers the nodes that computed them, 32 bytes each. 0: none, and no node is preferred for what it has cached.",
        ),
    },
    field.mapping,
  )
  .prefault({})
  .describe("Bounds on memory.");

const timeoutFields = {
  connect_ms: field.durationMs({ max: 600_000 }).describe("To an open connection to the node."),
  first_byte_ms: field.durationMs().describe("To the head of the node's response."),
  first_token_ms: field.durationMs().describe("To the commit point; silence before it is a failure of the node."),
  idle_ms: field.durationMs().describe("Between two reads from the node after the commit point."),
  slow_client_ms: field.durationMs().describe("Without the caller taking a byte."),
  total_ms: field.durationMs().nullable().describe("From admission to the end, queue included. null: no limit."),
  drain_ms: field
    .durationMs()
    .describe("What running requests get to end after SIGTERM. Those of a node that is removed run to their own end."),
};

export const timeoutsSchema = z
  .strictObject(
    {
      connect_ms: timeoutFields.connect_ms.default(2000),
      first_byte_ms: timeoutFields.first_byte_ms.default(600_000),
      first_token_ms: timeoutFields.first_token_ms.default(600_000),
      idle_ms: timeoutFields.idle_ms.default(120_000),
      slow_client_ms: timeoutFields.slow_client_ms.default(60_000),
      total_ms: timeoutFields.total_ms.default(null),
      drain_ms: timeoutFields.drain_ms.default(30_000),
    },
    field.mapping,
  )
  .prefault({})
  .describe("Limits in time of a request.");

/** Ten cooldowns: a node that fails every trial costs a caller a first-token time-out each five minutes. */
const COOLDOWN_MAX_MS = 300_000;

const cooldownMs = field.durationMs({ max: 3_600_000 }).describe("How long a failed node gets no traffic.");

export const failoverSchema = z
  .strictObject(
    {
      cooldown_ms: cooldownMs.default(30_000),
      cooldown_max_ms: field
        .durationMs({ max: 3_600_000 })
        .default(COOLDOWN_MAX_MS)
        .describe(
          "Each further failure without an answer in between doubles the cooldown, up to this. A cooldown_ms above it stays as it is.",
        ),
      max_attempts: field
        .count({ min: 1, max: 100 })
        .default(3)
        .describe("Dispatches of one request, not counting connects that were refused or timed out."),
      window_ms: field
        .durationMs({ max: 3_600_000 })
        .default(30_000)
        .describe("No re-dispatch later than this after the request's first failure."),
      retry_budget: field
        .decimal("a share of traffic", { min: 0, max: 10 })
        .default(0.2)
        .describe("Re-dispatches as a share of traffic; ten a second are always allowed."),
      hold_ms: field
        .durationMs({ max: 3_600_000 })
        .default(15_000)
        .describe("A stream's prefix is held at most this long after its first body byte."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("What happens when an attempt fails.");

export const storeSchema = z
  .strictObject(
    {
      path: field
        .text("a path")
        .default("zml-data")
        .describe('Folder of the store, beside the file. ":memory:" keeps nothing.'),
      learned_days: field
        .count({ min: 1, max: 3_650 })
        .default(30)
        .describe("What was learned of a node that is not seen for this long is forgotten."),
      price_days: field.count({ min: 1, max: 3_650 }).default(90).describe("How long price changes are kept."),
      audit_days: field.count({ min: 1, max: 36_500 }).default(365).describe("How long it is kept who changed what."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("The embedded store.");

/** What holds for a policy that does not say it. */
export const POLICY_DEFAULTS = { costPriority: "balanced", maxQueueMs: 30_000 } as const;

export const evidenceSchema = z
  .strictObject(
    {
      ring_records: field
        .count({ min: 16, max: 2 ** 22 })
        // The slot of a record is its sequence number masked, so the size is a power of two.
        .refine((value) => Number.isInteger(Math.log2(value)), {
          error: (issue) => `expected a power of two such as 16384, got ${field.shown(issue.input)}`,
        })
        .default(16_384)
        .describe("Decisions that each worker remembers; a power of two."),
      keep: z
        .strictObject(
          {
            days: field.count({ min: 1, max: 3_650 }).default(7).describe("Older ones are taken out."),
            bytes: field
              .count({ min: 8_388_608, max: 2 ** 43 })
              .default(1_073_741_824)
              .describe("Size of their file; the oldest are taken out. A million decisions take some 60 MB."),
          },
          field.mapping,
        )
        .optional()
        .describe("Keep decisions in the store, for `zml explain` and `zml backtest`. Default: none are kept."),
      backtests: z
        .strictObject(
          {
            minutes: field
              .count({ min: 1, max: 1_440 })
              .default(30)
              .describe("An operator's that runs longer is ended."),
            tenant_minutes: field
              .count({ min: 1, max: 1_440 })
              .default(10)
              .describe("One of another account that runs longer is ended."),
            tenant_records: field
              .count({ min: 1_000, max: 100_000_000 })
              .default(1_000_000)
              .describe("A window with more records is refused to other accounts. A million takes some 500 MB."),
            tenants_at_once: field
              .count({ min: 1, max: 16 })
              .default(1)
              .describe("Of other accounts together; an operator's runs beside them."),
            tenants_waiting: field
              .count({ min: 0, max: 1_000 })
              .default(8)
              .describe("Of other accounts together, beyond those that run; the next one is refused."),
          },
          field.mapping,
        )
        .prefault({})
        .describe("What back-tests over the admin API may take."),
    },
    field.mapping,
  )
  .prefault({})
  .describe("What is kept about decisions.");

const servedModelSchema = z.union(
  [
    field.modelName(),
    z.strictObject({
      name: field.modelName().describe("The name that callers use."),
      upstream_model: field.modelName().optional().describe("The name that the node uses. Default: the same."),
      context_tokens: field
        .count({ min: 1, max: 1_000_000_000 })
        .optional()
        .describe("Its context length, in place of what the node tells."),
      images: field.flag().optional().describe("Whether it reads images, in place of what the node tells."),
      endpoints: z
        .array(field.oneOf(ENDPOINTS), field.list)
        .min(1, { error: "a model answers at least one endpoint: name it, or leave endpoints out" })
        .optional()
        .describe("The endpoints that it answers, in place of what the node tells."),
      adapter_of: field
        .modelName()
        .optional()
        .describe("It is an adapter (LoRA) of this model, by the name that callers use. Default: what the node tells."),
    }),
  ],
  {
    error: (issue) =>
      `expected a model name or { name: big, upstream_model: org/big } (1 to 256 bytes, no control characters), got ${field.shown(issue.input)}`,
  },
);

const nodeObject = z.strictObject(
  {
    id: field.name("a node id").describe("Stable name; the same id with the same url keeps its counters."),
    url: field.nodeUrl().describe("Origin and path prefix of the serving endpoint."),
    family: field.name("an accelerator family").describe("The accelerator family, such as H100."),
    account: account(),
    shared_with: sharedWithSchema,
    display_name: field.text("a text").max(256).optional().describe("For people."),
    engine: field.oneOf(ENGINES).optional().describe("The serving engine. Default: detected."),
    custom: customSchema.optional().describe("Only with engine: custom."),
    metrics_url: field
      .nodeUrl()
      .optional()
      .describe("Where its metrics are, if not on its own port, such as http://10.0.0.21:8002/metrics."),
    gpu_exporter: gpuExporterSchema
      .optional()
      .describe("A GPU exporter (DCGM, AMD) beside the node: second source of its free memory."),
    server_name: field
      .hostName("a host name")
      .optional()
      .describe("Its name in TLS and in the host field, where the url holds an address."),
    allow_link_local: field
      .flag()
      .default(false)
      .describe("Its addresses may be link-local or those of a cloud's metadata service."),
    gpus: field.count({ min: 1, max: 65_536 }).default(1).describe("Accelerators behind the endpoint."),
    platform: field
      .name("a platform")
      .optional()
      .describe("What its engine has to be built for, such as rocm or cuda: `zml nodes check` compares."),
    cost: costSchema.optional().describe("What the node costs. Default: unknown."),
    models: z
      .array(servedModelSchema, field.list)
      .optional()
      .describe("The models that the node serves. Default: what it reports."),
    max_in_flight: field
      .count({ min: 1, max: 1_000_000 })
      .optional()
      .describe("Requests on the node at one time. Default: from the engine."),
    max_connections: field.count({ min: 1, max: 65_536 }).default(512).describe("Sockets to the node, per worker."),
    keep_alive_ms: field
      .durationMs({ max: 3_600_000 })
      // uvicorn and llama.cpp close idle sockets after 5 s: closing first avoids sending into a closing socket.
      .default(4000)
      .describe("Idle sockets to the node are closed after this long."),
    max_connection_age_ms: field
      .durationMs()
      .default(300_000)
      .describe(
        "A socket is replaced after this long, so that names are looked up again. While a name can't be looked up its last addresses count, for ten minutes.",
      ),
    api_key_env: field.envName().optional().describe("The environment variable that holds the node's own key."),
    http_version: field
      .oneOf(["1.1", "2"])
      .default("1.1")
      .describe('What requests to the node are spoken in. "2": prior knowledge with http://, ALPN with https://.'),
    http2: nodeHttp2Schema,
    tls: nodeTlsSchema.optional(),
    timeouts: z
      .strictObject(timeoutFields, field.mapping)
      .partial()
      .optional()
      .describe("Overrides the section timeouts for this node."),
    health: z
      .strictObject(healthFields, field.mapping)
      .partial()
      .optional()
      .describe("Overrides the section health for this node."),
    failover: z
      .strictObject({ cooldown_ms: cooldownMs }, field.mapping)
      .partial()
      .optional()
      .describe("Overrides failover.cooldown_ms for this node."),
  },
  field.mapping,
);

export const nodeSchema = nodeObject.superRefine(checkAddresses);

/** What the nodes of a source have in common. A target's labels may name the family. */
const nodeTemplateSchema = nodeObject
  .omit({ id: true, url: true })
  .partial({ family: true })
  .describe("What its nodes have in common: every key of a node but id and url.");

export const discoverySchema = discoverySchemaFor(nodeTemplateSchema);

export const policySchema = z.strictObject(
  {
    name: field.name("a policy name").describe("The name that models, accounts and callers use."),
    account: account(),
    accelerator_preference: z
      .array(
        z.strictObject(
          {
            family: field.name("an accelerator family").describe("The accelerator family."),
            priority: field.count({ min: 0, max: 1000 }).describe("1 comes before 2; equal priority forms one tier."),
          },
          field.mapping,
        ),
        field.list,
      )
      .default([])
      .describe("The chain. Empty: all families of the account, in order of first registration."),
    latency_target_ms: field.durationMs().nullable().default(null).describe("For the whole response. null: no target."),
    ttft_target_ms: field.durationMs().nullable().default(null).describe("For streams: to the first token."),
    token_target_ms: field.durationMs().nullable().default(null).describe("For streams: between two tokens."),
    cost_priority: field
      .oneOf(COST_PRIORITIES)
      .default(POLICY_DEFAULTS.costPriority)
      .describe("cost: cheapest within the target. balanced: both. latency: price is not looked at."),
    estimator: field
      .oneOf(ESTIMATORS)
      .default("predictive")
      .describe(
        "What tells response times: predictive, learned per model and family; or simple, by tokens per second.",
      ),
    queue_on_saturation: field.flag().default(false).describe("Wait for room instead of a 503."),
    max_queue_ms: field.durationMs().default(POLICY_DEFAULTS.maxQueueMs).describe("The longest wait for room."),
    acceptable_waiting: field
      .count({ min: 0, max: 100_000 })
      .default(4)
      .describe("Latency mode: requests that may wait on a node for its depth to be acceptable."),
  },
  field.mapping,
);

export const modelSchema = z.strictObject(
  {
    name: field.modelName().describe("The name that callers use."),
    account: account(),
    display_name: field.text("a text").max(256).optional().describe("For people."),
    policy: field.name("a policy").nullable().default(null).describe("null: the account's default policy."),
  },
  field.mapping,
);

/** The whole file. */
export const configFileSchema = z.strictObject(
  {
    data: dataSchema,
    admin: adminSchema,
    workers: field
      .count({ min: 1, max: 256 })
      .optional()
      .describe("Data-plane threads. Default: cores − 1, at least 1."),
    health: healthSchema,
    limits: limitsSchema,
    timeouts: timeoutsSchema,
    failover: failoverSchema,
    store: storeSchema,
    evidence: evidenceSchema,
    telemetry: telemetrySchema,
    prices: pricesSchema,
    discovery: discoverySchema,
    keys: z.array(keySchema, field.list).default([]).describe("API keys. None: loopback only, no key asked."),
    accounts: z.array(accountSchema, field.list).default([]).describe("Accounts; the account default always exists."),
    nodes: z.array(nodeSchema, field.list).default([]).describe("Serving endpoints."),
    policies: z.array(policySchema, field.list).default([]).describe("Routing policies."),
    models: z.array(modelSchema, field.list).default([]).describe("Model registrations."),
  },
  field.mapping,
);

/** The file with its defaults applied, keys as on disk. */
export type ConfigFile = z.output<typeof configFileSchema>;
