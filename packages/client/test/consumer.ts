/**
 * An application that uses the client, with claims about its types. `npm run check` compiles it against the sources, and
 * pack.test.ts against the installed package, where it also runs. Argument: the gateway's address.
 */
import {
  APIStatusError,
  type ChatAnswer,
  type ChatChunk,
  type CompletionAnswer,
  type CompletionChunk,
  type Decision,
  type EmbeddingAnswer,
  type InferStream,
  type ModelAnswer,
  NotFoundError,
  type ReceivedRouting,
  SaturationError,
  ZML,
  ZMLError,
} from "@zml/client";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** Does not compile unless the types are the same. */
function same<A, B>(..._claim: Equal<A, B> extends true ? [] : ["the types differ"]): void {}

const messages = [{ role: "user", content: "hello" }];

/** Never called: it only has to compile. */
export async function typed(client: ZML, isStream: boolean): Promise<void> {
  const plain = await client.infer({ model: "m", messages });
  same<typeof plain, ChatAnswer>();
  const stated = await client.infer({ model: "m", messages, stream: false });
  same<typeof stated, ChatAnswer>();
  const stream = await client.infer({ model: "m", messages, stream: true });
  same<typeof stream, InferStream<ChatChunk>>();
  const either = await client.infer({ model: "m", messages, stream: isStream });
  same<typeof either, ChatAnswer | InferStream<ChatChunk>>();
  const completion = await client.infer({ model: "m", prompt: "once" });
  same<typeof completion, CompletionAnswer>();
  const completions = await client.infer({ model: "m", prompt: ["once", "twice"], stream: true });
  same<typeof completions, InferStream<CompletionChunk>>();
  const embedding = await client.embed({ model: "m", input: ["a", "b"] });
  same<typeof embedding, EmbeddingAnswer>();
  const model = await client.models.get("m");
  same<typeof model, ModelAnswer>();
  const decision = await client.decisions.explain("id");
  same<typeof decision, Decision>();

  for await (const chunk of stream) same<typeof chunk, ChatChunk>();
  same<typeof stream.routing, ReceivedRouting | null>();
  same<typeof plain.text, string>();
  same<NonNullable<typeof plain.routing>["queueDepth"], number | undefined>();

  // parameters of the API by their type, those of engines as they are
  await client.infer({ model: "m", messages, temperature: 0, guided_json: { type: "object" }, top_k: 5 });
  await client.infer({ model: "m", messages: [{ role: "user", content: "x", cache_control: { type: "ephemeral" } }] });
  await client.infer({ model: "m", messages, accelerator: "MI300X", policy: "p", timeoutMs: 1, maxRetries: 0 });
  await client.infer({
    model: "m",
    messages: [
      { role: "system", content: "be brief" },
      { role: "user", content: [{ type: "text", text: "what is this?" }] },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "1", content: "3" },
    ],
    tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }],
    tool_choice: "auto",
    signal: new AbortController().signal,
  });

  // @ts-expect-error a model is needed
  await client.infer({ messages });
  // @ts-expect-error messages or prompt
  await client.infer({ model: "m" });
  // @ts-expect-error not both
  await client.infer({ model: "m", messages, prompt: "x" });
  // @ts-expect-error a number
  await client.infer({ model: "m", messages, temperature: "hot" });
  // @ts-expect-error milliseconds
  await client.infer({ model: "m", messages, timeoutMs: "1s" });
  // @ts-expect-error no such option
  new ZML({ baseURL: "http://127.0.0.1" });
  // @ts-expect-error an answer has no such member
  void plain.choises;
  // @ts-expect-error streams are made by infer
  void new InferStream();

  try {
    await client.infer({ model: "m", messages });
  } catch (error) {
    if (error instanceof SaturationError) {
      same<typeof error.retryAfter, number | undefined>();
      same<(typeof error.families)[number]["nodes"], number>();
    } else if (error instanceof APIStatusError) {
      same<typeof error.status, number>();
      same<typeof error.routing, ReceivedRouting | null>();
    } else if (error instanceof ZMLError) {
      same<typeof error.message, string>();
    }
  }
}

/** Asks in each way. @returns what came, as JSON. */
export async function use(baseUrl: string): Promise<string> {
  const client = new ZML({ baseUrl, adminUrl: baseUrl, maxRetries: 0 });
  const answer = await client.infer({ model: "llama3-8b", messages });
  let streamed = "";
  for await (const chunk of await client.infer({ model: "llama3-8b", messages, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  const left = await client.infer({ model: "llama3-8b", messages, stream: true });
  for await (const _ of left) break;
  const error: unknown = await client.models.get("none").catch((cause: unknown) => cause);
  return JSON.stringify({
    text: answer.text,
    node: answer.routing?.node,
    streamed,
    error: error instanceof NotFoundError ? error.name : String(error),
  });
}
