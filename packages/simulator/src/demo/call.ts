import type { Agent, IncomingMessage } from "node:http";
import { request as httpRequest } from "node:http";
import {
  ACCELERATOR_HEADER,
  decodeRoutingHeader,
  POLICY_HEADER,
  type ReceivedRouting,
  ROUTING_HEADER,
} from "@zml/protocol/wire";

/** A chat call as an ordinary client makes it. */
export type ChatCall = {
  readonly model: string;
  readonly policy: string;
  /** The caller's wish for a family. */
  readonly accelerator?: string;
  readonly isStream: boolean;
  readonly prompt: string;
  readonly maxTokens: number;
};

export type CallEnd = {
  readonly isGood: boolean;
  /** Empty when it is good. */
  readonly error: string;
  readonly routing: ReceivedRouting | null;
  /** As the answer reports; NaN when it doesn't. */
  readonly outputTokens: number;
};

export type CallOptions = {
  readonly agent: Agent;
  readonly dataUrl: string;
  readonly signal: AbortSignal;
  /** Called at the response's head. */
  onHead(routing: ReceivedRouting | null): void;
};

const DEADLINE_MS = 120_000;

/** Makes one call. Never rejects: an answer that failed or broke off is told in the result. */
export function call(chat: ChatCall, { agent, dataUrl, signal, onHead }: CallOptions): Promise<CallEnd> {
  const body = JSON.stringify({
    model: chat.model,
    messages: [{ role: "user", content: chat.prompt }],
    max_tokens: chat.maxTokens,
    // The trace says how long the answer was.
    ignore_eos: true,
    ...(chat.isStream ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
  return new Promise((resolve) => {
    let routing: ReceivedRouting | null = null;
    const end = (error: string, outputTokens = Number.NaN) => {
      resolve({ isGood: error === "", error, routing, outputTokens });
    };
    const request = httpRequest(`${dataUrl}/v1/chat/completions`, {
      method: "POST",
      agent,
      signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]),
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        [POLICY_HEADER]: chat.policy,
        ...(chat.accelerator === undefined ? {} : { [ACCELERATOR_HEADER]: chat.accelerator }),
      },
    });
    request.on("error", (error) => end(`call failed: ${error.message}`));
    request.on("response", (response) => {
      routing = decodeRoutingHeader(String(response.headers[ROUTING_HEADER] ?? ""));
      onHead(routing);
      response.on("error", (error) => end(`answer broke off: ${error.message}`));
      if (chat.isStream && response.statusCode === 200) readStream(response, end);
      else readPlain(response, end);
    });
    request.end(body);
  });
}

type End = (error: string, outputTokens?: number) => void;

function readPlain(response: IncomingMessage, end: End): void {
  let text = "";
  response.setEncoding("utf8");
  response.on("data", (part: string) => {
    text += part;
  });
  response.on("end", () => {
    if (response.statusCode !== 200) end(`status ${response.statusCode}: ${text.slice(0, 200)}`);
    else end("", completionTokens(text));
  });
}

/** A stream is good when it ends with `[DONE]` and no event in it is an error. */
function readStream(response: IncomingMessage, end: End): void {
  let rest = "";
  let error = "";
  let tokens = Number.NaN;
  let isDone = false;
  response.setEncoding("utf8");
  response.on("data", (part: string) => {
    const lines = (rest + part).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      // The blank after the colon is optional, and TGI leaves it out.
      const [, field, value = ""] = /^(data|event): ?(.*)$/.exec(line) ?? [];
      if (field === "data" && value === "[DONE]") isDone = true;
      else if (field === "data" ? value.startsWith('{"error"') : value === "error") error ||= value.slice(0, 200);
      else if (value.includes('"completion_tokens"')) tokens = completionTokens(value);
    }
  });
  response.on("end", () => {
    if (error !== "") end(`error event: ${error}`);
    else if (!isDone) end("stream ended without [DONE]");
    else end("", tokens);
  });
}

function completionTokens(text: string): number {
  return Number(/"completion_tokens":\s*(\d+)/.exec(text)?.[1] ?? Number.NaN);
}
