/**
 * From the plain values of a configuration to the configuration: schema, references, environment, certificate files. The
 * values are those of the file, or of the file with the objects that the admin API made beside its own.
 */

import { dirname, resolve } from "node:path";
import {
  type Config,
  type ConfigFile,
  type ConfigIssue,
  completeConfig,
  configFileSchema,
  type MintedKey,
  type NodeTemplate,
  type NodeTlsConfig,
  parseConfigFile,
  parseMintedKey,
  type ServerTlsConfig,
} from "@zml/protocol";
import { checkListeners } from "./check-listeners.ts";
import { checkReferences, type PlaceOf } from "./check-references.ts";
import { otelDefaults, withOtelDefaults } from "./otel-environment.ts";
import { own, rawFile } from "./raw-file.ts";
import { type ConfigSecrets, checkSecrets, type Environment, NO_SECRETS, resolveSecrets } from "./resolve-secrets.ts";
import { readDataTls, readNodeTls } from "./tls-files.ts";

export interface BuildOptions {
  /** Paths that are not absolute are beside it. */
  readonly fileName: string;
  readonly env: Environment;
  /** Processor cores, for the default of `workers`. */
  readonly cores: number;
  /** Unix ms, for keys that have ended. */
  readonly nowMs: number;
  /** For texts about two places. */
  readonly placeOf: PlaceOf;
  /** How many entries of each list are the file's; those after them are the admin API's. Default: all. */
  readonly ofFile?: { readonly nodes: number; readonly keys: number };
}

/** What the values say. */
export interface BuildResult {
  /** Absent when there are errors. */
  readonly config?: Config;
  /** Empty when there are errors. */
  readonly secrets: ConfigSecrets;
  readonly errors: readonly ConfigIssue[];
  readonly warnings: readonly ConfigIssue[];
}

/** Checks and completes. Reports everything at once and never throws; no message holds a secret. */
export function buildConfig(stated: object, options: BuildOptions): BuildResult {
  const { fileName, env, cores, nowMs, placeOf, ofFile } = options;
  const otel = otelDefaults(env);
  const value = withOtelDefaults(stated, otel);
  const file = rawFile(value);
  const minted = ofFile === undefined ? NO_MINTED : mintedKeys(own(file.top, "keys"), ofFile.keys);
  const parsed = parseConfigFile(ofFile === undefined ? value : { ...value, keys: minted.others });
  const names = checkReferences(file, placeOf, nowMs);
  const errors = [
    ...("issues" in parsed ? parsed.issues : checkNumbers(parsed.file)),
    ...minted.issues,
    ...names.errors,
    ...checkListeners(file, DEFAULT_LISTEN, nowMs),
    // the admin API's keys name no variable: of one that they name all the same nothing is told
    ...checkSecrets(
      { ...file, keys: file.keys.filter(({ path }) => Number(path[1]) < (ofFile?.keys ?? Infinity)) },
      env,
    ),
  ];
  const warnings = [...names.warnings, ...otel.warnings];
  if (errors.length > 0 || "issues" in parsed) return { secrets: NO_SECRETS, errors, warnings };

  warnings.push(...slowPolls(parsed.file));
  const beside = { cores, mintedKeys: minted.keys, ...(ofFile === undefined ? {} : { nodesOfFile: ofFile.nodes }) };
  const config = besideFile(completeConfig(parsed.file, beside), fileName);
  const tls = readDataTls(config.data.tls);
  const nodeTls = readNodeTls(config);
  warnings.push(...tls.warnings, ...nodeTls.warnings);
  const unusable = [...tls.errors, ...nodeTls.errors];
  if (unusable.length > 0) return { secrets: NO_SECRETS, errors: unusable, warnings };
  const secrets = { ...resolveSecrets(config, env), dataTls: tls.files, tlsFiles: nodeTls.files };
  return { config, secrets, errors, warnings };
}

interface MintedKeys {
  readonly keys: readonly MintedKey[];
  readonly issues: readonly ConfigIssue[];
  /** The keys of the file. */
  readonly others: readonly unknown[];
}

const NO_MINTED: MintedKeys = { keys: [], issues: [], others: [] };

/** Keys that the gateway made name no variable. */
function mintedKeys(list: unknown, ofFile: number): MintedKeys {
  if (!Array.isArray(list)) return NO_MINTED;
  const parsed = list.slice(ofFile).map((entry: unknown, index) => parseMintedKey(entry, ["keys", ofFile + index]));
  return {
    keys: parsed.flatMap((one) => ("key" in one ? [one.key] : [])),
    issues: parsed.flatMap((one) => ("issues" in one ? one.issues : [])),
    others: list.slice(0, ofFile),
  };
}

/** Paths that the file names are beside it, wherever the process runs. */
function besideFile(config: Config, fileName: string): Config {
  const folder = dirname(resolve(fileName));
  const absolute = (path: string | null) => (path === null ? null : resolve(folder, path));
  const feeds = config.prices.feeds.map((feed) => ({
    ...feed,
    path: absolute(feed.path),
    apiKeyFile: absolute(feed.apiKeyFile),
    credentialsFile: absolute(feed.credentialsFile),
  }));
  const sources = config.discovery.sources.map((source) => ({
    ...source,
    node: besideTemplate(source.node, (path) => resolve(folder, path)),
    paths: source.paths.map((path) => resolve(folder, path)),
    kubeconfig: absolute(source.kubeconfig),
  }));
  const { tls } = config.data;
  const data = { ...config.data, tls: tls === null ? null : besideTls(tls, (path) => resolve(folder, path)) };
  const nodes = config.nodes.map((node) =>
    node.tls === null ? node : { ...node, tls: besideNodeTls(node.tls, absolute) },
  );
  return { ...config, data, nodes, prices: { feeds }, discovery: { ...config.discovery, sources } };
}

function besideNodeTls(tls: NodeTlsConfig, absolute: (path: string | null) => string | null): NodeTlsConfig {
  const { caFile, certFile, keyFile } = tls;
  return { ...tls, caFile: absolute(caFile), certFile: absolute(certFile), keyFile: absolute(keyFile) };
}

/** A template is completed when a node is found, which knows nothing of the file's place. */
function besideTemplate(node: NodeTemplate, absolute: (path: string) => string): NodeTemplate {
  const { tls } = node;
  if (tls === undefined) return node;
  const beside = { ...tls };
  for (const key of ["ca_file", "cert_file", "key_file"] as const) {
    const path = tls[key];
    if (path !== undefined) beside[key] = absolute(path);
  }
  return { ...node, tls: beside };
}

function besideTls(tls: ServerTlsConfig, absolute: (path: string) => string): ServerTlsConfig {
  const { certFile, keyFile, clientCaFile } = tls;
  return {
    ...tls,
    certFile: absolute(certFile),
    keyFile: absolute(keyFile),
    clientCaFile: clientCaFile === null ? null : absolute(clientCaFile),
  };
}

/** The schema is the only home of the defaults. */
const DEFAULT_LISTEN = (() => {
  const { data, admin } = configFileSchema.parse({});
  return { data: data.listen, admin: admin.listen };
})();

/** Numbers that must fit each other. */
function checkNumbers({ limits, nodes }: ConfigFile): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  if (limits.body_bytes_total < limits.body_bytes) {
    issues.push({
      path: ["limits", "body_bytes_total"],
      at: "value",
      message: `body_bytes_total (${limits.body_bytes_total}) is less than body_bytes (${limits.body_bytes})`,
      hint: "raise body_bytes_total or lower body_bytes",
    });
  }
  if (nodes.length > limits.nodes) {
    issues.push({
      path: ["nodes"],
      at: "key",
      message: `${nodes.length} nodes don't fit into limits.nodes (${limits.nodes})`,
      hint: "raise limits.nodes",
    });
  }
  return issues;
}

/** A poll that may take longer than the time between polls: rows get older than the interval says. */
function slowPolls({ health }: ConfigFile): ConfigIssue[] {
  if (health.timeout_ms <= health.poll_interval_ms) return [];
  return [
    {
      path: ["health", "timeout_ms"],
      at: "value",
      message: `timeout_ms (${health.timeout_ms}) is more than poll_interval_ms (${health.poll_interval_ms})`,
      hint: "a slow node is then polled less often than poll_interval_ms says",
    },
  ];
}
