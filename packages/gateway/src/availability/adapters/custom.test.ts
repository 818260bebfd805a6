import { reportedModel } from "./adapter.ts";
import { custom } from "./custom.ts";
import { plain, response, streamed, testAdapter } from "./testing/adapter-suite.ts";

testAdapter(custom, {
  readings: [
    {
      claim: "a healthy server with its models",
      responses: {
        health: response("ok"),
        models: response({ data: [{ id: "a", max_model_len: 4096 }, { id: "b" }] }),
      },
      expected: {
        isReady: true,
        running: Number.NaN,
        models: [reportedModel("a", { contextTokens: 4096 }), reportedModel("b")],
      },
    },
    {
      claim: "a server without a health route as ready",
      responses: { health: response("", 404), models: response("", 404) },
      expected: { isReady: true, models: null },
    },
    {
      claim: "a server that is not ready",
      responses: { health: response("", 503), models: response({ data: [] }) },
      expected: { isReady: false },
    },
    {
      claim: "a list with nonsense in it",
      responses: { health: response(""), models: response({ data: [null, 4, { id: 5 }, { id: "a" }, { id: "a" }] }) },
      expected: { models: [reportedModel("a")] },
    },
  ],
  verdicts: [
    {
      claim: "OpenAI's context error",
      answer: plain(400, {
        error: { message: "too long", type: "invalid_request_error", code: "context_length_exceeded" },
      }),
      expected: "too_large",
    },
    {
      claim: "a full queue by SGLang",
      answer: plain(503, { object: "error", message: "The request queue is full.", type: "503", code: 503 }),
      expected: "overloaded",
    },
    {
      claim: "a full queue as first event",
      answer: streamed({ error: { message: "The request queue is full.", code: 503 } }),
      expected: "overloaded",
    },
    {
      claim: "an unknown model",
      answer: plain(404, { error: { message: "no such thing", code: "model_not_found" } }),
      expected: "misconfigured",
    },
    { claim: "an unknown route", answer: plain(404, "404 page not found"), expected: "endpoint_unsupported" },
    {
      claim: "an error with status 200",
      answer: plain(200, { error: { message: "retracted", type: "rate_limit_error" } }),
      expected: "overloaded",
    },
    {
      claim: "Anthropic's overload as first event",
      answer: streamed({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, "error"),
      expected: "overloaded",
    },
  ],
});
