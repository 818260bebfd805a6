import { z } from "zod";
import { mintedKeySchema } from "./account-config.ts";
import type { MintedKey } from "./complete-config.ts";
import { type ConfigFile, configFileSchema, nodeSchema } from "./config.ts";

/** Where in the file's tree: `["nodes", 2, "cost"]`. */
export type ConfigPath = readonly (string | number)[];

/** One thing that is wrong with a configuration, without its place in the text. */
export interface ConfigIssue {
  readonly path: ConfigPath;
  /** Whether the key is wrong or what stands behind it. */
  readonly at: "key" | "value";
  readonly message: string;
  /** What to do, where the message doesn't say it. */
  readonly hint: string | null;
}

/** `nodes[2].cost.usd_per_gpu_hour`; an empty path is the whole file. */
export function formatPath(path: ConfigPath): string {
  let out = "";
  for (const part of path) {
    if (typeof part === "number") out += `[${part}]`;
    else out += out === "" ? part : `.${part}`;
  }
  return out;
}

/** Checks a parsed file against the schema. Gives the file with its defaults, or everything that is wrong with it. */
export function parseConfigFile(value: unknown): { file: ConfigFile } | { issues: ConfigIssue[] } {
  const nodes = typeof value === "object" && value !== null && "nodes" in value ? value.nodes : undefined;
  const isList = Array.isArray(nodes);
  const result = configFileSchema.safeParse(isList ? { ...(value as object), nodes: [] } : value);
  const parsed = isList ? nodes.map((node: unknown, index) => parseNode(node, ["nodes", index])) : [];
  const issues = parsed.flatMap((one) => ("issues" in one ? one.issues : []));
  if (!result.success) issues.unshift(...result.error.issues.flatMap((issue) => toIssues(issue, [])));
  if (issues.length > 0 || !result.success) return { issues };
  const valid = parsed.flatMap((one) => ("node" in one ? [one.node] : []));
  return { file: isList ? { ...result.data, nodes: valid } : result.data };
}

type NodeFile = ConfigFile["nodes"][number];

/** Nodes by the very entry that they were read from, which nobody changes: of 10,000 most are as they were. */
const PARSED_NODES = new WeakMap<object, NodeFile>();

function parseNode(value: unknown, path: ConfigPath): { node: NodeFile } | { issues: ConfigIssue[] } {
  const isEntry = typeof value === "object" && value !== null;
  const known = isEntry ? PARSED_NODES.get(value) : undefined;
  if (known !== undefined) return { node: known };
  const result = nodeSchema.safeParse(value);
  if (!result.success) return { issues: result.error.issues.flatMap((issue) => toIssues(issue, path)) };
  if (isEntry) PARSED_NODES.set(value, result.data);
  return { node: result.data };
}

/** Checks a key that the gateway made. @param path where it stands among all keys, for the issues. */
export function parseMintedKey(value: unknown, path: ConfigPath): { key: MintedKey } | { issues: ConfigIssue[] } {
  const result = mintedKeySchema.safeParse(value);
  if (result.success) return { key: result.data };
  const issues = result.error.issues.flatMap((issue) => toIssues(issue, path));
  const hint = "take it out: the gateway makes the value itself";
  return { issues: issues.map((issue) => (issue.path.at(-1) === "value_env" ? { ...issue, hint } : issue)) };
}

function toIssues(issue: z.core.$ZodIssue, parent: ConfigPath): ConfigIssue[] {
  const path = [...parent, ...issue.path.map((part) => (typeof part === "number" ? part : String(part)))];
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => unknownKey([...path, key], key, keysAt(path)));
  }
  if (issue.code === "invalid_union") {
    // The branch that got past the type of the value itself is the one that was meant.
    const meant = issue.errors.find((branch) => branch.every((inner) => isDeeper(inner)));
    if (meant !== undefined) return meant.flatMap((inner) => toIssues(inner, path));
  }
  return [{ path, at: "value", message: issue.message, hint: null }];
}

function isDeeper(issue: z.core.$ZodIssue): boolean {
  return issue.path.length > 0 || issue.code !== "invalid_type";
}

function unknownKey(path: ConfigPath, key: string, known: readonly string[]): ConfigIssue {
  const nearest = nearestName(key, known);
  return {
    path,
    at: "key",
    message: `unknown key ${JSON.stringify(key.slice(0, 64))}`,
    hint: nearest === null ? `known here: ${known.join(", ")}` : `did you mean ${nearest}?`,
  };
}

/** The keys that the schema knows for the mapping at a path; none when there is no mapping. */
export function keysAt(path: ConfigPath): string[] {
  let schema: z.core.$ZodType | undefined = configFileSchema;
  for (const part of path) {
    schema = mappingOf(schema);
    if (schema instanceof z.ZodObject && typeof part === "string") {
      const shape: Record<string, z.core.$ZodType> = schema.shape;
      schema = Object.hasOwn(shape, part) ? shape[part] : undefined;
    } else if (schema instanceof z.ZodArray && typeof part === "number") schema = schema.element;
    else return [];
  }
  const mapping = mappingOf(schema);
  return mapping instanceof z.ZodObject ? Object.keys(mapping.shape) : [];
}

/** The mapping or list inside optional, default, nullable and union. */
function mappingOf(schema: z.core.$ZodType | undefined): z.core.$ZodType | undefined {
  let inner = schema;
  while (
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodNullable
  ) {
    inner = inner.unwrap();
  }
  if (inner instanceof z.ZodUnion) return inner.options.find((option) => mappingOf(option) instanceof z.ZodObject);
  return inner;
}

/** The name that was probably meant, or `null`. */
export function nearestName(name: string, known: readonly string[]): string | null {
  // Longer names may have more slips; a distance of half the name is no slip but another word.
  let bestDistance = Math.min(3, Math.floor(name.length / 2)) + 1;
  let best: string | null = null;
  for (const candidate of known) {
    const distance = isPart(name, candidate) ? 1 : editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best;
}

/** `timeout` for `timeout_ms`, `value` for `value_env`: the unit or kind was left out, or one too many was put in. */
function isPart(name: string, candidate: string): boolean {
  return candidate.startsWith(`${name}_`) || name.startsWith(`${candidate}_`);
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
function editDistance(left: string, right: string): number {
  // What is this much longer is no slip; it also bounds the work for a key of a megabyte.
  if (Math.abs(left.length - right.length) > 3) return Number.POSITIVE_INFINITY;
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const isSame = left[row - 1] === right[column - 1];
      let distance = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
      );
      const isSwap = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      if (row > 1 && column > 1 && isSwap) distance = Math.min(distance, (beforeLast[column - 2] ?? 0) + 1);
      current.push(distance);
    }
    beforeLast = last;
    last = current;
  }
  return last[right.length] ?? 0;
}
