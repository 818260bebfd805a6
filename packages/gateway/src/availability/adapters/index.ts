/** The serving engines that ZML knows. Cheap to import: workers take `classify` from here. */

import type { EngineName } from "@zml/protocol";
import type { Adapter } from "./adapter.ts";
import { custom } from "./custom.ts";
import { llamacpp } from "./llamacpp.ts";
import { tgi } from "./tgi.ts";
import { vllm } from "./vllm.ts";

export type {
  Adapter,
  Answer,
  FirstEvent,
  NodeReading,
  PollResponse,
  PollResponses,
  Probes,
  ReportedModel,
} from "./adapter.ts";
export { defaultMaxInFlight } from "./adapter.ts";
export { detectEngine } from "./detect.ts";

/** All adapters, by engine name. */
export const ADAPTERS: Readonly<Record<EngineName, Adapter>> = Object.freeze({ vllm, llamacpp, tgi, custom });

/** The adapter of an engine; `custom` while the engine is not known yet. */
export function adapterFor(engine: EngineName | null): Adapter {
  return engine === null ? custom : ADAPTERS[engine];
}
