import { z } from "zod";
import type { ConfigFile } from "./config.ts";
import * as field from "./config-fields.ts";

/**
 * Discovery in the configuration: sources of nodes, each with a template for the nodes that it finds. Which keys belong
 * to which kind stands in `SOURCE_KINDS`; the gateway checks it beside the line numbers.
 */

/** The keys of a source that belong to some kinds only. */
export const SOURCE_KEYS_OF_KINDS = [
  "hostname",
  "record",
  "servers",
  "paths",
  "service",
  "pod_selector",
  "namespaces",
  "port",
  "port_name",
  "address_type",
  "kubeconfig",
  "context",
  "idle_ms",
  "labels",
] as const;
type SourceKey = (typeof SOURCE_KEYS_OF_KINDS)[number];

/** What a kind of source needs and takes, beyond the keys of every source. */
export interface SourceRules {
  readonly needs: readonly SourceKey[];
  readonly takes: readonly SourceKey[];
  /** Time between two looks unless the source says otherwise, ms. */
  readonly refreshMs: number;
  /** Deadline of one look unless the source says otherwise, ms. */
  readonly timeoutMs: number;
  /** What an empty list waits before it counts, unless the source says otherwise, ms. */
  readonly emptyGraceMs: number;
}

/** The kinds. */
export const SOURCE_KINDS = {
  dns: {
    needs: ["hostname"],
    takes: ["record", "port", "servers"],
    refreshMs: 10_000,
    timeoutMs: 5_000,
    emptyGraceMs: 30_000,
  },
  file_sd: {
    needs: ["paths"],
    takes: ["port", "labels"],
    // changes are seen at once where the system tells of them; Prometheus looks every five minutes besides
    refreshMs: 60_000,
    timeoutMs: 10_000,
    // somebody wrote the empty list
    emptyGraceMs: 0,
  },
  kubernetes: {
    needs: [],
    takes: [
      "service",
      "pod_selector",
      "namespaces",
      "port",
      "port_name",
      "address_type",
      "kubeconfig",
      "context",
      "idle_ms",
      "labels",
    ],
    // changes come over the watch; a whole list now and then heals what a watch has missed
    refreshMs: 600_000,
    timeoutMs: 30_000,
    emptyGraceMs: 30_000,
  },
} as const satisfies Record<string, SourceRules>;

/** A kind of source. */
export type SourceKind = keyof typeof SOURCE_KINDS;

/** The origin of nodes that the file lists; no source has this name. */
export const FILE_ORIGIN = "file";
/** `origin` of the nodes that the admin API made. */
export const API_ORIGIN = "api";

/** What a label of a target may set. Who may write labels can't move a node to another account or give it a key. */
export const TARGET_FIELDS = [
  "family",
  "engine",
  "gpus",
  "models",
  "price",
  "usd_per_gpu_hour",
  "max_in_flight",
  "display_name",
] as const;
/** What a label of a target may set. */
export type TargetField = (typeof TARGET_FIELDS)[number];

const DNS_RECORDS = ["a", "aaaa", "srv"] as const;
const ADDRESS_TYPES = ["IPv4", "IPv6"] as const;

/** A name in one text: the source's name begins the ids of its nodes, which end in an address and a port. */
function sourceName() {
  return field
    .name("a source name")
    .max(64, { error: (issue) => `expected a source name of at most 64 characters, got ${field.shown(issue.input)}` })
    .refine((name) => name !== FILE_ORIGIN && name !== API_ORIGIN, {
      error: `${FILE_ORIGIN} and ${API_ORIGIN} are what nodes of this file and of the admin API are called`,
    });
}

function labelName() {
  return field.text("the name of a label").max(317, { error: "the name of a label is too long" });
}

function labelsSchema() {
  const of = (text: string) => labelName().optional().describe(text);
  return z.strictObject(
    {
      family: of("Holds the accelerator family."),
      engine: of("Holds the serving engine."),
      gpus: of("Holds the number of accelerators."),
      models: of("Holds the models, with commas between them."),
      price: of("Holds the price reference, as cost.price."),
      usd_per_gpu_hour: of("Holds the price in USD per GPU-hour."),
      max_in_flight: of("Holds max_in_flight."),
      display_name: of("Holds the name for people."),
    } satisfies Record<TargetField, unknown>,
    field.mapping,
  );
}

/** The section, over the template of a node. */
export function discoverySchemaFor<T extends z.core.$ZodType>(template: T) {
  const source = z.strictObject(
    {
      name: sourceName().describe("Begins the ids of its nodes: NAME:ADDRESS:PORT."),
      kind: field.oneOf(["dns", "file_sd", "kubernetes"]).describe("Where the nodes come from."),
      node: template,
      scheme: field.oneOf(["http", "https"]).default("http").describe("How its nodes are spoken to."),
      path: z
        .string({ error: (issue) => `expected a path, got ${field.shown(issue.input)}` })
        .regex(/^(?:\/[A-Za-z0-9._~-]+)*\/?$/, {
          error: (issue) => `expected a path such as /serve, got ${field.shown(issue.input)}`,
        })
        .default("")
        .describe("Path prefix of its nodes."),
      refresh_ms: field
        .durationMs({ min: 100 })
        .optional()
        .describe("Time between two looks. Default: dns 10000, file_sd 60000; kubernetes 600000, beside its watch."),
      timeout_ms: field
        .durationMs({ max: 600_000 })
        .optional()
        .describe(
          "A look that is not over after this long has failed. Default: dns 5000, file_sd 10000, kubernetes 30000.",
        ),
      empty_grace_ms: field
        .durationMs({ min: 0 })
        .optional()
        .describe("An empty list counts after this long. Default: dns and kubernetes 30000, file_sd 0."),
      max_nodes: field.count({ min: 1, max: 65_536 }).default(4096).describe("Targets beyond these are left out."),
      hostname: field.hostName("a DNS name").optional().describe("dns: the whole name; search domains are not tried."),
      record: field.oneOf(DNS_RECORDS).optional().describe("dns: a (default), aaaa, or srv, which tells ports too."),
      servers: z
        .array(
          z
            .string({ error: (issue) => `expected ADDRESS:PORT of a DNS server, got ${field.shown(issue.input)}` })
            .refine(isServer, {
              error: (issue) => `expected ADDRESS or ADDRESS:PORT such as 10.0.0.2:53, got ${field.shown(issue.input)}`,
            }),
          field.list,
        )
        .min(1, { error: "name at least one DNS server, or leave servers out" })
        .optional()
        .describe("dns: servers to ask. Default: those of the system."),
      paths: z
        .array(
          field.text("a path").refine((path) => !/[*?].*\//.test(path), {
            error: (issue) => `* and ? stand in the last part of a path only, got ${field.shown(issue.input)}`,
          }),
          field.list,
        )
        .min(1, { error: "name at least one file" })
        .optional()
        .describe("file_sd: files beside this one, JSON or YAML; * and ? may stand in the last part."),
      service: field.label("a service name").optional().describe("kubernetes: the service whose endpoints are nodes."),
      pod_selector: field
        .text("a label selector")
        .max(1024)
        .optional()
        .describe("kubernetes: the pods that are nodes, such as app=vllm."),
      namespaces: z
        .array(
          z.union([z.literal("*"), field.label("a namespace")], {
            error: (issue) => `expected a namespace or "*", got ${field.shown(issue.input)}`,
          }),
          field.list,
        )
        .min(1, { error: 'name at least one namespace, or "*" for all' })
        .optional()
        .describe('kubernetes: "*" for all. Default: that of the context.'),
      port: field
        .count({ min: 1, max: 65_535 })
        .optional()
        .describe("Where a target names none. kubernetes: default the only port."),
      port_name: field.label("the name of a port").optional().describe("kubernetes: the port by its name."),
      address_type: field
        .oneOf(ADDRESS_TYPES)
        .optional()
        .describe("kubernetes: IPv4 (default) or IPv6, so that a node of both counts once."),
      kubeconfig: field.text("a path").optional().describe("kubernetes: default: the pod's own account."),
      context: field.text("a context").optional().describe("kubernetes: context of the kubeconfig. Default: its own."),
      idle_ms: field
        .durationMs({ max: 3_600_000 })
        .optional()
        .describe("kubernetes: a watch without a byte for this long is dead. Default: 90000."),
      labels: labelsSchema()
        .optional()
        .describe(
          "Labels of targets that set something of a node. Default for file_sd: each by its name; kubernetes: none.",
        ),
    },
    field.mapping,
  );
  return z
    .strictObject(
      {
        start_wait_ms: field
          .durationMs({ min: 0, max: 600_000 })
          .default(5000)
          .describe("The start waits so long for the sources' first answers."),
        sources: z.array(source, field.list).default([]).describe("Sources of nodes."),
      },
      field.mapping,
    )
    .prefault({})
    .describe("Nodes that come and go by themselves, beside those under nodes.");
}

/** ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT. */
function isServer(text: string): boolean {
  const match = /^(?:(\d+\.\d+\.\d+\.\d+)|\[([0-9A-Fa-f:.]+)\])(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || Number(match?.[3] ?? 53) > 65_535) return false;
  return URL.canParse(`http://${host.includes(":") ? `[${host}]` : host}/`);
}

type SourceFile = ConfigFile["discovery"]["sources"][number];

/** Everything of a node but its id and url, as it stands in the file with defaults applied. */
export type NodeTemplate = SourceFile["node"];

/** A source with every default applied. Secrets come beside the configuration. */
export interface SourceConfig {
  readonly name: string;
  readonly kind: SourceKind;
  readonly node: NodeTemplate;
  readonly scheme: "http" | "https";
  readonly path: string;
  readonly refreshMs: number;
  readonly timeoutMs: number;
  readonly emptyGraceMs: number;
  readonly maxNodes: number;
  readonly hostname: string;
  readonly record: (typeof DNS_RECORDS)[number];
  /** Empty: those of the system. */
  readonly servers: readonly string[];
  readonly paths: readonly string[];
  /** `null`: pods by `podSelector`. */
  readonly service: string | null;
  readonly podSelector: string | null;
  /** Empty: that of the context. */
  readonly namespaces: readonly string[];
  readonly port: number | null;
  readonly portName: string | null;
  readonly addressType: (typeof ADDRESS_TYPES)[number];
  /** `null`: the pod's own account. */
  readonly kubeconfig: string | null;
  readonly context: string | null;
  readonly idleMs: number;
  readonly labels: Readonly<Partial<Record<TargetField, string>>>;
}

/** The section with every default applied. */
export interface DiscoveryConfig {
  readonly startWaitMs: number;
  readonly sources: readonly SourceConfig[];
}

/** The complete form of a valid section. */
export function completeDiscovery(section: ConfigFile["discovery"]): DiscoveryConfig {
  return { startWaitMs: section.start_wait_ms, sources: section.sources.map(completeSource) };
}

function completeSource(source: SourceFile): SourceConfig {
  const rules: SourceRules = SOURCE_KINDS[source.kind];
  const ownNames = source.kind === "file_sd" ? Object.fromEntries(TARGET_FIELDS.map((name) => [name, name])) : {};
  return {
    name: source.name,
    kind: source.kind,
    node: source.node,
    scheme: source.scheme,
    path: source.path.replace(/\/$/, ""),
    refreshMs: source.refresh_ms ?? rules.refreshMs,
    timeoutMs: source.timeout_ms ?? rules.timeoutMs,
    emptyGraceMs: source.empty_grace_ms ?? rules.emptyGraceMs,
    maxNodes: source.max_nodes,
    hostname: source.hostname ?? "",
    record: source.record ?? "a",
    servers: source.servers ?? [],
    paths: source.paths ?? [],
    service: source.service ?? null,
    podSelector: source.pod_selector ?? null,
    namespaces: source.namespaces ?? [],
    port: source.port ?? null,
    portName: source.port_name ?? null,
    addressType: source.address_type ?? "IPv4",
    kubeconfig: source.kubeconfig ?? null,
    context: source.context ?? null,
    idleMs: source.idle_ms ?? 90_000,
    labels: source.labels === undefined ? ownNames : definedOf(source.labels),
  };
}

function definedOf(labels: NonNullable<SourceFile["labels"]>): Partial<Record<TargetField, string>> {
  return Object.fromEntries(Object.entries(labels).filter(([, name]) => name !== undefined));
}
