/** Prometheus's file_sd format: groups of targets with labels, as JSON or YAML. Pure. */

import { z } from "zod";
import { readYaml } from "../../config/yaml-text.ts";
import { type Dropped, SourceError, type Target } from "../source.ts";

/** Targets of one file: beyond, it is no list of nodes. */
const TARGETS_MAX = 100_000;

const groupsSchema = z.array(
  z.object({
    targets: z.array(z.string()),
    labels: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).nullish(),
  }),
);

/** What a file holds. */
export interface FileTargets {
  readonly targets: readonly Target[];
  readonly dropped: readonly Dropped[];
}

/**
 * Reads the text of a file.
 *
 * @param isJson by the file's name; everything else is YAML.
 * @param port of targets that name none; null: they need one.
 * @throws SourceError when the text as a whole is no such list; a target that is none is dropped.
 */
export function parseFileSd(text: string, { isJson, port }: { isJson: boolean; port: number | null }): FileTargets {
  const parsed = groupsSchema.safeParse(isJson ? parseJson(text) : parseYaml(text));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const place = issue?.path.length ? ` at ${issue.path.map(String).join(".").slice(0, 128)}` : "";
    throw new SourceError(`it is no list of { targets: [HOST:PORT], labels: { … } }${place}`);
  }
  const targets: Target[] = [];
  const dropped: Dropped[] = [];
  for (const group of parsed.data) {
    const given = Object.entries(group.labels ?? {}).map(([name, value]) => [name, String(value)]);
    const labels: Record<string, string> = Object.fromEntries(given);
    for (const written of group.targets) {
      const address = parseAddress(written, port);
      if (typeof address === "string") dropped.push({ target: shown(written), reason: address });
      else targets.push({ ...address, serverName: null, displayName: null, labels });
      if (targets.length > TARGETS_MAX) throw new SourceError(`it names more than ${TARGETS_MAX} targets`);
    }
  }
  return { targets, dropped };
}

/** Host and port, or why it is none. */
function parseAddress(written: string, port: number | null): { host: string; port: number } | string {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9.])?))(?::(\d{1,5}))?$/.exec(
    written,
  );
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) return "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000";
  const given = match?.[3] === undefined ? port : Number(match[3]);
  if (given === null) return "it names no port: write HOST:PORT, or give the source a port";
  if (given < 1 || given > 65_535) return `its port is ${given}: ports are 1 to 65535`;
  const canonical = canonicalHost(host);
  return canonical === null ? "its address can't be read" : { host: canonical, port: given };
}

/** One spelling per address, so that one server is one node. */
function canonicalHost(host: string): string | null {
  const url = `http://${host.includes(":") ? `[${host}]` : host}/`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, "") : null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SourceError("it is no valid JSON, or only the first part of it", error);
  }
}

function parseYaml(text: string): unknown {
  const { value, problems } = readYaml(text);
  const [problem] = problems;
  if (problem !== undefined) throw new SourceError(`line ${problem.line}: ${problem.message}`);
  return value;
}

function shown(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);
}
