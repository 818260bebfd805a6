import { type ConfigIssue, isLoopback, type ListenAddress, parseListen } from "@zml/protocol";
import { hasExpired } from "./check-keys.ts";
import { own, type RawFile, section, textOf } from "./raw-file.ts";

interface Port {
  readonly name: "data" | "admin";
  readonly address: ListenAddress;
  /** Whether the file gives it, or the default does. */
  readonly isGiven: boolean;
  readonly allowUnauthenticated: boolean;
}

/** The rules about the two ports: no open door by accident, and not one door for both. */
export function checkListeners(file: RawFile, defaults: { data: string; admin: string }, nowMs: number): ConfigIssue[] {
  const data = port(file, "data", defaults.data);
  const admin = port(file, "admin", defaults.admin);
  const issues: ConfigIssue[] = [];
  for (const one of [data, admin]) {
    if (one === null || isLoopback(one.address.host) || one.allowUnauthenticated) continue;
    const lack = lackOfKeys(file, one.name, nowMs);
    if (lack === null) continue;
    issues.push({
      path: [one.name, "listen"],
      at: "value",
      message: `other machines can reach ${one.address.host} and there ${lack.message}`,
      hint: `${lack.hint}, listen on 127.0.0.1, or say ${one.name}.allow_unauthenticated: true`,
    });
  }
  if (data !== null && admin !== null && overlap(data.address, admin.address)) {
    issues.push({
      path: [admin.isGiven ? "admin" : "data", "listen"],
      at: "value",
      message: `data and admin both listen on port ${admin.address.port}`,
      hint: "give them different ports",
    });
  }
  return [...issues, ...ownNodes(file, [data, admin])];
}

/** Nodes behind which this gateway itself would stand: each request would come back to it until they are all full. */
function ownNodes(file: RawFile, ports: readonly (Port | null)[]): ConfigIssue[] {
  return file.nodes.flatMap((node): ConfigIssue[] => {
    const address = addressOf(textOf(node, "url"));
    const own = address === null ? undefined : ports.find((one) => one !== null && isServedBy(address, one.address));
    if (own === undefined || own === null) return [];
    return [
      {
        path: [...node.path, "url"],
        at: "value",
        message: `the address is the gateway's own ${own.name} port`,
        hint: "name the serving engine's address",
      },
    ];
  });
}

/** Host and port of a node's URL; null for a text that is none. */
function addressOf(url: string | undefined): ListenAddress | null {
  if (url === undefined || !URL.canParse(url)) return null;
  const { protocol, hostname, port: given } = new URL(url);
  const byProtocol = protocol === "https:" ? 443 : 80;
  return { host: hostname.replace(/^\[|\]$/g, ""), port: given === "" ? byProtocol : Number(given) };
}

/** True when a port that listens there answers at the address, as far as that can be told without looking names up. */
function isServedBy(address: ListenAddress, listening: ListenAddress): boolean {
  if (address.port !== listening.port || listening.port === 0) return false;
  return sameHost(address.host, listening.host) || (isWildcard(listening.host) && isLoopback(address.host));
}

function port(file: RawFile, name: "data" | "admin", fallback: string): Port | null {
  const fields = section(file.top, name);
  const given = own(fields, "listen");
  const address = parseListen(given === undefined ? fallback : (textOf(fields, "listen") ?? ""));
  if (address === null) return null;
  const allowUnauthenticated = own(fields, "allow_unauthenticated") === true;
  return { name, address, isGiven: given !== undefined, allowUnauthenticated };
}

/**
 * What is missing for a port that other machines reach. Null: nothing. The data port needs a key that opens it; to the
 * admin port its probes are reason enough, and without a key for it the rest of it is closed. A broken list of keys has
 * its own message; a second one about the open door would only confuse.
 */
function lackOfKeys(file: RawFile, name: Port["name"], nowMs: number): { message: string; hint: string } | null {
  const keys = own(file.top, "keys");
  if (keys === undefined) return NO_KEYS;
  if (!Array.isArray(keys) || keys.length > file.keys.length) return null;
  if (keys.length === 0) return NO_KEYS;
  if (name === "admin") return null;
  const fitting = file.keys.filter((key) => {
    const scopes = own(key, "scopes") ?? DEFAULT_SCOPES;
    return !Array.isArray(scopes) || scopes.some((scope: unknown) => scope === "infer");
  });
  if (fitting.length === 0) {
    return { message: "is no key with the scope infer", hint: "add a key with scopes: [infer]" };
  }
  if (fitting.some((key) => !hasExpired(key, nowMs))) return null;
  return { message: "is no key with the scope infer that has not expired", hint: "add one, or give one a later end" };
}

const NO_KEYS = { message: "are no keys", hint: "add keys" };
const DEFAULT_SCOPES = ["infer"];

function overlap(left: ListenAddress, right: ListenAddress): boolean {
  if (left.port !== right.port || left.port === 0) return false;
  return sameHost(left.host, right.host) || isWildcard(left.host) || isWildcard(right.host);
}

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || (host.includes(":") && new URL(`http://[${host}]/`).hostname === "[::]");
}

function sameHost(left: string, right: string): boolean {
  const canonical = (host: string) => (host.toLowerCase() === "localhost" ? "127.0.0.1" : host.toLowerCase());
  return canonical(left) === canonical(right);
}
