/** One streaming chat call to a serving engine: when its first token and its end came. */

import { type Agent, request as httpRequest } from "node:http";

export interface StreamCall {
  readonly url: string;
  readonly agent: Agent;
  readonly model: string;
  readonly prompt: string;
  readonly outputTokens: number;
  readonly onFirstToken: () => void;
}

/** An answer that takes longer is given up, ms. */
const DEADLINE_MS = 180_000;

/** A token's text in an event of OpenAI's shape: what comes before it is the role. */
const TOKEN = /"content":"[^"]/;

/** Resolves with the answer's tokens. @throws Error when it did not end as it should. */
export function streamCall({ url, agent, model, prompt, outputTokens, onFirstToken }: StreamCall): Promise<number> {
  const body = JSON.stringify({
    model,
    messages: [{ role: "user", content: prompt }],
    max_tokens: outputTokens,
    // the workload says how long the answer is
    ignore_eos: true,
    cache_prompt: false,
    stream: true,
    stream_options: { include_usage: true },
  });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const call = httpRequest(
    `${url}/v1/chat/completions`,
    {
      method: "POST",
      agent,
      signal: AbortSignal.timeout(DEADLINE_MS),
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    },
    (response) => {
      let isFirst = true;
      let tail = "";
      response.setEncoding("latin1");
      response.on("data", (text: string) => {
        if (isFirst && TOKEN.test(tail + text)) {
          isFirst = false;
          onFirstToken();
        }
        tail = (tail + text).slice(-2_048);
      });
      response.on("error", reject);
      response.on("end", () => {
        const tokens = /"completion_tokens":\s*(\d+)/.exec(tail)?.[1];
        if (response.statusCode === 200 && tail.includes("[DONE]") && tokens !== undefined) resolve(Number(tokens));
        else reject(new Error(`${url} answered ${response.statusCode}: ${tail.slice(-200)}`));
      });
    },
  );
  call.on("error", reject);
  call.end(body);
  return promise;
}
