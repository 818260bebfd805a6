/** What of a configuration reaches a worker. Pure. */

import type { KeyConfig, NodeTlsConfig, ServerTlsConfig, TelemetryConfig } from "@zml/protocol";
import { keyDigest } from "../config/key-digest.ts";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { NodeTls } from "../http1/open-socket.ts";
import type { ServerTls, WorkerKey, WorkerKeys, WorkerNode, WorkerSettings } from "../thread-messages.ts";
import type { FleetNode } from "./fleet.ts";
import type { LimitRows } from "./limit-rows.ts";
import type { NameRegistry } from "./name-registry.ts";
import { servedAccounts } from "./shared-nodes.ts";

/** A node as workers dispatch to it. @param accounts every account there is */
export function workerNode(
  { row, config, engine }: FleetNode,
  secrets: ConfigSecrets,
  names: NameRegistry,
  accounts: readonly string[],
): WorkerNode {
  const upstreamModels: Record<number, string> = {};
  for (const { name, upstreamModel } of config.models ?? []) {
    if (upstreamModel === name) continue;
    for (const account of servedAccounts(config, accounts)) {
      const model = names.models.find(account, name);
      if (model >= 0) upstreamModels[model] = upstreamModel;
    }
  }
  return {
    row,
    id: config.id,
    family: config.family,
    account: config.account,
    url: config.url,
    engine,
    apiKey: secrets.nodes.get(config.id)?.reveal() ?? null,
    timeouts: config.timeouts,
    maxConnections: config.maxConnections,
    keepAliveMs: config.keepAliveMs,
    maxConnectionAgeMs: config.maxConnectionAgeMs,
    serverName: config.serverName,
    allowsLinkLocal: config.allowLinkLocal,
    tls: nodeTls(config.tls, secrets),
    httpVersion: config.httpVersion,
    http2: config.http2,
    upstreamModels,
  };
}

/** TLS towards a node, with what its files hold; null: the system's authorities, the host's name. */
export function nodeTls(config: NodeTlsConfig | null, { tlsFiles }: ConfigSecrets): NodeTls | null {
  if (config === null) return null;
  const text = (path: string | null) => (path === null ? null : (tlsFiles.get(path)?.reveal() ?? null));
  return {
    ca: text(config.caFile),
    cert: text(config.certFile),
    key: text(config.keyFile),
    serverName: config.serverName,
    skipVerify: config.insecureSkipVerify,
  };
}

/** TLS of the data port, with its key; null: clear text. */
export function serverTls(config: ServerTlsConfig | null, { dataTls }: ConfigSecrets): ServerTls | null {
  if (config === null || dataTls === null) return null;
  const { cert, key, clientCa } = dataTls;
  return { cert, key: key.reveal(), clientCa, minVersion: config.minVersion };
}

/** What workers note of single requests. */
export function observeSettings({ traces, accessLog }: TelemetryConfig): WorkerSettings["observe"] {
  const { ratio, sampler, keepFailed: keepsFailed, clientAddress, queueSpans } = traces;
  const isParentBased = sampler === "parentbased_traceidratio";
  return {
    traces: traces.endpoint === null ? null : { ratio, isParentBased, keepsFailed, clientAddress, queueSpans },
    accessLog:
      accessLog.ratio === 0
        ? null
        : {
            ratio: accessLog.ratio,
            keepsFailed: accessLog.keepFailed,
            clientAddress: accessLog.clientAddress,
            queueLines: accessLog.queueLines,
          },
  };
}

/** The callers' keys, by digest: a worker can check one and never tell one. */
export function workerKeys(
  { keys, minted, pepper }: ConfigSecrets,
  limitRows: LimitRows | null = null,
  names: Pick<NameRegistry, "keys"> | null = null,
): WorkerKeys {
  const indexesOf = ({ account, name }: KeyConfig) => ({
    limitRow: limitRows?.find({ account, key: name }) ?? -1,
    index: names?.keys.register(account, name) ?? -1,
  });
  const list = [
    ...keys.map(({ key, secret }) => workerKey(key, keyDigest(pepper, secret.reveal()), null, indexesOf(key))),
    ...minted.map(({ key, digest, expiresAtMs }) => workerKey(key, digest, expiresAtMs, indexesOf(key))),
  ];
  return { pepper, list, accountRows: limitRows?.accountRows() ?? {} };
}

/** @param endsAtMs of this value of the key, Unix ms; null: as long as the key itself. */
function workerKey(
  key: KeyConfig,
  digest: string,
  endsAtMs: number | null,
  indexes: Pick<WorkerKey, "limitRow" | "index">,
): WorkerKey {
  const { name, account, scopes, models, policies, expiresAt } = key;
  const expiresAtMs = Math.min(
    expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt),
    endsAtMs ?? Number.POSITIVE_INFINITY,
  );
  return { name, account, scopes, models, policies, expiresAtMs, digest, ...indexes };
}
