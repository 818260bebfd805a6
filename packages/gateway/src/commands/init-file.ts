/** The text of a configuration file for nodes that were found. Pure. */

import { DEFAULT_MAX_IN_FLIGHT } from "@zml/engine";
import type { EngineName } from "@zml/protocol";
import { PLACEHOLDER_FAMILY } from "@zml/protocol";
import { defaultMaxInFlight } from "../availability/adapters/adapter.ts";
import type { NodeReading } from "../availability/adapters/index.ts";
import { ENGINE_ADVICE } from "./check-nodes-advice.ts";
import { oneLine } from "./table-text.ts";

/** A node as it was found. */
export interface ProbedNode {
  readonly id: string;
  readonly url: string;
  /** Null: nobody named it. */
  readonly family: string | null;
  readonly engine: EngineName | null;
  readonly reading: NodeReading;
  /** Why it is commented out; null: it is in. */
  readonly reason: string | null;
}

/** Models that are listed; a node with more serves what it reports. */
const MODELS_MAX = 16;

/** A whole file. @param keyEnv variable of the nodes' own key; null: none. */
export function fileText(nodes: readonly ProbedNode[], keyEnv: string | null): string {
  const good = nodes.filter(({ reason }) => reason === null);
  const families = [...new Set(good.map(({ family }) => family ?? PLACEHOLDER_FAMILY))];
  return `${[
    "# Made by zml init. All keys: docs/operations/configuration.md. Check it with: zml nodes check",
    "# Both ports are on this machine alone until keys are configured.",
    "data: { listen: 127.0.0.1:8080 }",
    "admin: { listen: 127.0.0.1:8081 }",
    "",
    "nodes:",
    ...nodes.flatMap((node) => (node.reason === null ? nodeLines(node, keyEnv) : leftOut(node, keyEnv))),
    "",
    "policies:",
    "  # Equal priorities share the traffic; with 1 and 2 the second family is asked when the first can't.",
    "  - name: default",
    "    accelerator_preference:",
    ...families.map((family) => `      - { family: ${quoted(family)}, priority: 1 }`),
    "    cost_priority: balanced        # cost, balanced or latency",
    "    # latency_target_ms: 2000      # for the whole answer",
    "    # queue_on_saturation: true    # wait for room instead of a 503",
    "",
    "accounts:",
    "  - { name: default, default_policy: default }",
  ].join("\n")}\n`;
}

function nodeLines({ id, url, family, engine, reading }: ProbedNode, keyEnv: string | null): string[] {
  const { models, version, platform, concurrencyLimit } = reading;
  const limit = defaultMaxInFlight(reading);
  const told = [version, platform === null ? null : `built for ${platform}`]
    .filter((word) => word !== null)
    .map(oneLine);
  const lines = [
    `  - id: ${quoted(id)}`,
    `    url: ${quoted(url)}`,
    family === null
      ? `    family: ${PLACEHOLDER_FAMILY}              # <- name its accelerator family, such as H100; nodes do not tell it`
      : `    family: ${quoted(family)}`,
  ];
  // what it is may change with a restart, so that it is left to detection
  lines.push(
    `    # engine: ${engine ?? "custom"}${engine === null ? "" : ", detected"}${told.length === 0 ? "" : ` (${told.join(", ")})`}`,
  );
  if (platform !== null) lines.push(`    platform: ${quoted(platform)}`);
  lines.push("    # gpus: 8                      # accelerators behind the address; 1 unless it is said");
  lines.push("    # cost: { usd_per_gpu_hour: 0.00 }     # what one costs: policies can't compare it before");
  lines.push(...modelLines(models ?? []));
  if (Number.isNaN(limit)) {
    lines.push(
      `    # max_in_flight: ${DEFAULT_MAX_IN_FLIGHT}           # it does not tell its limit: set this ${ENGINE_ADVICE[engine ?? "custom"].limit}`,
    );
  } else {
    const runs = Number.isNaN(concurrencyLimit) ? "" : `, of which it runs ${concurrencyLimit} at once`;
    lines.push(`    # max_in_flight: ${limit}          # from the engine${runs}`);
  }
  if (keyEnv !== null) lines.push(`    api_key_env: ${keyEnv}`);
  return lines;
}

function modelLines(models: NonNullable<NodeReading["models"]>): string[] {
  if (models.length > MODELS_MAX) return [`    # it reports ${models.length} models, and all are served`];
  return [
    "    models:",
    ...models.map(({ id, contextTokens, parent }) => {
      const notes = [
        Number.isNaN(contextTokens) ? "context not told" : `context ${contextTokens} tokens`,
        parent === null ? "" : `an adapter of ${oneLine(parent)}`,
      ];
      return `      - ${quoted(id)}  # ${notes.filter((note) => note !== "").join(", ")}`;
    }),
  ];
}

function leftOut({ id, url, family, reason }: ProbedNode, keyEnv: string | null): string[] {
  return [
    `  # left out, ${reason ?? ""}:`,
    `  # - id: ${quoted(id)}`,
    `  #   url: ${quoted(url)}`,
    `  #   family: ${family === null ? PLACEHOLDER_FAMILY : quoted(family)}`,
    ...(keyEnv === null ? [] : [`  #   api_key_env: ${keyEnv}`]),
  ];
}

/** Plain where YAML reads it as text, else in quotes. */
function quoted(text: string): string {
  const isPlain = /^[A-Za-z][A-Za-z0-9._/-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text);
  return isPlain ? text : JSON.stringify(text);
}
