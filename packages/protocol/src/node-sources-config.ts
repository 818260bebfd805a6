import { z } from "zod";
import * as field from "./config-fields.ts";
import { type MetricSelector, parseMetricSelector } from "./metric-selector.ts";
import { whyNoNodeAddress } from "./node-address.ts";

/** Where a node's numbers come from, as the file says it: a mapping of names for home-made servers, GPU exporters. */

function path() {
  return z.string({ error: (issue) => `expected a path, got ${field.shown(issue.input)}` }).regex(/^\/[!-~]*$/, {
    error: (issue) => `expected a path that starts with /, got ${field.shown(issue.input)}`,
  });
}

function selector() {
  const expected = 'expected the name of a metric such as my_queue or my_queue{model="x"}';
  return z
    .string({ error: (issue) => `${expected}, got ${field.shown(issue.input)}` })
    .max(1024, { error: `${expected} of at most 1,024 characters` })
    .refine((value) => parseMetricSelector(value) !== null, {
      error: (issue) => `${expected}, got ${field.shown(issue.input)}`,
    });
}

/** What a home-made server may tell. Units stand in the names; where two stand for one number, only one is given. */
const customMetricFields = {
  running: selector().optional().describe("Requests that run."),
  waiting: selector().optional().describe("Requests that wait."),
  concurrency_limit: selector().optional().describe("Requests that run at once before others wait."),
  kv_use: selector().optional().describe("Share of the KV cache in use, 0 to 1."),
  kv_use_percent: selector().optional().describe("The same in percent."),
  kv_headroom_tokens: selector().optional().describe("Tokens that still fit into the KV cache."),
  generation_tokens_total: selector().optional().describe("Counter of generated tokens."),
  prompt_tokens_total: selector().optional().describe("Counter of prompt tokens."),
  successes_total: selector().optional().describe("Counter of requests that ended well."),
  errors_total: selector().optional().describe("Counter of requests that the server failed."),
  free_memory_gib: selector().optional().describe("Free accelerator memory, GiB."),
  free_memory_mib: selector().optional().describe("The same in MiB."),
  free_memory_bytes: selector().optional().describe("The same in bytes."),
};

/** A number that a home-made server may tell, with its unit. */
export type CustomMetric = keyof typeof customMetricFields;

/** Names of which one at most may be given, since they stand for one number. */
const SAME_NUMBER: readonly (readonly CustomMetric[])[] = [
  ["kv_use", "kv_use_percent"],
  ["free_memory_gib", "free_memory_mib", "free_memory_bytes"],
];

export const customSchema = z.strictObject(
  {
    health_path: path()
      .optional()
      .describe("A 2xx here, and nothing else, means that the node is healthy. Default: /health, or any sign of life."),
    models_path: path().nullable().default("/v1/models").describe("An OpenAI list of models. null: there is none."),
    metrics_path: path().default("/metrics").describe("Prometheus text, read where metrics names something."),
    metrics: z
      .strictObject(customMetricFields, field.mapping)
      .superRefine((metrics, context) => {
        for (const names of SAME_NUMBER) {
          const given = names.filter((name) => metrics[name] !== undefined);
          for (const name of given.slice(1)) {
            context.addIssue({
              code: "custom",
              path: [name],
              message: `${given[0]} and ${name} stand for the same number: give one of them`,
            });
          }
        }
      })
      .optional()
      .describe("Which metric tells what. A name may carry labels; several series are added, ratios averaged."),
  },
  field.mapping,
);

export const gpuExporterSchema = z.strictObject(
  {
    url: field.nodeUrl().describe("The exporter's metrics page, such as http://10.0.0.21:9400/metrics."),
    match: z
      .record(
        z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/),
        z.union([field.text("a value"), z.array(field.text("a value")).min(1).max(64)], {
          error: (issue) => `expected a value such as "0" or a list of such, got ${field.shown(issue.input)}`,
        }),
        {
          error: ({ code, input }) =>
            code === "invalid_key"
              ? `expected a label such as gpu, got ${field.shown(input)}`
              : `expected a mapping, got ${field.shown(input)}`,
        },
      )
      .default({})
      .describe("Labels of this node's GPUs, with one value or several. Default: every GPU on the page is the node's."),
    metric: selector()
      .optional()
      .describe("Free memory of a GPU in MiB. Default: DCGM_FI_DEV_FB_FREE, gpu_free_vram or amd_gpu_free_vram."),
  },
  field.mapping,
);

type NodeAddresses = {
  url: string;
  metrics_url?: string | undefined;
  gpu_exporter?: { url: string } | undefined;
  allow_link_local: boolean;
};

/** Refuses addresses that no node has, in every spelling, unless the node allows them. */
export function checkAddresses(node: NodeAddresses, context: z.core.$RefinementCtx<unknown>): void {
  if (node.allow_link_local) return;
  const urls: [(string | number)[], string | undefined][] = [
    [["url"], node.url],
    [["metrics_url"], node.metrics_url],
    [["gpu_exporter", "url"], node.gpu_exporter?.url],
  ];
  for (const [path, url] of urls) {
    if (url === undefined || !URL.canParse(url)) continue;
    const { hostname } = new URL(url);
    const why = whyNoNodeAddress(hostname);
    if (why === null) continue;
    const what = why === "link_local" ? "a link-local address" : "an address of a cloud's metadata service";
    const message = `${hostname} is ${what}, where clouds hand out credentials: use the node's own address, or set allow_link_local: true`;
    context.addIssue({ code: "custom", path, message });
  }
}

/** How a home-made server is read. */
export interface CustomConfig {
  readonly healthPath: string;
  /** The operator named the health path, so that nothing but a 2xx there will do. */
  readonly isStated: boolean;
  /** `null`: it lists no models. */
  readonly modelsPath: string | null;
  readonly metricsPath: string;
  /** Empty: its metrics are not read. */
  readonly metrics: Readonly<Partial<Record<CustomMetric, MetricSelector>>>;
}

/** A second source for free memory. */
export interface GpuExporterConfig {
  readonly url: string;
  /** Label, in lower case → values of which one must be there. */
  readonly match: Readonly<Record<string, readonly string[]>>;
  /** `null`: the names that exporters use by default. */
  readonly metric: MetricSelector | null;
}

/** The section `custom` with everything filled in. */
export function completeCustom(section: z.output<typeof customSchema> | undefined): CustomConfig {
  const given = Object.entries(section?.metrics ?? {}).filter((entry) => entry[1] !== undefined);
  return {
    healthPath: section?.health_path ?? "/health",
    isStated: section?.health_path !== undefined,
    modelsPath: section === undefined ? "/v1/models" : section.models_path,
    metricsPath: section?.metrics_path ?? "/metrics",
    metrics: Object.fromEntries(given.map(([name, text]) => [name, parsed(text ?? "")])),
  };
}

/** The section `gpu_exporter` with everything filled in. */
export function completeGpuExporter(section: z.output<typeof gpuExporterSchema>): GpuExporterConfig {
  // exporters rename Hostname and UUID by case alone
  const match = Object.entries(section.match).map(([label, value]) => [label.toLowerCase(), [value].flat()]);
  return {
    url: section.url,
    match: Object.fromEntries(match),
    metric: section.metric === undefined ? null : parsed(section.metric),
  };
}

function parsed(text: string): MetricSelector {
  const found = parseMetricSelector(text);
  if (found === null) throw new Error(`metric name passed the schema but can't be read: ${text}`);
  return found;
}
