/** Puts the parts of the managed objects together. */

import type { Store } from "../../store/store.ts";
import type { Configuration } from "../configuration.ts";
import type { GatewayLog } from "../gateway-log.ts";
import { Audit } from "./audit.ts";
import { KeptObjects } from "./kept-objects.ts";
import { ObjectChanges } from "./object-changes.ts";
import { ObjectStore } from "./object-store.ts";
import { Registry, type RegistryOptions } from "./registry.ts";

export interface ObjectsOptions extends Pick<RegistryOptions, "found"> {
  readonly configuration: Configuration;
  readonly store: Store;
  readonly onDrains: (drained: ReadonlySet<string>) => void;
  readonly log: GatewayLog;
}

export interface Objects {
  readonly registry: Registry;
  readonly kept: KeptObjects;
  readonly audit: Audit;
}

export function createObjects({ configuration, store, found, onDrains, log }: ObjectsOptions): Objects {
  const nowMs = (): number => Date.now();
  const audit = new Audit({ store, log, nowMs, days: () => configuration.config.store.auditDays });
  const objects = new ObjectStore(store);
  const kept = new KeptObjects({ configuration, objects, store, folder: store.folder, audit, onDrains, log });
  const onRemoved = kept.forgetDrains.bind(kept);
  const changes = new ObjectChanges({ configuration, objects, audit, onRemoved, nowMs });
  const registry = new Registry({ configuration, kept, changes, audit, store, found, nowMs });
  return { registry, kept, audit };
}
