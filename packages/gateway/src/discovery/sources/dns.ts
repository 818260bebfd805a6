/**
 * Nodes from a name that resolves to many addresses. The servers are asked each time, past every cache of this machine;
 * names are taken as they are, without search domains and without the file of hosts.
 */

import { Resolver } from "node:dns/promises";
import type { SourceConfig } from "@zml/protocol";
import { RepeatedLook } from "../repeated-look.ts";
import { type Dropped, type Look, SourceError, type StartSource, type Target } from "../source.ts";

/** Lookups of the names of SRV records that run at once. */
const AT_ONCE = 32;

export const startDnsSource: StartSource = (context) => new RepeatedLook(context, lookUp);

async function lookUp(config: SourceConfig, signal: AbortSignal): Promise<Look> {
  // two tries at each server must fit into the deadline
  const resolver = new Resolver({ timeout: Math.max(50, Math.floor(config.timeoutMs / 4)), tries: 2 });
  if (config.servers.length > 0) resolver.setServers(config.servers);
  const cancel = (): void => resolver.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    return config.record === "srv" ? await services(config, resolver) : await addresses(config, resolver);
  } finally {
    signal.removeEventListener("abort", cancel);
    resolver.cancel();
  }
}

/** The addresses of the name, all at `port`. */
async function addresses(config: SourceConfig, resolver: Resolver): Promise<Look> {
  const { hostname, record, port } = config;
  const answer = await ask(hostname, () =>
    record === "aaaa" ? resolver.resolve6(hostname) : resolver.resolve4(hostname),
  );
  const targets = (answer ?? []).map((host) => target(host, port ?? 0, hostname));
  return { found: { targets, leaving: [], dropped: [], note: noteOf(answer, hostname) }, error: null };
}

/** The names of SRV records with their ports; priority and weight are not looked at, since ZML decides itself. */
async function services(config: SourceConfig, resolver: Resolver): Promise<Look> {
  const { hostname, maxNodes } = config;
  const answer = await ask(hostname, () => resolver.resolveSrv(hostname));
  // one record with the name "." says that there is no such service
  const records = (answer ?? []).filter(({ name }) => name !== "" && name !== ".");
  const names = [...new Set(records.map(({ name }) => name))].sort().slice(0, maxNodes);
  const addressesOf = new Map<string, readonly string[]>();
  for (let start = 0; start < names.length; start += AT_ONCE) {
    const batch = names.slice(start, start + AT_ONCE);
    const found = await Promise.all(batch.map((name) => addressesOfName(name, resolver)));
    for (const [index, name] of batch.entries()) addressesOf.set(name, found[index] ?? []);
  }
  const targets: Target[] = [];
  const dropped: Dropped[] = [];
  for (const { name, port } of records) {
    const hosts = addressesOf.get(name) ?? [];
    if (hosts.length === 0) dropped.push({ target: `${name}:${port}`, reason: "the name has no address" });
    targets.push(...hosts.map((host) => target(host, port, name)));
  }
  return { found: { targets, leaving: [], dropped, note: noteOf(answer, hostname) }, error: null };
}

/** IPv6 where there is no IPv4, so that a server with both is one node. */
async function addressesOfName(name: string, resolver: Resolver): Promise<readonly string[]> {
  const four = await ask(name, () => resolver.resolve4(name));
  if (four !== null && four.length > 0) return four;
  return (await ask(name, () => resolver.resolve6(name))) ?? [];
}

/** An answer, null: the servers say that there is none. */
async function ask<T>(name: string, query: () => Promise<T>): Promise<T | null> {
  try {
    return await query();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    if (code === "ENODATA" || code === "ENOTFOUND") return null;
    throw new SourceError(`looking up ${name} failed: ${IN_WORDS[code] ?? code}`, error);
  }
}

const IN_WORDS: Readonly<Record<string, string>> = {
  ESERVFAIL: "the DNS server has a problem (SERVFAIL)",
  EREFUSED: "the DNS server refuses to answer (REFUSED)",
  ETIMEOUT: "no DNS server answered in time",
  ECONNREFUSED: "no DNS server listens at the address",
  EFORMERR: "the DNS server does not understand the question (FORMERR)",
  EBADRESP: "the DNS server's answer can't be read",
  ENOTIMP: "the DNS server does not know such questions (NOTIMP)",
  ECANCELLED: "the look was ended",
};

function noteOf(answer: unknown, hostname: string): string | null {
  return answer === null ? `${hostname} does not exist, or has no such records` : null;
}

function target(host: string, port: number, serverName: string): Target {
  return { host, port, serverName: serverName.replace(/\.$/, ""), displayName: null, labels: {} };
}
