/** `zml init`: asks nodes what they are, and writes a configuration file that serves them. */

import { randomUUID } from "node:crypto";
import { rename, rm, writeFile } from "node:fs/promises";
import {
  completeConfig,
  completeNode,
  configFileSchema,
  FILE_ORIGIN,
  NAME_PATTERN,
  nodeSchema,
  PLACEHOLDER_FAMILY,
} from "@zml/protocol";
import { createPollClient, type PollFetch } from "../availability/poll-fetch.ts";
import { formatProblems } from "../config/config-problem.ts";
import { readConfig } from "../config/read-config.ts";
import { atMost } from "./check-nodes-one.ts";
import { pollOnce, specOf } from "./check-nodes-poll.ts";
import { DEFAULT_CONFIG_FILE } from "./config-file.ts";
import { EXIT } from "./exit-codes.ts";
import { fileText, type ProbedNode } from "./init-file.ts";
import { counted } from "./nodes-words.ts";
import { oneLine } from "./table-text.ts";
import type { Terminal } from "./terminal.ts";

export interface InitOptions {
  /** `URL` or `FAMILY=URL`. */
  readonly urls: readonly string[];
  /** `-`: standard output. */
  readonly output: string;
  /** Of the URLs that name none. */
  readonly family?: string;
  /** The variable that holds the nodes' own key. */
  readonly keyEnv?: string;
  readonly force: boolean;
  /** For each node, ms. */
  readonly timeoutMs: number;
}

/** Nodes that are asked at once. */
const NODES_AT_ONCE = 32;

interface Wanted {
  readonly url: string;
  readonly family: string | null;
  readonly id: string;
}

/** @returns the exit code: 0 written, 1 no node answered or the file could not be written, 2 a wrong argument. */
export async function init(terminal: Terminal, options: InitOptions): Promise<number> {
  const fail = (message: string, code: number = EXIT.failed): number => {
    terminal.error(`zml: ${message}\n`);
    return code;
  };
  const wanted = readUrls(options);
  if ("problem" in wanted) return fail(wanted.problem, EXIT.usage);
  const key = options.keyEnv === undefined ? null : (terminal.env[options.keyEnv] ?? "");
  if (key === "") return fail(`the environment variable ${options.keyEnv} is not set: give it the nodes' key`);
  const client = createPollClient();
  let nodes: ProbedNode[];
  try {
    nodes = await atMost(NODES_AT_ONCE, wanted.nodes, (one) => probe(one, { ...options, key, fetch: client.fetch }));
  } finally {
    await client.close();
  }
  for (const { url, reason } of nodes) if (reason !== null) terminal.error(`zml: ${url}: ${reason}\n`);
  const good = nodes.filter(({ reason }) => reason === null);
  if (good.length === 0)
    return fail("no node answered as one: start one, or correct the addresses; nothing was written");
  const text = fileText(nodes, options.keyEnv ?? null);
  const { errors } = readConfig(text, { fileName: options.output, env: terminal.env });
  if (errors.length > 0) return fail(`what was found makes no valid file: ${formatProblems(errors)}`);
  if (options.output === "-") {
    terminal.out(text);
    return EXIT.ok;
  }
  const problem = await write(options.output, text, options.force);
  if (problem !== null) return fail(problem);
  terminal.out(`${summary(options.output, nodes, good)}\n`);
  return EXIT.ok;
}

function summary(file: string, nodes: readonly ProbedNode[], good: readonly ProbedNode[]): string {
  const out = nodes.length - good.length;
  const left = out > 0 ? `, ${counted(out, "node")} commented out` : "";
  const unnamed = good.filter(({ family }) => family === null).length;
  const option = file === DEFAULT_CONFIG_FILE ? "" : ` -c ${file}`;
  const todo = unnamed > 0 ? `name the family of ${counted(unnamed, "node")} in it, then ` : "";
  return `${file}: ${counted(good.length, "node")}${left}; ${todo}zml nodes check${option}, zml serve${option}`;
}

function readUrls({ urls, family }: InitOptions): { nodes: Wanted[] } | { problem: string } {
  if (family !== undefined && !NAME_PATTERN.test(family)) {
    return { problem: `--family ${family} is no name: 1 to 128 characters out of A-Z a-z 0-9 . _ : / -` };
  }
  const nodes: Wanted[] = [];
  const ids = new Set<string>();
  const seen = new Set<string>();
  for (const given of urls) {
    const [, named = null, rest = given] = /^([^=/?]+)=(.+)$/.exec(given) ?? [];
    const url = (/^[a-z]+:\/\//i.test(rest) ? rest : `http://${rest}`).replace(/\/+$/, "");
    if (named !== null && !NAME_PATTERN.test(named)) return { problem: `${given}: the family before = is no name` };
    const id = idOf(url, ids);
    const parsed = nodeSchema.safeParse({ id, url, family: named ?? family ?? PLACEHOLDER_FAMILY });
    if (!parsed.success) {
      return {
        problem: `${given} is no address of a node: ${parsed.error.issues[0]?.message ?? "give it as http://HOST:PORT"}`,
      };
    }
    if (seen.has(url)) continue;
    seen.add(url);
    ids.add(id);
    nodes.push({ url, id, family: named ?? family ?? null });
  }
  return { nodes };
}

/** The host's first word, with the port or a number where that is taken. */
function idOf(url: string, taken: ReadonlySet<string>): string {
  if (!URL.canParse(url)) return "node";
  const { hostname, port } = new URL(url);
  const isName = /[a-z]/i.test(hostname) && !hostname.includes(":");
  const host = (isName ? (hostname.split(".")[0] ?? "") : hostname).replace(/[^A-Za-z0-9._-]/g, "") || "node";
  const withPort = port === "" ? host : `${host}:${port}`;
  const base = isName && !taken.has(host) ? host : withPort;
  for (let count = 2, id = base; ; count += 1) {
    if (!taken.has(id)) return id.slice(0, 128);
    id = `${base}-${count}`;
  }
}

async function probe(
  { url, family, id }: Wanted,
  { timeoutMs, key, fetch }: { timeoutMs: number; key: string | null; fetch: PollFetch },
): Promise<ProbedNode> {
  const file = configFileSchema.parse({});
  const parsed = nodeSchema.parse({ id, url, family: family ?? PLACEHOLDER_FAMILY });
  const spec = specOf(completeNode(parsed, completeConfig(file, { cores: 1 }), FILE_ORIGIN), key, null);
  const { engine, reading, result } = await pollOnce(spec, fetch, AbortSignal.timeout(timeoutMs));
  const { health, models } = result.responses;
  const found = { id, url, family, engine, reading };
  const status = models?.status ?? health?.status ?? 0;
  if (health === null) return { ...found, reason: `no answer (${result.healthFault ?? "timeout"})` };
  if (status === 401 || status === 403)
    return { ...found, reason: `it asks for a key (${status}): name its variable with --key-env` };
  if (reading.models === null || reading.models.length === 0) {
    return {
      ...found,
      reason: oneLine(reading.isReady ? "it answers, and lists no models" : `it is not ready (${status})`),
    };
  }
  return { ...found, reason: null };
}

/** Writes a whole file or none; one that is there is kept, unless `force`. Returns what went wrong. */
async function write(path: string, text: string, force: boolean): Promise<string | null> {
  const beside = `${path}.${randomUUID()}.new`;
  try {
    // "wx" fails where something is, and never writes through a link
    await writeFile(force ? beside : path, text, { flag: "wx" });
    if (force) await rename(beside, path);
    return null;
  } catch (error) {
    if (force) await rm(beside, { force: true });
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "EEXIST") return `${path} is there already: name another with -o FILE, or overwrite it with --force`;
    return `${path} can't be written (${String(code)}): name another with -o FILE`;
  }
}
