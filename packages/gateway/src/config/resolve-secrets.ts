import type { Config, ConfigIssue, KeyConfig } from "@zml/protocol";
import { rawTemplates } from "./check-discovery.ts";
import { rawFeeds } from "./check-prices.ts";
import { PROCESS_PEPPER } from "./key-digest.ts";
import { otelHeaders } from "./otel-environment.ts";
import { entries, type RawEntry, type RawFile, section, textOf } from "./raw-file.ts";
import { Secret } from "./secret.ts";
import type { ServerTlsFiles } from "./tls-files.ts";

/** The process's environment, or a stand-in for it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A value of a key that the gateway made, as far as it knows it. */
export interface MintedSecret {
  readonly key: KeyConfig;
  /** See `key-digest.ts`. */
  readonly digest: string;
  /** Unix ms; null: as long as the key itself. */
  readonly expiresAtMs: number | null;
}

/** The values that the configuration names but doesn't hold. */
export interface ConfigSecrets {
  /** The callers' keys that the environment holds, in the order of `config.keys`. */
  readonly keys: readonly { readonly key: KeyConfig; readonly secret: Secret }[];
  /** The keys that the gateway made, one for each value that callers may present. */
  readonly minted: readonly MintedSecret[];
  /** What digests of keys are made with. */
  readonly pepper: Uint8Array;
  /** The nodes' own keys, by node id; nodes without one are absent. */
  readonly nodes: ReadonlyMap<string, Secret>;
  /** The keys of price feeds that come from the environment, by feed name; feeds without one are absent. */
  readonly feeds: ReadonlyMap<string, Secret>;
  /** The keys of the nodes that a source finds, by source name; sources without one are absent. */
  readonly sources: ReadonlyMap<string, Secret>;
  /** Headers of exports of traces, by lower-case name. */
  readonly traceHeaders: ReadonlyMap<string, Secret>;
  /** Certificate and key of the data port; null: clear text. */
  readonly dataTls: ServerTlsFiles | null;
  /** Contents of the files that nodes' `tls` names, by path. */
  readonly tlsFiles: ReadonlyMap<string, Secret>;
}

/** What a configuration with problems comes with. */
export const NO_SECRETS: ConfigSecrets = {
  keys: [],
  minted: [],
  pepper: PROCESS_PEPPER,
  nodes: new Map(),
  feeds: new Map(),
  sources: new Map(),
  traceHeaders: new Map(),
  dataTls: null,
  tlsFiles: new Map(),
};

/** Every secret value that the configuration knows, for whoever has to keep them out of a text. */
export function knownSecrets({ keys, nodes, feeds, sources, traceHeaders }: ConfigSecrets): string[] {
  const all = [
    keys.map(({ secret }) => secret),
    nodes.values(),
    feeds.values(),
    sources.values(),
    traceHeaders.values(),
  ];
  return all.flatMap((some) => [...some].map((secret) => secret.reveal()));
}

/** Every variable that the file names has a value that a header can carry, and no two keys are the same. */
export function checkSecrets(file: RawFile, env: Environment): ConfigIssue[] {
  const issues: ConfigIssue[] = [];
  const seen: { name: string; secret: Secret }[] = [];
  for (const key of file.keys) {
    const variable = textOf(key, "value_env");
    if (variable === undefined || !isVariableName(variable)) continue;
    const problem = checkVariable(key, "value_env", variable, env);
    if (problem !== null) {
      issues.push(problem);
      continue;
    }
    const secret = new Secret(env[variable] ?? "");
    const name = textOf(key, "name") ?? "?";
    const twin = seen.find((other) => other.secret.equals(secret));
    if (twin === undefined) seen.push({ name, secret });
    else {
      issues.push({
        path: [...key.path, "value_env"],
        at: "value",
        message: `the keys ${JSON.stringify(twin.name)} and ${JSON.stringify(name)} have the same value`,
        hint: "a caller's key must tell who calls: give each its own value",
      });
    }
  }
  for (const owner of [...file.nodes, ...rawFeeds(file), ...rawTemplates(file)]) {
    const variable = textOf(owner, "api_key_env");
    if (variable === undefined || !isVariableName(variable)) continue;
    const problem = checkVariable(owner, "api_key_env", variable, env);
    if (problem !== null) issues.push(problem);
  }
  for (const header of entries(section(section(file.top, "telemetry"), "traces"), "headers")) {
    const variable = textOf(header, "value_env");
    if (variable === undefined || !isVariableName(variable)) continue;
    // a value of its own kind: `Bearer …` has a space
    const problem = checkVariable(header, "value_env", variable, env, /^[ -~]+$/);
    if (problem !== null) issues.push(problem);
  }
  return issues;
}

/** The secrets of a configuration that {@link checkSecrets} found nothing wrong with. */
export function resolveSecrets(config: Config, env: Environment): Omit<ConfigSecrets, "dataTls" | "tlsFiles"> {
  const value = (variable: string) => new Secret(env[variable] ?? "");
  return {
    keys: config.keys.flatMap((key) => (key.valueEnv === null ? [] : [{ key, secret: value(key.valueEnv) }])),
    minted: [],
    pepper: PROCESS_PEPPER,
    nodes: new Map(config.nodes.flatMap(({ id, apiKeyEnv }) => (apiKeyEnv === null ? [] : [[id, value(apiKeyEnv)]]))),
    feeds: new Map(
      config.prices.feeds.flatMap(({ name, apiKeyEnv }) => (apiKeyEnv === null ? [] : [[name, value(apiKeyEnv)]])),
    ),
    sources: new Map(
      config.discovery.sources.flatMap(({ name, node }) =>
        node.api_key_env === undefined ? [] : [[name, value(node.api_key_env)]],
      ),
    ),
    traceHeaders: new Map([
      ...otelHeaders(env),
      ...config.telemetry.traces.headers.map(({ name, valueEnv }) => [name.toLowerCase(), value(valueEnv)] as const),
    ]),
  };
}

function checkVariable(
  entry: RawEntry,
  field: string,
  variable: string,
  env: Environment,
  allowed: RegExp = /^[!-~]+$/,
): ConfigIssue | null {
  const path = [...entry.path, field];
  const name = shownName(variable);
  const value = Object.hasOwn(env, variable) ? env[variable] : undefined;
  if (value === undefined) {
    return {
      path,
      at: "value",
      message: `the environment variable ${name} is not set`,
      hint: "set it before the start",
    };
  }
  if (value === "") {
    return { path, at: "value", message: `the environment variable ${name} is empty`, hint: "give it the key" };
  }
  if (!allowed.test(value)) {
    return {
      path,
      at: "value",
      message: `the environment variable ${name} holds characters that no HTTP header can carry`,
      hint: "only printable ASCII without spaces; a line break at the end is the usual cause",
    };
  }
  return null;
}

function isVariableName(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(text);
}

/** People paste the key itself where its variable's name belongs, and some keys look like names. */
function shownName(variable: string): string {
  const looksLikeKey = variable.length >= 16 && /[a-z]/.test(variable) && /\d/.test(variable);
  return looksLikeKey ? "(name not shown: it looks like the key itself)" : variable;
}
