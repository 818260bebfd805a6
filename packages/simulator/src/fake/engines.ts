import type { EngineBehaviour, EngineKind, HttpHabits, NodeContext, NodeSettings } from "./engine-behaviour.ts";
import { FakeLlamacpp, llamacppHttpHabits } from "./llamacpp.ts";
import { FakeSglang, sglangHttpHabits } from "./sglang.ts";
import { FakeTgi, tgiHttpHabits } from "./tgi.ts";
import { FakeVllm, vllmHttpHabits } from "./vllm.ts";

export function createEngine(kind: EngineKind, context: NodeContext): EngineBehaviour {
  switch (kind) {
    case "vllm":
      return new FakeVllm(context);
    case "sglang":
      return new FakeSglang(context);
    case "tgi":
      return new FakeTgi(context);
    case "llamacpp":
      return new FakeLlamacpp(context);
  }
}

export function httpHabits(settings: NodeSettings): HttpHabits {
  switch (settings.engine) {
    case "vllm":
      return vllmHttpHabits(settings);
    case "sglang":
      return sglangHttpHabits(settings);
    case "tgi":
      return tgiHttpHabits(settings);
    case "llamacpp":
      return llamacppHttpHabits(settings);
  }
}
