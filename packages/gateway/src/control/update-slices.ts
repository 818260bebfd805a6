/**
 * Cuts one version of the configuration into messages that a worker can take in without standing still: deserialising
 * 10,000 nodes at once takes 20–70 ms, in which nothing is relayed.
 */

import type { DirectoryUpdate, ModelData } from "@zml/engine";
import type { WorkerUpdate } from "../thread-messages.ts";

/** Nodes in one message, and the same worth of models. */
const SLICE_NODES = 500;
/** Rows of models in one message: three columns of numbers each, which cost far less than a node does. */
const SLICE_MODEL_ROWS = 20_000;

/** What a version changes. */
export type WorkerChange = Omit<WorkerUpdate, "kind" | "version" | "directory"> & {
  directory?: Omit<DirectoryUpdate, "version">;
};

/**
 * The messages of one version, in order. Nodes come before what refers to them and go after it, so that a worker
 * between two slices never decides for a node that it can't reach. Only the last one carries `version`, so that its
 * acknowledgment stands for all.
 *
 * @param previous version that the worker has, which the other slices carry.
 */
export function sliceUpdate(change: WorkerChange, { version, previous }: SliceVersions): WorkerUpdate[] {
  const { directory, nodes = [], removeNodes, ...rest } = change;
  const models = directory?.models ?? [];
  const modelSlices = sliceModels(models);
  if (nodes.length <= SLICE_NODES && modelSlices.length <= 1) {
    const { directory: _, ...others } = change;
    return [{ kind: "update", version, ...others, ...(directory && { directory: { ...directory, version } }) }];
  }
  const slices: WorkerUpdate[] = [];
  const slice = (part: Omit<WorkerUpdate, "kind" | "version">) =>
    slices.push({ kind: "update", version: previous, ...part });
  for (let start = 0; start < nodes.length; start += SLICE_NODES) {
    slice({ nodes: nodes.slice(start, start + SLICE_NODES), ...(start === 0 ? rest : {}) });
  }
  if (nodes.length === 0) slice(rest);
  if (directory !== undefined) {
    const { families, accounts, policies } = directory;
    slice({
      directory: {
        version: previous,
        ...(families && { families }),
        ...(accounts && { accounts }),
        ...(policies && { policies }),
      },
    });
    for (const part of modelSlices) slice({ directory: { models: part, version: previous } });
  }
  const { removeAccounts, removePolicies, removeModels } = directory ?? {};
  slices.push({
    kind: "update",
    version,
    directory: {
      version,
      ...(removeAccounts && { removeAccounts }),
      ...(removePolicies && { removePolicies }),
      ...(removeModels && { removeModels }),
    },
    ...(removeNodes && { removeNodes }),
  });
  return slices;
}

/** Versions before and after an update. */
export interface SliceVersions {
  version: number;
  previous: number;
}

function sliceModels(models: readonly ModelData[]): ModelData[][] {
  const slices: ModelData[][] = [];
  let current: ModelData[] = [];
  let rows = 0;
  for (const model of models) {
    if (current.length > 0 && (current.length >= SLICE_NODES || rows + model.rows.length > SLICE_MODEL_ROWS)) {
      slices.push(current);
      current = [];
      rows = 0;
    }
    current.push(model);
    rows += model.rows.length;
  }
  if (current.length > 0) slices.push(current);
  return slices;
}
