import { availableParallelism } from "node:os";
import { dirname, resolve } from "node:path";
import {
  type Config,
  type ConfigFile,
  type ConfigIssue,
  completeConfig,
  configFileSchema,
  type NodeTemplate,
  type NodeTlsConfig,
  parseConfigFile,
  type ServerTlsConfig,
} from "@zml/protocol";
import { checkListeners } from "./check-listeners.ts";
import { checkReferences } from "./check-references.ts";
import { type ConfigProblem, problemAt, sortProblems, type TextPlace } from "./config-problem.ts";
import { rawFile } from "./raw-file.ts";
import { type ConfigSecrets, checkSecrets, type Environment, NO_SECRETS, resolveSecrets } from "./resolve-secrets.ts";
import { readDataTls, readNodeTls } from "./tls-files.ts";
import { readYaml } from "./yaml-text.ts";

export interface ReadConfigOptions {
  /** How problems call the file. */
  readonly fileName: string;
  readonly env: Environment;
  /** Processor cores, for the default of `workers`. */
  readonly cores?: number;
  /** Unix ms, for keys that have ended. Default: now. */
  readonly nowMs?: number;
}

export interface ReadConfigResult {
  /** Absent when there are errors. */
  readonly config?: Config;
  /** The values of the keys, beside the configuration and never in it. Empty when there are errors. */
  readonly secrets: ConfigSecrets;
  /** By line. */
  readonly errors: readonly ConfigProblem[];
  /** By line. */
  readonly warnings: readonly ConfigProblem[];
}

/**
 * Reads the text of a configuration file: syntax, schema, references, environment. Reports everything at once and never
 * throws; no message holds a secret.
 */
export function readConfig(
  text: string,
  { fileName, env, cores = availableParallelism(), nowMs = Date.now() }: ReadConfigOptions,
): ReadConfigResult {
  const yaml = readYaml(text);
  const failed = (errors: ConfigProblem[], warnings: ConfigProblem[] = []): ReadConfigResult => ({
    secrets: NO_SECRETS,
    errors: sortProblems(errors),
    warnings: sortProblems(warnings),
  });
  const syntax = yaml.problems.map((problem) =>
    problemAt(fileName, { line: problem.line, column: problem.column }, problem),
  );
  if (yaml.value === undefined) return failed(syntax);
  const whole = (message: string, hint: string) =>
    failed([...syntax, problemAt(fileName, START, { path: [], at: "value", message, hint })]);
  if (yaml.value === null) return whole("the file is empty", "start with a list of nodes");
  if (typeof yaml.value !== "object" || Array.isArray(yaml.value)) {
    return whole("the file is no mapping", "start with a key such as nodes:");
  }

  const file = rawFile(yaml.value);
  const parsed = parseConfigFile(yaml.value);
  const names = checkReferences(file, (path) => yaml.place(path, "value").line, nowMs);
  const issues = [
    ...("issues" in parsed ? parsed.issues : checkNumbers(parsed.file)),
    ...names.errors,
    ...checkListeners(file, DEFAULT_LISTEN, nowMs),
    ...checkSecrets(file, env),
  ];
  const located = (issue: ConfigIssue) => problemAt(fileName, yaml.place(issue.path, issue.at), issue);
  const errors = [...syntax, ...issues.map(located)];
  const warnings = names.warnings.map(located);
  if (errors.length > 0 || "issues" in parsed) return failed(errors, warnings);

  warnings.push(...slowPolls(parsed.file).map(located));
  const config = besideFile(completeConfig(parsed.file, { cores }), fileName);
  const tls = readDataTls(config.data.tls);
  const nodeTls = readNodeTls(config);
  warnings.push(...[...tls.warnings, ...nodeTls.warnings].map(located));
  const unusable = [...tls.errors, ...nodeTls.errors];
  if (unusable.length > 0) return failed(unusable.map(located), warnings);
  const secrets = { ...resolveSecrets(config, env), dataTls: tls.files, tlsFiles: nodeTls.files };
  return { config, secrets, errors, warnings: sortProblems(warnings) };
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

const START: TextPlace = { line: 1, column: 1 };

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
