/** EndpointSlices and pods → targets. Pure. */

import type { SourceConfig } from "@zml/protocol";
import { z } from "zod";
import { type Dropped, type Found, type Target, targetKey } from "../source.ts";
import type { ClusterObject, ObjectQuery } from "./kubernetes-api.ts";

/** What to list in a namespace; null: in all. */
export function queryOf({ service, podSelector }: SourceConfig, namespace: string | null): ObjectQuery {
  const within = namespace === null ? "" : `/namespaces/${namespace}`;
  if (service === null) return { path: `/api/v1${within}/pods`, labelSelector: podSelector ?? "" };
  return {
    path: `/apis/discovery.k8s.io/v1${within}/endpointslices`,
    labelSelector: `kubernetes.io/service-name=${service}`,
  };
}

const texts = z.record(z.string(), z.string()).nullish();
const metadata = z.looseObject({
  name: z.string(),
  namespace: z.string().nullish(),
  labels: texts,
  annotations: texts,
  deletionTimestamp: z.string().nullish(),
});

const sliceSchema = z.looseObject({
  metadata,
  addressType: z.string(),
  endpoints: z
    .array(
      z.looseObject({
        addresses: z.array(z.string()).min(1),
        conditions: z.looseObject({ ready: z.boolean().nullish(), terminating: z.boolean().nullish() }).nullish(),
        targetRef: z.looseObject({ name: z.string().nullish() }).nullish(),
      }),
    )
    .nullish(),
  ports: z
    .array(z.looseObject({ name: z.string().nullish(), port: z.number().nullish(), protocol: z.string().nullish() }))
    .nullish(),
});

const podSchema = z.looseObject({
  metadata,
  spec: z.looseObject({
    containers: z
      .array(
        z.looseObject({
          ports: z
            .array(
              z.looseObject({
                name: z.string().nullish(),
                containerPort: z.number(),
                protocol: z.string().nullish(),
              }),
            )
            .nullish(),
        }),
      )
      .default([]),
  }),
  status: z
    .looseObject({
      phase: z.string().nullish(),
      podIP: z.string().nullish(),
      podIPs: z.array(z.looseObject({ ip: z.string() })).nullish(),
      conditions: z.array(z.looseObject({ type: z.string(), status: z.string() })).nullish(),
    })
    .nullish(),
});

/** What an object says about one endpoint. A terminating endpoint takes no more requests, whatever else it says. */
interface Endpoint {
  readonly target: Target;
  readonly state: "ready" | "not_ready" | "terminating";
}

interface Read {
  readonly endpoints: readonly Endpoint[];
  readonly dropped: readonly Dropped[];
}

/** Reads the objects of one source. What an object says is kept with it: of thousands, few change at one time. */
export class TargetReader {
  readonly #config: SourceConfig;
  readonly #read = new WeakMap<ClusterObject, Read>();

  constructor(config: SourceConfig) {
    this.#config = config;
  }

  /**
   * The list that objects amount to.
   *
   * @param deleted objects that are gone since the last list: their endpoints leave at once, if they are pods.
   */
  read(objects: Iterable<ClusterObject>, deleted: Iterable<ClusterObject>): Found {
    const ready = new Map<string, Target>();
    const leaving = new Map<string, Target>();
    const dropped: Dropped[] = [];
    let notReady = 0;
    for (const object of objects) {
      const found = this.#readOne(object);
      dropped.push(...found.dropped);
      for (const { target, state } of found.endpoints) {
        // an endpoint may be in two slices while it moves from one to the other
        if (state === "ready") ready.set(targetKey(target), target);
        else if (state === "terminating") leaving.set(targetKey(target), target);
        else notReady += 1;
      }
    }
    if (this.#config.service === null) {
      for (const object of deleted) {
        for (const { target } of this.#readOne(object).endpoints) leaving.set(targetKey(target), target);
      }
    }
    for (const key of ready.keys()) leaving.delete(key);
    return {
      targets: [...ready.values()],
      leaving: [...leaving.values()],
      dropped,
      note: notReady === 0 ? null : `${notReady} endpoints are not ready`,
    };
  }

  #readOne(object: ClusterObject): Read {
    let read = this.#read.get(object);
    if (read === undefined) {
      read = this.#config.service === null ? readPod(object, this.#config) : readSlice(object, this.#config);
      this.#read.set(object, read);
    }
    return read;
  }
}

function readSlice(object: ClusterObject, config: SourceConfig): Read {
  const parsed = sliceSchema.safeParse(object);
  const name = nameOf(object);
  if (!parsed.success) return dropping(name, "the EndpointSlice can't be read");
  const slice = parsed.data;
  if (slice.addressType !== config.addressType) return NOTHING;
  const ports = (slice.ports ?? []).filter(({ protocol }) => (protocol ?? "TCP") === "TCP");
  const byName = config.portName === null ? ports : ports.filter((port) => port.name === config.portName);
  const known = byName.flatMap(({ port }) => (port == null ? [] : [port]));
  const port = choosePort(known, config);
  if (typeof port === "string") return (slice.endpoints ?? []).length === 0 ? NOTHING : dropping(name, port);
  const labels = labelsOf(slice.metadata);
  const endpoints = (slice.endpoints ?? []).map(({ addresses, conditions, targetRef }): Endpoint => {
    // of a slice's addresses the first one is the endpoint's
    const [host = ""] = addresses;
    const target = { host, port, serverName: null, displayName: targetRef?.name ?? null, labels };
    // unknown counts as ready: so says the interface
    const isReady = conditions?.ready ?? true;
    return { target, state: conditions?.terminating === true ? "terminating" : isReady ? "ready" : "not_ready" };
  });
  return { endpoints, dropped: [] };
}

function readPod(object: ClusterObject, config: SourceConfig): Read {
  const parsed = podSchema.safeParse(object);
  const name = nameOf(object);
  if (!parsed.success) return dropping(name, "the pod can't be read");
  const { metadata: meta, spec, status } = parsed.data;
  const isV6 = config.addressType === "IPv6";
  const addresses = status?.podIPs?.map(({ ip }) => ip) ?? (status?.podIP == null ? [] : [status.podIP]);
  const host = addresses.find((ip) => ip.includes(":") === isV6);
  // it has not started yet, or has ended
  if (host === undefined || status?.phase === "Succeeded" || status?.phase === "Failed") return NOTHING;
  const declared = spec.containers.flatMap(({ ports }) => ports ?? []);
  const ports = declared.filter(({ protocol }) => (protocol ?? "TCP") === "TCP");
  const byName = config.portName === null ? ports : ports.filter((port) => port.name === config.portName);
  const port = choosePort(
    byName.map(({ containerPort }) => containerPort),
    config,
  );
  if (typeof port === "string") return dropping(name, port);
  const target = { host, port, serverName: null, displayName: name, labels: labelsOf(meta) };
  if (meta.deletionTimestamp != null) return { endpoints: [{ target, state: "terminating" }], dropped: [] };
  const isReady = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True") ?? false;
  return { endpoints: [{ target, state: isReady ? "ready" : "not_ready" }], dropped: [] };
}

/** The port, or why it is not clear. */
function choosePort(known: readonly number[], { port, portName }: SourceConfig): number | string {
  if (port !== null) return port;
  const different = [...new Set(known)];
  const [only] = different;
  if (only !== undefined && different.length === 1) return only;
  if (only === undefined) return portName === null ? "it names no TCP port: set port" : `it has no port ${portName}`;
  return `it has ${different.length} ports: set port or port_name`;
}

/** Labels, and annotations for what a label can't hold (slashes, commas); labels win. */
function labelsOf({ labels, annotations }: z.output<typeof metadata>): Record<string, string> {
  return { ...annotations, ...labels };
}

function nameOf({ metadata: { name, namespace } }: ClusterObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

const NOTHING: Read = { endpoints: [], dropped: [] };

function dropping(target: string, reason: string): Read {
  return { endpoints: [], dropped: [{ target, reason }] };
}
