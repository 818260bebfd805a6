import type { EngineBehaviour, EngineKind, HttpHabits, NodeContext, NodeSettings } from "./engine-behaviour.ts";
import { FakeLlamacpp, llamacppHttpHabits } from "./llamacpp.ts";
import { FakeSglang } from "./sglang.ts";
import { FakeTgi, tgiHttpHabits } from "./tgi.ts";
import { FakeTriton, tritonHttpHabits } from "./triton.ts";
import { FakeTrtllm } from "./trtllm.ts";
import { uvicornHabits } from "./uvicorn.ts";
import { FakeVllm } from "./vllm.ts";

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
    case "trtllm":
      return new FakeTrtllm(context);
    case "triton":
      return new FakeTriton(context);
  }
}

export function httpHabits(settings: NodeSettings): HttpHabits {
  switch (settings.engine) {
    case "vllm":
    case "sglang":
    case "trtllm":
      return uvicornHabits(settings);
    case "tgi":
      return tgiHttpHabits(settings);
    case "llamacpp":
      return llamacppHttpHabits(settings);
    case "triton":
      return tritonHttpHabits(settings);
  }
}
