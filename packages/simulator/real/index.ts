/** Real serving engines for tests and for the demo. */
export { type EnsureLlamaServerOptions, ensureLlamaServer } from "./ensure-llama-server.ts";
export { writeTinyGguf } from "./make-tiny-gguf.ts";
export {
  type LlamaServer,
  type LlamaServerExit,
  type LlamaServerOptions,
  startLlamaServer,
} from "./start-llama-server.ts";
export type { TinyLlamaOptions } from "./tiny-llama.ts";
