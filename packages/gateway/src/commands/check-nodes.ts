/** `zml nodes check`: validates nodes end to end, straight from the configuration file. */

import { type Config, completeNode, FILE_ORIGIN, type NodeConfig, nearestName, nodeSchema } from "@zml/protocol";
import { createPollClient } from "../availability/poll-fetch.ts";
import { formatProblems } from "../config/config-problem.ts";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { FleetReportJson, NodeReportJson } from "../control/fleet-report.ts";
import { nodeTls } from "../control/worker-view.ts";
import { askFleet } from "./ask-admin.ts";
import { atMost, checkNode } from "./check-nodes-one.ts";
import { peerPoints, routerPoints } from "./check-nodes-peers.ts";
import { judge } from "./check-nodes-points.ts";
import { type CheckedNode, checkedNode, checkJson, nodeLines, summaryLine, worstOf } from "./check-nodes-text.ts";
import { readConfigFile } from "./config-file.ts";
import { EXIT } from "./exit-codes.ts";
import { hasColour, type Terminal } from "./terminal.ts";

export interface CheckNodesOptions {
  readonly config: string;
  /** Empty: all. */
  readonly ids: readonly string[];
  /** Admin port of a running gateway to compare with; absent: none is asked. */
  readonly admin?: string;
  readonly keyEnv?: string;
  readonly json: boolean;
  /** Yellow fails as well. */
  readonly strict: boolean;
  /** Show yellow and red points only. */
  readonly problems: boolean;
  /** For each node, ms. */
  readonly timeoutMs: number;
}

/** Nodes that are checked at once: a fleet takes seconds, and this machine some sockets. */
const NODES_AT_ONCE = 32;

/** @returns the exit code: 0 no red (with `strict` all green), 1 red or nothing to check, 2 an unknown id. */
export async function checkNodes(terminal: Terminal, options: CheckNodesOptions): Promise<number> {
  const fail = (message: string, code: number = EXIT.failed): number => {
    terminal.error(`zml: ${message}\n`);
    return code;
  };
  const { config, secrets, errors } = await readConfigFile(options.config, terminal.env);
  if (config === undefined) {
    terminal.error(`${formatProblems(errors)}\n`);
    return EXIT.failed;
  }
  let report: FleetReportJson | null = null;
  if (options.admin !== undefined) {
    const { admin, keyEnv } = options;
    const whom = keyEnv === undefined ? { admin } : { admin, keyEnv };
    const answer = await askFleet(terminal, whom);
    if ("problem" in answer) return fail(answer.problem);
    report = answer.report;
  }
  const known = [...config.nodes, ...(report === null ? [] : discoveredNodes(report, config))];
  const unknown = options.ids.find((id) => !known.some((node) => node.id === id));
  if (unknown !== undefined) return fail(unknownId(unknown, known, options.config), EXIT.usage);
  const wanted = options.ids.length === 0 ? known : known.filter(({ id }) => options.ids.includes(id));
  if (wanted.length === 0) {
    return fail(`${options.config} lists no nodes: add some under nodes, or name a running gateway with --admin`);
  }
  const checked = await checkAll(wanted, { config, secrets, report, timeoutMs: options.timeoutMs });
  const level = worstOf(checked.map((node) => node.level));
  const code = level === "red" || (level === "yellow" && options.strict) ? EXIT.failed : EXIT.ok;
  print(terminal, checked, options, code);
  return code;
}

async function checkAll(
  nodes: readonly NodeConfig[],
  around: { config: Config; secrets: ConfigSecrets; report: FleetReportJson | null; timeoutMs: number },
): Promise<CheckedNode[]> {
  const { config, secrets, report, timeoutMs } = around;
  const keyOf = ({ id, origin }: NodeConfig): string | null =>
    (origin === FILE_ORIGIN ? secrets.nodes.get(id) : secrets.sources.get(origin))?.reveal() ?? null;
  const client = createPollClient();
  try {
    const all = await atMost(NODES_AT_ONCE, nodes, (node) =>
      checkNode({
        config: node,
        apiKey: keyOf(node),
        tls: nodeTls(node.tls, secrets),
        registered: config.models,
        fetch: client.fetch,
        timeoutMs,
      }),
    );
    const peers = peerPoints(all);
    return all.map((findings, index) => {
      const router = report === null ? [] : routerPoints(findings, report);
      const points = [...judge(findings), ...(peers[index] ?? []), ...router];
      return checkedNode(findings, points, keyOf(findings.config));
    });
  } finally {
    await client.close();
  }
}

/** Nodes that a gateway found by itself, as its sources' templates say. */
function discoveredNodes({ nodes }: FleetReportJson, config: Config): NodeConfig[] {
  const own = new Set(config.nodes.map(({ id }) => id));
  return nodes.flatMap((node) => {
    if (node.origin === FILE_ORIGIN || own.has(node.id)) return [];
    const found = discoveredNode(node, config);
    return found === null ? [] : [found];
  });
}

function discoveredNode(seen: NodeReportJson, config: Config): NodeConfig | null {
  const { id, url, family, account, models } = seen;
  const source = config.discovery.sources.find(({ name }) => name === seen.origin);
  if (source === undefined) return null;
  const { metrics_url: metricsUrl, gpu_exporter: _exporter, ...template } = source.node;
  // a label of the target may have named them
  const named = template.models === undefined && models.length > 0 ? { models: [...models] } : {};
  const host = { metrics_url: metricsUrl?.split("{host}").join(new URL(url).hostname) };
  const parsed = nodeSchema.safeParse({ ...template, ...named, ...host, id, url, family, account });
  return parsed.success ? completeNode(parsed.data, config, seen.origin) : null;
}

function unknownId(id: string, known: readonly NodeConfig[], file: string): string {
  const near = nearestName(
    id,
    known.map((node) => node.id),
  );
  const hint = near === null ? "nodes that a gateway found by itself need --admin" : `is it ${near}?`;
  return `${file} lists no node ${JSON.stringify(id)}: ${hint}`;
}

function print(terminal: Terminal, checked: readonly CheckedNode[], options: CheckNodesOptions, code: number): void {
  if (options.json) {
    terminal.out(`${JSON.stringify(checkJson(checked, code))}\n`);
    return;
  }
  const isColoured = hasColour(terminal);
  const texts = checked.map((node) => nodeLines(node, { isColoured, problemsOnly: options.problems }).join("\n"));
  // nodes of one line each stand together
  const between = options.problems ? "\n" : "\n\n";
  terminal.out(`${texts.join(between)}\n\n${summaryLine(checked, options.strict)}\n`);
}
