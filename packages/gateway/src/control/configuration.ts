/**
 * The configuration in force: what the file says and what the API made beside it. A change is drafted as a whole, checked
 * as a whole, and put in force as one version; one at a time.
 */

import { assert } from "@zml/engine";
import { type Config, type ConfigIssue, camelize, parseMintedKey, SCOPES } from "@zml/protocol";
import { keyDigest, PROCESS_PEPPER } from "../config/key-digest.ts";
import type { ConfigSource, ReadConfigResult } from "../config/read-config.ts";
import type { ConfigSecrets, MintedSecret } from "../config/resolve-secrets.ts";
import type { AppliedVersion } from "./objects/managed-objects.ts";
import { type ApiObject, MergedValues, type PathOwner } from "./objects/merged-values.ts";
import { mintSecret } from "./objects/minted-secret.ts";
import { allObjectsOf, keyText, nameField, objectWords } from "./objects/object-lists.ts";

/** An API write and a reload answer after this long without every acknowledgment, ms. */
export const ACK_DEADLINE_MS = 5_000;

/** A configuration that is valid, in force or not. */
export interface Draft {
  readonly source: ConfigSource;
  /** What the API made, by `keyText`. */
  readonly api: ReadonlyMap<string, ApiObject>;
  readonly config: Config;
  readonly secrets: ConfigSecrets;
}

/** Something that is wrong with a draft, and whose it is. */
export interface DraftProblem {
  readonly place: PathOwner;
  readonly issue: ConfigIssue;
}

export type Drafted =
  | { readonly draft: Draft; readonly warnings: readonly DraftProblem[] }
  | { readonly problems: readonly DraftProblem[] };

/** Who runs what is configured. */
export interface ConfigurationHost {
  /** Version in force. */
  readonly version: number;
  /** Puts it in force as one version and tells everyone whom it concerns. Returns the version and its warnings. */
  putInForce(draft: Draft, before: Draft): { version: number; warnings: readonly string[] };
  /** Resolves with true when every worker has the version in force, with false after the deadline. */
  waitForVersion(version: number, deadlineMs: number): Promise<boolean>;
}

/** A file that was read and is valid. */
export type ReadFile = ReadConfigResult & Required<Pick<ReadConfigResult, "config" | "source">>;

/** True when a file can be put in force. */
export function isReadFile(read: ReadConfigResult): read is ReadFile {
  return read.config !== undefined && read.source !== undefined;
}

export class Configuration {
  readonly #host: ConfigurationHost;
  #inForce: Draft;
  #lastTurn: Promise<unknown> = Promise.resolve();
  #pepper: Uint8Array = PROCESS_PEPPER;
  #areKeysUnknown = false;

  constructor(read: Pick<ReadFile, "config" | "source" | "secrets">, host: ConfigurationHost) {
    this.#host = host;
    this.#inForce = { source: read.source, api: new Map(), config: read.config, secrets: read.secrets };
  }

  get inForce(): Draft {
    return this.#inForce;
  }

  get config(): Config {
    return this.#inForce.config;
  }

  get secrets(): ConfigSecrets {
    return this.#inForce.secrets;
  }

  /** Version in force. */
  get version(): number {
    return this.#host.version;
  }

  /** Changes one after the other: each sees what the one before it left. */
  inTurn<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#lastTurn.then(change);
    this.#lastTurn = result.catch(() => undefined);
    return result;
  }

  /** What it would be with another file, or with other objects of the API. */
  draft({ read, api = this.#inForce.api }: { read?: ReadFile; api?: ReadonlyMap<string, ApiObject> }): Drafted {
    const source = read?.source ?? this.#inForce.source;
    const pepper = this.#pepper;
    const minted = this.#areKeysUnknown ? [keyOfNobody()] : [];
    const { inForce } = this;
    if (read === undefined && api.size === 0 && inForce.api.size === 0) {
      return { draft: { ...inForce, secrets: { ...inForce.secrets, pepper, minted } }, warnings: [] };
    }
    if (read !== undefined && api.size === 0) {
      return {
        draft: { source, api, config: read.config, secrets: { ...read.secrets, pepper, minted } },
        warnings: [],
      };
    }
    const taken = takenNames(source, api);
    if (taken.length > 0) return { problems: taken };
    const merged = new MergedValues(source.value, api.values());
    const built = source.build(merged.values, {
      placeOf: (path) => merged.placeOf(path, source.fileName),
      ofFile: { nodes: merged.ofFile("node"), keys: merged.ofFile("key") },
    });
    const placed = (issue: ConfigIssue): DraftProblem => ({ place: merged.ownerOf(issue.path), issue });
    if (built.config === undefined) return { problems: built.errors.map(placed) };
    const secrets = { ...built.secrets, minted: [...minted, ...mintedSecrets(built.config, api)], pepper };
    const draft = { source, api, config: built.config, secrets };
    return { draft, warnings: built.warnings.map(placed) };
  }

  /** Drafts from now on make their digests of keys with it. */
  usePepper(pepper: Uint8Array): void {
    this.#pepper = pepper;
  }

  get areKeysUnknown(): boolean {
    return this.#areKeysUnknown;
  }

  /**
   * While it is not known which keys the gateway made, a port must not be open as if there were none: a key that nobody
   * has makes each of them ask.
   */
  setKeysUnknown(areUnknown: boolean): void {
    this.#areKeysUnknown = areUnknown;
  }

  /** Takes what is to be in force from the start on, or what says in other words what is in force. */
  begin(draft: Draft): void {
    this.#inForce = draft;
  }

  /** Puts a draft in force. Answers when every worker has it, or after the deadline. */
  async apply(draft: Draft): Promise<AppliedVersion> {
    const before = this.#inForce;
    this.#inForce = draft;
    const { version, warnings } = this.#host.putInForce(draft, before);
    const isAcknowledged = await this.#host.waitForVersion(version, ACK_DEADLINE_MS);
    return { version, isAcknowledged, warnings };
  }
}

/** A key whose value nobody knows, and which is there. */
function keyOfNobody(): MintedSecret {
  const parsed = parseMintedKey({ name: "unknown", scopes: SCOPES }, []);
  assert("key" in parsed, "a key with all scopes is valid");
  const digest = keyDigest(PROCESS_PEPPER, mintSecret());
  return { key: { ...camelize(parsed.key), valueEnv: null }, digest, expiresAtMs: null };
}

/** The values of the keys that the gateway made. */
function mintedSecrets({ keys }: Config, api: ReadonlyMap<string, ApiObject>): MintedSecret[] {
  return keys.flatMap((key) => {
    if (key.valueEnv !== null) return [];
    const { account, name } = key;
    const digests = api.get(keyText({ kind: "key", account, name }))?.digests ?? [];
    return digests.map(({ digest, expiresAtMs }) => ({ key, digest, expiresAtMs }));
  });
}

/** What the file declares although the API made it: neither may take the other's place unseen. */
function takenNames({ value, fileName }: ConfigSource, api: ReadonlyMap<string, ApiObject>): DraftProblem[] {
  return allObjectsOf(value).flatMap(({ key, path }) => {
    const twin = api.get(keyText(key));
    if (twin === undefined) return [];
    const made = new Date(twin.createdAtMs).toISOString();
    const issue: ConfigIssue = {
      path: [...path, nameField(key.kind)],
      at: "value",
      message: `the admin API made the ${objectWords(key)} already, at ${made}`,
      hint: `take it out of ${fileName} or rename it there, or delete it with the API first`,
    };
    return [{ place: { owner: "file", path: issue.path }, issue }];
  });
}

/** The objects of the API by their key. */
export function byKey(objects: Iterable<ApiObject>): Map<string, ApiObject> {
  return new Map([...objects].map((object) => [keyText(object.key), object]));
}
