/** The serving engines that ZML knows. Cheap to import: workers take `classify` from here. */

import type { CustomConfig, EngineName } from "@zml/protocol";
import type { Adapter } from "./adapter.ts";
import { custom, customAdapter } from "./custom.ts";
import { llamacpp } from "./llamacpp.ts";
import { sglang } from "./sglang.ts";
import { soundAdapter } from "./sound-reading.ts";
import { tgi } from "./tgi.ts";
import { triton } from "./triton.ts";
import { trtllm } from "./trtllm.ts";
import { vllm } from "./vllm.ts";

export type { Adapter, NodeReading, ReportedModel } from "./adapter.ts";

/** All adapters, by engine name. Their readings can be believed as far as their range goes. */
const ADAPTERS: Readonly<Record<EngineName, Adapter>> = Object.freeze({
  vllm: soundAdapter(vllm),
  sglang: soundAdapter(sglang),
  llamacpp: soundAdapter(llamacpp),
  tgi: soundAdapter(tgi),
  trtllm: soundAdapter(trtllm),
  triton: soundAdapter(triton),
  custom: soundAdapter(custom),
});

/**
 * The adapter of an engine; `custom` while the engine is not known yet.
 *
 * @param section how a `custom` node is read, for polls; null: health and models only.
 */
export function adapterFor(engine: EngineName | null, section: CustomConfig | null = null): Adapter {
  if (engine === "custom" && section !== null) return customAdapter(section);
  return engine === null ? ADAPTERS.custom : ADAPTERS[engine];
}

/** The adapter that a node is polled with. */
export function adapterOf(node: {
  readonly engine: EngineName | null;
  readonly spec: { readonly custom?: CustomConfig | null };
}): Adapter {
  return adapterFor(node.engine, node.spec.custom ?? null);
}
