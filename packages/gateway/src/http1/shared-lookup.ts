/**
 * Looks up names for connects. The system's resolver holds one of the process's few threads for each look-up until it
 * gives up, which takes it many seconds when DNS is down, and those threads also unpack bodies and read files. So one
 * look-up of a name runs at a time, whoever waits for it, and while DNS fails the last addresses of a name count on.
 */

import { type LookupAddress, type LookupOptions, lookup } from "node:dns";

/** Who knows an address and hears nothing for this long connects to it, ms; well below the least time-out of connects. */
const PATIENCE_MS = 500;

/** Addresses that were told longer ago than this may be somebody else's by now, ms. */
const KEPT_MS = 600_000;

/** Names that are remembered; more than any fleet has nodes. */
const NAMES_MAX = 65_536;

type Callback = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void;

interface Name {
  /** Who waits for the look-up that runs, and what ends the wait where an address is known. */
  readonly waiting: Map<Callback, NodeJS.Timeout | null>;
  isRunning: boolean;
  /** What it resolved to the last time; empty: never, or it is gone. */
  addresses: LookupAddress[];
  toldAtMs: number;
}

const names = new Map<string, Name>();

/** As `dns.lookup` with `all`, but that look-ups of one name are shared and outlive a resolver that fails for a while. */
export function sharedLookup(hostname: string, options: LookupOptions, callback: Callback): void {
  const name = nameOf(`${options.family ?? 0} ${options.hints ?? 0} ${hostname}`);
  name.waiting.set(callback, isKnown(name) ? setTimeout(() => endWait(name, callback), PATIENCE_MS) : null);
  if (name.isRunning) return;
  name.isRunning = true;
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    name.isRunning = false;
    if (error === null) {
      name.addresses = addresses;
      name.toldAtMs = performance.now();
    } else if (GONE.has(error.code ?? "")) {
      name.addresses = [];
    }
    for (const each of [...name.waiting.keys()]) endWait(name, each, isKnown(name) ? null : error);
  });
}

function isKnown({ addresses, toldAtMs }: Name): boolean {
  return addresses.length > 0 && performance.now() - toldAtMs <= KEPT_MS;
}

function endWait(name: Name, callback: Callback, error: NodeJS.ErrnoException | null = null): void {
  const timer = name.waiting.get(callback) ?? null;
  if (timer !== null) clearTimeout(timer);
  if (name.waiting.delete(callback)) callback(error, name.addresses);
}

/** The resolver's word that there is no such name; everything else says that it could not tell. */
const GONE: ReadonlySet<string> = new Set(["ENOTFOUND", "ENODATA"]);

function nameOf(key: string): Name {
  let name = names.get(key);
  if (name === undefined) {
    if (names.size >= NAMES_MAX) names.delete(names.keys().next().value ?? "");
    name = { waiting: new Map(), isRunning: false, addresses: [], toldAtMs: Number.NEGATIVE_INFINITY };
    names.set(key, name);
  }
  return name;
}
