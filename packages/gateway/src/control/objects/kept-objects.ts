/** What the store holds of objects, and how this process comes to know it: at the start, and after a store that failed. */

import { DEFAULT_ACCOUNT } from "@zml/protocol";
import type { StoreClient } from "../../store/store.ts";
import { StoreFault } from "../../store/store-fault.ts";
import { PEPPER_FILE } from "../../store/store-files.ts";
import { byKey, type Configuration } from "../configuration.ts";
import type { GatewayLog } from "../gateway-log.ts";
import { StartError } from "../start-error.ts";
import type { Audit } from "./audit.ts";
import type { Actor, ObjectKey, WriteRefusal } from "./managed-objects.ts";
import type { ApiObject } from "./merged-values.ts";
import { keyText } from "./object-lists.ts";
import type { LoadedObjects, ObjectStore } from "./object-store.ts";
import { makePepper, pepperCheck, readPepper } from "./pepper.ts";
import { problemWords, refusal, refuseStore } from "./refusals.ts";

/** A store that failed at the start is asked again this often, ms. */
const RETRY_EVERY_MS = 5_000;

export interface KeptObjectsOptions {
  readonly configuration: Configuration;
  readonly objects: ObjectStore;
  readonly store: StoreClient;
  /** Folder of the store, or ":memory:". */
  readonly folder: string;
  readonly audit: Audit;
  /** Nodes that take no new requests, by `keyText`; the same set, changed. */
  readonly onDrains: (drained: ReadonlySet<string>) => void;
  readonly log: GatewayLog;
}

export class KeptObjects {
  readonly #options: KeptObjectsOptions;
  readonly #drained = new Set<string>();
  /** Null: no key was made yet. */
  #pepper: Uint8Array | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  #isStopped = false;

  constructor(options: KeptObjectsOptions) {
    this.#options = options;
  }

  /**
   * Takes over what the store holds, before anything is in force. A store that can't tell leaves the file alone, and is
   * asked again.
   *
   * @throws StartError when both together are no configuration, or when the pepper of the store's keys is not there.
   */
  async restore(): Promise<void> {
    const { configuration, log } = this.#options;
    const loaded = await this.#load();
    if (loaded instanceof StoreFault) {
      if (loaded.kind === "corrupt") throw new StartError(loaded.message);
      log.error(
        { kind: loaded.kind },
        "the objects that the admin API made can't be loaded: only the file is in force",
      );
      // the file of the pepper tells that keys were made
      if (this.#hasPepper()) configuration.setKeysUnknown(true);
      const drafted = configuration.draft({});
      if ("draft" in drafted) configuration.begin(drafted.draft);
      this.#knowLater();
      return;
    }
    const api = byKey(loaded.objects);
    const drafted = configuration.draft({ api });
    if ("problems" in drafted) {
      const problems = problemWords(drafted.problems, configuration.inForce.source).join("\n");
      throw new StartError(
        "the configuration file and what the admin API made don't fit together; nothing is lost, and it starts once " +
          `the file does not stand in the way:\n${problems}`,
      );
    }
    configuration.begin(drafted.draft);
  }

  /** Ends what waits. */
  stop(): void {
    this.#isStopped = true;
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
  }

  /** Loads what the store holds where that is not known, and puts it in force. In a turn of the configuration. */
  async know(): Promise<WriteRefusal | null> {
    const { objects, configuration } = this.#options;
    if (objects.isKnown) return null;
    const loaded = await this.#load();
    if (loaded instanceof StoreFault) return refuseStore(loaded);
    const api = byKey(loaded.objects);
    const areKeysNew = configuration.areKeysUnknown;
    configuration.setKeysUnknown(false);
    if (!areKeysNew && isSameApi(api, configuration.inForce.api)) return null;
    const drafted = configuration.draft({ api });
    if ("draft" in drafted) {
      await configuration.apply(drafted.draft);
      return null;
    }
    objects.forget();
    const [first = ""] = problemWords(drafted.problems, configuration.inForce.source);
    const hint = "take out of the file what stands in the way";
    return refusal("store_unavailable", `what the store holds does not fit to the file: ${first}`, hint);
  }

  /** The pepper for a key that is made now, with what tells it. */
  pepper(): { bytes: Uint8Array; check: string } | WriteRefusal {
    const { folder, configuration } = this.#options;
    try {
      const bytes = this.#pepper ?? readPepper(folder) ?? makePepper(folder);
      this.#pepper = bytes;
      configuration.usePepper(bytes);
      return { bytes, check: pepperCheck(bytes) };
    } catch (error) {
      if (error instanceof StoreFault) return refuseStore(error);
      throw error;
    }
  }

  /** Keeps that a node takes no new requests, or takes them again. Null: done. */
  async setDraining({ account, name }: ObjectKey, isDraining: boolean, actor: Actor): Promise<WriteRefusal | null> {
    const { store, audit, onDrains } = this.#options;
    const key = drainKey(account, name);
    if (this.#drained.has(key) === isDraining) return null;
    const entry = {
      ...{ kind: "node", account, name, action: isDraining ? "drained" : "undrained" },
      before: { draining: !isDraining },
      after: { draining: isDraining },
    };
    try {
      const change = { account, node: name, isDrained: isDraining, audit: audit.append([entry], actor) };
      await store.call("drains.set", change);
    } catch (error) {
      if (error instanceof StoreFault) return refuseStore(error);
      throw error;
    }
    if (isDraining) this.#drained.add(key);
    else this.#drained.delete(key);
    onDrains(this.#drained);
    audit.tell([entry], actor, null);
    return null;
  }

  /** A node that is made again takes requests: the store has forgotten the drain of the one before. */
  forgetDrains(removed: readonly ObjectKey[]): void {
    const before = this.#drained.size;
    for (const { kind, account, name } of removed) if (kind === "node") this.#drained.delete(drainKey(account, name));
    if (this.#drained.size !== before) this.#options.onDrains(this.#drained);
  }

  async #load(): Promise<LoadedObjects | StoreFault> {
    const { objects, onDrains } = this.#options;
    try {
      const loaded = await objects.load();
      this.#takePepper(loaded);
      this.#drained.clear();
      for (const { account, node } of loaded.drains) this.#drained.add(drainKey(account, node));
      onDrains(this.#drained);
      return loaded;
    } catch (error) {
      if (error instanceof StoreFault) return error;
      throw error;
    }
  }

  /** @throws StoreFault `corrupt` when the keys of the store were made with a pepper that is not there. */
  #takePepper({ objects, pepperCheck: check }: LoadedObjects): void {
    const { folder, configuration } = this.#options;
    const pepper = readPepper(folder);
    const keys = objects.filter(({ digests }) => digests.length > 0).length;
    if (keys > 0 && (pepper === null || (check !== null && pepperCheck(pepper) !== check))) {
      this.#options.objects.forget();
      const what = pepper === null ? "is missing" : "is another one than the one that they were made with";
      throw new StoreFault(
        "corrupt",
        `the store ${folder} has ${keys} keys, and the file ${PEPPER_FILE} beside it, without which none of them can be ` +
          `checked, ${what}: put the file of the backup there, or start with another store.path`,
      );
    }
    if (pepper === null) return;
    this.#pepper = pepper;
    configuration.usePepper(pepper);
  }

  #hasPepper(): boolean {
    try {
      return readPepper(this.#options.folder) !== null;
    } catch {
      return true;
    }
  }

  /** While the store does not tell what it holds it is asked again. */
  #knowLater(): void {
    if (this.#isStopped) return;
    this.#retryTimer = setTimeout(async () => {
      const { configuration, log } = this.#options;
      const refused = await configuration.inTurn(() => this.know());
      if (refused !== null) this.#knowLater();
      else log.info({}, "the objects that the admin API made were loaded from the store");
    }, RETRY_EVERY_MS);
    this.#retryTimer.unref();
  }
}

/** Of a node, in the set of those that are drained. */
export function drainKey(account: string, node: string): string {
  return keyText({ kind: "node", account: account === "" ? DEFAULT_ACCOUNT : account, name: node });
}

function isSameApi(one: ReadonlyMap<string, ApiObject>, other: ReadonlyMap<string, ApiObject>): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([key, { revision }]) => other.get(key)?.revision === revision);
}
