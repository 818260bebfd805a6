/** The managed objects of a running gateway: reads what is in force, changes what the API owns. */

import { isDeepStrictEqual } from "node:util";
import { formatPath, hasAccount, type ObjectKind } from "@zml/protocol";
import type { FoundEntry } from "../../discovery/index.ts";
import type { AuditRow } from "../../store/object-operations.ts";
import { StoreFault } from "../../store/store-fault.ts";
import { byKey, type Configuration, type DraftProblem } from "../configuration.ts";
import type { GatewayLog } from "../gateway-log.ts";
import { StartError } from "../start-error.ts";
import type {
  Actor,
  ManagedObject,
  ManagedObjects,
  ObjectKey,
  Spec,
  WriteCondition,
  WriteDone,
  WriteRefusal,
  WriteResult,
} from "./managed-objects.ts";
import type { ApiObject } from "./merged-values.ts";
import { ObjectList, ofApi } from "./object-list.ts";
import { keyText, nameField, objectWords, specOf } from "./object-lists.ts";
import type { ObjectStore } from "./object-store.ts";
import { problemsFor, problemWords, refusal, refuseCondition, refuseOthers, refuseStore } from "./refusals.ts";

/** A store that failed at the start is asked again this often, ms. */
const RETRY_EVERY_MS = 5_000;

export interface RegistryOptions {
  readonly configuration: Configuration;
  readonly objects: ObjectStore;
  /** Nodes that sources found: the same list while nothing in it changes. */
  readonly found: () => readonly FoundEntry[];
  readonly log: GatewayLog;
  /** Unix ms. */
  readonly nowMs: () => number;
}

export class Registry implements ManagedObjects {
  readonly #options: RegistryOptions;
  #list: ObjectList | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  #isStopped = false;

  constructor(options: RegistryOptions) {
    this.#options = options;
  }

  /**
   * Takes over what the store holds, before anything is in force. A store that can't tell leaves the file alone, and is
   * asked again.
   *
   * @throws StartError when both together are no configuration.
   */
  async restore(): Promise<void> {
    const { configuration, log } = this.#options;
    const loaded = await this.#load();
    if (loaded instanceof StoreFault) {
      log.error(
        { kind: loaded.kind },
        "the objects that the admin API made can't be loaded: only the file is in force",
      );
      this.#knowLater();
      return;
    }
    if (loaded.size === 0) return;
    const drafted = configuration.draft({ api: loaded });
    if ("problems" in drafted) {
      throw new StartError(
        "the configuration file and what the admin API made don't fit together; nothing is lost, and it starts once " +
          `the file does not stand in the way:\n${problemWords(drafted.problems, configuration.inForce.source).join("\n")}`,
      );
    }
    configuration.begin(drafted.draft);
  }

  /** Ends what waits. */
  stop(): void {
    this.#isStopped = true;
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
  }

  list(kind: ObjectKind, account: string | null): readonly ManagedObject[] {
    return this.#current().list(kind, account);
  }

  get(kind: ObjectKind, account: string, name: string): ManagedObject | null {
    return this.#current().get({ kind, account, name });
  }

  put(
    kind: ObjectKind,
    account: string,
    name: string,
    given: Spec,
    condition: WriteCondition,
    actor: Actor,
  ): Promise<WriteResult> {
    const key = { kind, account, name };
    return this.#inTurn(async () => {
      const current = this.#current().get(key);
      const refused = refuseOthers(key, current) ?? refuseCondition(key, current, condition);
      if (refused !== null) return refused;
      if (kind === "key" && current === null) {
        return refusal("not_found", `there is no ${objectWords(key)}`, "the gateway makes keys: POST /admin/v1/keys");
      }
      const spec = ownSpec(key, given);
      if (!("spec" in spec)) return spec;
      if (current !== null && isDeepStrictEqual(current.spec, spec.spec)) {
        return { ...this.#unchanged(), action: "unchanged", object: current };
      }
      const nowMs = this.#options.nowMs();
      const put: ApiObject = {
        key,
        spec: spec.spec,
        revision: 0,
        createdAtMs: current?.createdAtMs ?? nowMs,
        updatedAtMs: nowMs,
      };
      return this.#write(current, put, actor);
    });
  }

  remove(
    kind: ObjectKind,
    account: string,
    name: string,
    condition: WriteCondition,
    actor: Actor,
  ): Promise<WriteResult> {
    const key = { kind, account, name };
    return this.#inTurn(async () => {
      const current = this.#current().get(key);
      const refused = refuseOthers(key, current) ?? refuseCondition(key, current, condition);
      if (refused !== null) return refused;
      if (current === null) return refusal("not_found", `there is no ${objectWords(key)}`);
      return this.#write(current, null, actor);
    });
  }

  /** One change of one object. `next` null: it goes. */
  async #write(current: ManagedObject | null, next: ApiObject | null, actor: Actor): Promise<WriteResult> {
    const { configuration } = this.#options;
    const key = next?.key ?? (current as ObjectKey);
    const api = new Map(configuration.inForce.api);
    if (next === null) api.delete(keyText(key));
    else api.set(keyText(key), next);
    const drafted = configuration.draft({ api });
    if ("problems" in drafted) return this.#refuseDraft(key, next !== null, drafted.problems);
    const action = next === null ? "deleted" : current === null ? "created" : "updated";
    const before = current?.spec ?? null;
    const audit = this.#auditRow(key, { action, before, after: next?.spec ?? null }, actor);
    const written = await this.#store({
      puts: next === null ? [] : [next],
      removes: next === null ? [key] : [],
      audit,
    });
    if (typeof written !== "number") return written;
    const put = next === null ? null : { ...next, revision: written };
    if (put !== null) api.set(keyText(key), put);
    const warnings = drafted.warnings.filter(
      ({ place }) => place.owner === "api" && keyText(place.key) === keyText(key),
    );
    const applied = await configuration.apply({ ...drafted.draft, api });
    return {
      kind: "written",
      action,
      object: put === null ? current : ofApi(put),
      ...applied,
      warnings: [
        ...warnings.map(({ place, issue }) => `${formatPath(place.path)}: ${issue.message}`),
        ...applied.warnings,
      ],
    };
  }

  async #store(change: {
    puts: readonly ApiObject[];
    removes: readonly ObjectKey[];
    audit: AuditRow;
  }): Promise<number | WriteRefusal> {
    try {
      return await this.#options.objects.write({ ...change, audit: [change.audit] });
    } catch (error) {
      if (error instanceof StoreFault) return refuseStore(error);
      throw error;
    }
  }

  #refuseDraft(key: ObjectKey, isPut: boolean, problems: readonly DraftProblem[]): WriteRefusal {
    const { source } = this.#options.configuration.inForce;
    if (isPut) return { kind: "refused", code: "invalid", problems: problemsFor(key, problems, source) };
    const users = problemWords(problems, source);
    return {
      kind: "refused",
      code: "in_use",
      problems: users.map((message) => ({
        path: [],
        message: `the ${objectWords(key)} is in use: ${message}`,
        hint: "change what names it first",
      })),
    };
  }

  #auditRow(
    { kind, account, name }: ObjectKey,
    { action, before, after }: { action: string; before: Spec | null; after: Spec | null },
    actor: Actor,
  ): AuditRow {
    return {
      kind,
      account,
      name,
      atMs: this.#options.nowMs(),
      actorKind: actor.kind,
      actorName: actor.name,
      actorAccount: actor.account,
      action,
      before: before === null ? null : JSON.stringify(before),
      after: after === null ? null : JSON.stringify(after),
    };
  }

  /** One change at a time, each on what the store holds. */
  #inTurn<T>(change: () => Promise<T | WriteRefusal>): Promise<T | WriteRefusal> {
    return this.#options.configuration.inTurn(async () => (await this.#know()) ?? change());
  }

  /** Loads what the store holds where that is not known. */
  async #know(): Promise<WriteRefusal | null> {
    const { objects, configuration } = this.#options;
    if (objects.isKnown) return null;
    const loaded = await this.#load();
    if (loaded instanceof StoreFault) return refuseStore(loaded);
    if (isSameApi(loaded, configuration.inForce.api)) return null;
    const drafted = configuration.draft({ api: loaded });
    if ("draft" in drafted) {
      await configuration.apply(drafted.draft);
      return null;
    }
    objects.forget();
    const [first = ""] = problemWords(drafted.problems, configuration.inForce.source);
    const hint = "take out of the file what stands in the way";
    return refusal("store_unavailable", `what the store holds does not fit to the file: ${first}`, hint);
  }

  async #load(): Promise<Map<string, ApiObject> | StoreFault> {
    try {
      return byKey(await this.#options.objects.load());
    } catch (error) {
      if (error instanceof StoreFault) return error;
      throw error;
    }
  }

  /** While the store does not tell what it holds it is asked again. */
  #knowLater(): void {
    if (this.#isStopped) return;
    this.#retryTimer = setTimeout(async () => {
      const refused = await this.#inTurn(async () => null);
      if (refused !== null) this.#knowLater();
      else this.#options.log.info({}, "the objects that the admin API made were loaded from the store");
    }, RETRY_EVERY_MS);
    this.#retryTimer.unref();
  }

  #current(): ObjectList {
    const { configuration, found } = this.#options;
    const { inForce } = configuration;
    const nodes = found();
    if (this.#list?.isOf(inForce, nodes) !== true) this.#list = new ObjectList(inForce, nodes);
    return this.#list as ObjectList;
  }

  #unchanged(): Pick<WriteDone, "kind" | "version" | "isAcknowledged" | "warnings"> {
    return { kind: "written", version: this.#options.configuration.version, isAcknowledged: true, warnings: [] };
  }
}

function isSameApi(one: ReadonlyMap<string, ApiObject>, other: ReadonlyMap<string, ApiObject>): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([key, { revision }]) => other.get(key)?.revision === revision);
}

/** The spec as it is kept: name and account stand in the key, and must not say another thing. */
function ownSpec(key: ObjectKey, given: Spec): { spec: Spec } | WriteRefusal {
  const said = [[nameField(key.kind), key.name], ...(hasAccount(key.kind) ? [["account", key.account]] : [])] as const;
  const problems = said.flatMap(([field, expected]) => {
    const value = Object.hasOwn(given, field as string) ? given[field as string] : expected;
    if (value === expected) return [];
    return [{ path: [field as string], message: `expected ${expected}, as the address says`, hint: "take it out" }];
  });
  if (problems.length > 0) return { kind: "refused", code: "invalid", problems };
  return { spec: specOf(key.kind, given) };
}
