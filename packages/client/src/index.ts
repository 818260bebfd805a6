/** The public names of `@zml/client`. */
export type { ReceivedRouting } from "@zml/protocol/wire";
export type {
  AnswerFacts,
  AnswerMessage,
  ChatAnswer,
  ChatChunk,
  CompletionAnswer,
  CompletionChunk,
  EmbeddingAnswer,
  FinishReason,
  Model,
  ModelAnswer,
  ModelList,
  ToolCallDelta,
  Usage,
} from "./answers.ts";
export { ZML } from "./client.ts";
export type { Decision, DecisionFamily, DecisionOutcome } from "./decision.ts";
export {
  APIConnectionError,
  APIStatusError,
  type APIStatusErrorDetails,
  APITimeoutError,
  AuthenticationError,
  BadRequestError,
  ConfigurationError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  RequestTimeoutError,
  ResponseFormatError,
  type SaturatedFamily,
  SaturationError,
  StreamInterruptedError,
  TLSError,
  UpstreamError,
  ZMLError,
} from "./errors.ts";
export type { InferStream } from "./infer-stream.ts";
export type {
  CallOptions,
  ChatMessage,
  ChatParameters,
  CompletionParameters,
  ContentPart,
  EmbedParameters,
  OpenChatMessage,
  SharedInferParameters,
  Tool,
  ToolCall,
} from "./requests.ts";
export type { ClientOptions, Fetch } from "./settings.ts";
export type { Timing } from "./timing.ts";
export { VERSION } from "./version.ts";
