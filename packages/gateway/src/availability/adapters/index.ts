/** The serving engines that ZML knows. Cheap to import: workers take `classify` from here. */

import type { EngineName } from "@zml/protocol";
import type { Adapter } from "./adapter.ts";
import { custom } from "./custom.ts";
import { llamacpp } from "./llamacpp.ts";
import { sglang } from "./sglang.ts";
import { tgi } from "./tgi.ts";
import { triton } from "./triton.ts";
import { trtllm } from "./trtllm.ts";
import { vllm } from "./vllm.ts";

export type { Adapter, NodeReading, ReportedModel } from "./adapter.ts";

/** All adapters, by engine name. */
const ADAPTERS: Readonly<Record<EngineName, Adapter>> = Object.freeze({
  vllm,
  sglang,
  llamacpp,
  tgi,
  trtllm,
  triton,
  custom,
});

/** The adapter of an engine; `custom` while the engine is not known yet. */
export function adapterFor(engine: EngineName | null): Adapter {
  return engine === null ? custom : ADAPTERS[engine];
}
