/** One node on a page of its own: every number, its age, and why it is unknown. Pure. */

import type { UnknownCell } from "@zml/protocol";
import type { NodeReportJson } from "@zml/protocol/admin";
import { stateColour, stateText } from "./nodes-table.ts";
import { ageText, numberText, shareText, UNKNOWN, usdText } from "./nodes-words.ts";
import { oneLine, padded, painted } from "./table-text.ts";
import { WHY_WORDS } from "./unknown-words.ts";

type Line = readonly [label: string, value: string];

/** Lines of the page. */
export function nodePage(node: NodeReportJson, { isColoured }: { isColoured: boolean }): string[] {
  const sections: readonly (readonly [string, readonly Line[]])[] = [
    ["", identity(node, isColoured)],
    ["load", load(node)],
    ["speed", speed(node)],
    ["health", health(node)],
    ["price", price(node)],
    ["models, with their context in tokens", models(node)],
    ["last told by", sources(node)],
  ];
  return sections.flatMap(([title, lines]) => [
    ...(title === "" ? [] : ["", painted(title, isColoured, "dim")]),
    ...lines.map(([label, value]) => `  ${padded(label, LABEL_SIZE)}  ${value}`),
  ]);
}

const LABEL_SIZE = 24;

/** The value, or that it is unknown and why. */
function told(node: NodeReportJson, cell: UnknownCell, text: string): string {
  const why = node.unknown[cell];
  return why === undefined ? oneLine(text) : `${UNKNOWN}  ${WHY_WORDS[why]}`;
}

function identity(node: NodeReportJson, isColoured: boolean): Line[] {
  const { id, url, family, account, origin, engine, version, platform, redetected_at: redetectedAt } = node;
  const lines: Line[] = [
    ["node", id],
    // a path or a query may hold a key
    ["address", new URL(url).origin],
    ["family, account", `${family}, ${account}`],
    ["found in", origin === "file" ? "the configuration file" : `the source ${origin}`],
    ["engine", told(node, "engine", engine ?? "")],
    ["version", told(node, "version", version ?? "")],
    ["platform", told(node, "platform", platform ?? "")],
    ["state", painted(stateText(node), isColoured, stateColour(node))],
  ];
  if (node.last_poll_error !== null) {
    lines.push([
      "last poll that failed",
      `${oneLine(node.last_poll_error)}, ${ageText(node.last_poll_error_age_ms)} ago`,
    ]);
  }
  if (redetectedAt !== null) lines.push(["another engine since", redetectedAt]);
  return lines;
}

function load(node: NodeReportJson): Line[] {
  return [
    ["depth", `${numberText(node.depth)} of max_in_flight ${node.max_in_flight}`],
    ["in flight from here", numberText(node.in_flight)],
    ["sent by others", told(node, "foreign", numberText(node.foreign))],
    ["running there", told(node, "running", numberText(node.running))],
    ["waiting there", told(node, "waiting", numberText(node.waiting))],
    ["runs at once", told(node, "concurrency_limit", numberText(node.concurrency_limit))],
    ["KV cache in use", told(node, "kv_use", shareText(node.kv_use))],
    ["KV cache room, tokens", told(node, "kv_headroom_tokens", numberText(node.kv_headroom_tokens))],
    ["free memory, GiB", told(node, "free_memory_gib", numberText(node.free_memory_gib))],
  ];
}

function speed(node: NodeReportJson): Line[] {
  const assumed = (cell: UnknownCell, used: number | null, measured: number | null): string =>
    measured === null && used !== null
      ? `~${numberText(used)} tokens/s  ${WHY_WORDS[node.unknown[cell] ?? "not_measured_yet"]}`
      : told(node, cell, `${numberText(used)} tokens/s`);
  return [
    [
      "what it can give",
      assumed("measured_tokens_per_second", node.tokens_per_second, node.measured_tokens_per_second),
    ],
    [
      "one stream",
      assumed(
        "measured_stream_tokens_per_second",
        node.stream_tokens_per_second,
        node.measured_stream_tokens_per_second,
      ),
    ],
    [
      "generates now",
      told(node, "generation_tokens_per_second", `${numberText(node.generation_tokens_per_second)} tokens/s`),
    ],
    [
      "reads prompts now",
      told(node, "prompt_tokens_per_second", `${numberText(node.prompt_tokens_per_second)} tokens/s`),
    ],
    ["attempts behind that", String(node.own_samples)],
    ...Object.entries(node.predictions).map(
      ([model, prediction]): Line => [
        `predicted, ${model}`,
        `${prediction.step_ms.toFixed(1)} ms a step, ${prediction.prefill_ms_per_1000_tokens.toFixed(0)} ms per 1,000 prompt tokens` +
          `  ${(prediction.slowness ?? 1).toFixed(2)} × its family, off by ${Math.round(100 * (prediction.error ?? 0))} %` +
          (prediction.cache_hits === null
            ? ""
            : `, keeps ${Math.round(100 * prediction.cache_hits)} % of warm prompts`),
      ],
    ),
  ];
}

function health(node: NodeReportJson): Line[] {
  const { health_parts: parts } = node;
  const factors =
    parts === null ? "" : `  = 100 × ${parts.errors.toFixed(2)} (errors) × ${parts.depth.toFixed(2)} (depth)`;
  return [
    ["score", told(node, "health_score", `${numberText(node.health_score)}${factors}`)],
    ["error rate", told(node, "error_rate", shareText(node.error_rate))],
    ["last success", told(node, "last_success_age_ms", `${ageText(node.last_success_age_ms)} ago`)],
  ];
}

function price(node: NodeReportJson): Line[] {
  const { price_key: key, price_age_ms: ageMs } = node;
  const from = key === null ? "stated" : `${key}, confirmed ${ageText(ageMs)} ago`;
  return [["USD per hour", told(node, "price_usd_per_hour", `${usdText(node.price_usd_per_hour)}  (${from})`)]];
}

function models({ models: names, context_tokens: contexts }: NodeReportJson): Line[] {
  if (names.length === 0) return [["none", "the node has told none, and the configuration states none"]];
  return names.map((name) => [oneLine(name), numberText(contexts[name] ?? null)]);
}

function sources({ sources: ages }: NodeReportJson): Line[] {
  const heard = (age: number | null) => (age === null ? "never" : `${ageText(age)} ago`);
  return [
    ["health page", heard(ages.health_page)],
    ["metrics", heard(ages.metrics)],
    ["list of models", heard(ages.models)],
    ["limits and version", heard(ages.limits)],
    ["our own traffic", heard(ages.own_traffic)],
    ["price feed", heard(ages.price)],
  ];
}
