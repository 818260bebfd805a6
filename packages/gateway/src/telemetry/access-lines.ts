/** Requests as lines of the access log. */

import { createLineLog, type LogFormat, lineAsText } from "./log-lines.ts";
import type { RequestRecord } from "./request-record.ts";

/** @returns whole lines, one per request, without a secret. What is not known has no field. */
export function accessLines(
  records: readonly RequestRecord[],
  { unixOriginMs, format, redact }: { unixOriginMs: number; format: LogFormat; redact: (text: string) => string },
): string {
  let text = "";
  const log = createLineLog(
    "info",
    (line) => {
      text += line;
    },
    { hasOwnTime: true },
  );
  for (const record of records) log.info(fieldsOf(record, unixOriginMs), "request");
  const clean = redact(text);
  if (format === "json") return clean;
  return clean
    .split("\n")
    .filter((line) => line !== "")
    .map(lineAsText)
    .join("");
}

function fieldsOf(record: RequestRecord, unixOriginMs: number): Record<string, unknown> {
  const { startedAtMs, endedAtMs, dispatches } = record;
  return {
    time: new Date(unixOriginMs + endedAtMs).toISOString(),
    ...stated({
      request_id: record.requestId,
      trace_id: record.traceId,
      decision: record.decision,
      method: record.method,
      route: record.route,
      http_version: record.httpVersion === 2 ? "2" : "1.1",
      client_address: record.clientAddress,
      account: record.account,
      key: record.key,
    }),
    status: record.status,
    outcome: record.outcome,
    ...stated({
      code: record.code,
      model: record.model,
      policy: record.policy,
      family: record.family,
      node: record.node,
      reason: record.reason,
    }),
    stream: record.isStream,
    redispatches: Math.max(0, dispatches - 1),
    ...known({ input_tokens: record.promptTokens, output_tokens: record.outputTokens }, 0),
    ...known(
      {
        decide_ms: record.decideMs,
        wait_ms: record.waitedMs,
        ttft_ms: record.firstTokenMs,
        duration_ms: endedAtMs - startedAtMs,
      },
      3,
    ),
  };
}

function stated(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== ""));
}

/** @param digits behind the point. */
function known(numbers: Readonly<Record<string, number>>, digits: number): Record<string, number> {
  const entries = Object.entries(numbers).filter(([, value]) => !Number.isNaN(value));
  return Object.fromEntries(entries.map(([name, value]) => [name, Number(value.toFixed(digits))]));
}
