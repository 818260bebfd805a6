/** Judgements about the models of a node: whether it serves them, and how long a request they take. Pure. */

import type { ServedModel } from "@zml/protocol";
import type { ReportedModel } from "../availability/adapters/index.ts";
import { type AskedModel, type Findings, type Level, type Point, point } from "./check-nodes-findings.ts";
import type { Polled } from "./check-nodes-poll.ts";
import { counted, numberText } from "./nodes-words.ts";

/** One or two for each model that was asked, or one that says why there is none. */
export function modelPoints({ config, models, unasked }: Findings, polled: Polled): Point[] {
  const listed = polled.reading.models;
  if (models.length === 0) {
    const status = polled.result.responses.models?.status ?? Number.NaN;
    const isKeyWanted = status === 401 || status === 403;
    const text = isKeyWanted
      ? `its list of models asks for a key (${status})`
      : "it lists no model, and the file states none";
    return [
      point(
        "model",
        "red",
        text,
        isKeyWanted ? "name the key's variable in api_key_env" : "list what it serves under models on the node",
      ),
    ];
  }
  const points = models.flatMap((model) => {
    const reported = listed?.find(({ id }) => id === model.served.upstreamModel);
    const answer = answerPoint(model, { listed, adapter: polled.engine ?? "custom" });
    return answer.level === "red" ? [answer] : [answer, contextPoint(model.served, reported ?? null)];
  });
  if (unasked === 0) return points;
  const advice = config.models === null ? "list those to check under models on the node" : null;
  return [...points, point("model", "yellow", `${counted(unasked, "model")} more were not asked`, advice)];
}

function answerPoint(
  { served, asked }: AskedModel,
  { listed, adapter }: { listed: readonly ReportedModel[] | null; adapter: string },
): Point {
  const { name, upstreamModel } = served;
  const of = (level: Level, text: string, advice: string | null = null): Point => ({
    ...point("model", level, text, advice),
    model: name,
  });
  const isListed = listed === null || listed.some(({ id }) => id === upstreamModel);
  const names =
    listed === null || listed.length === 0
      ? ""
      : `: it lists ${listed
          .slice(0, 3)
          .map(({ id }) => id)
          .join(", ")}${listed.length > 3 ? ", …" : ""}`;
  const { verdict, status, problem } = asked;
  if (verdict === "success") {
    const speed = Number.isNaN(asked.tokensPerSecond) ? "" : `, ${numberText(asked.tokensPerSecond)} tokens/s`;
    const tokens = Number.isNaN(asked.tokens) ? "" : `, ${counted(asked.tokens, "token")}`;
    const first = Number.isNaN(asked.firstMs)
      ? "no text"
      : `${tokens === "" ? "answer" : "first token"} after ${asked.firstMs.toFixed(0)} ms`;
    const text = `${asked.endpoint} answers: ${first}${tokens}${speed}`;
    if (isListed) return of("green", text);
    return of(
      "yellow",
      `${text}, although ${upstreamModel} is not in its list${names}`,
      `${adapter} may answer any name: set upstream_model to the name in its list`,
    );
  }
  if (status === 401 || status === 403)
    return of(
      "red",
      `it refuses the key (${status}): ${problem}`,
      "name the key's variable in api_key_env, and look at its value",
    );
  if (verdict === "overloaded")
    return of("yellow", `it is full (${status}): ${problem}`, "ask again when it is calmer");
  if (!isListed || status === 404) {
    return of(
      "red",
      `it does not serve ${upstreamModel} (${Number.isNaN(status) ? problem : status})${names}`,
      "set upstream_model to the name in its list, or load the model there",
    );
  }
  if (Number.isNaN(status))
    return of("red", `no answer: ${problem}`, "look into the engine's log, or give it more time with --timeout-ms");
  return of("red", `${asked.endpoint} failed (${status}): ${problem}`, "look into the engine's log");
}

function contextPoint({ name, contextTokens: stated }: ServedModel, reported: ReportedModel | null): Point {
  const of = (level: Level, text: string, advice: string | null = null): Point => ({
    ...point("context", level, text, advice),
    model: name,
  });
  const told = reported?.contextTokens ?? Number.NaN;
  if (!Number.isNaN(stated) && told < stated) {
    return of(
      "red",
      `${stated} tokens are stated, and the node takes ${told}`,
      "correct context_tokens, or start the engine with more",
    );
  }
  if (!Number.isNaN(stated))
    return of("green", `${stated} tokens, as stated${Number.isNaN(told) ? "" : `; the node takes ${told}`}`);
  if (!Number.isNaN(told)) return of("green", `${told} tokens`);
  return of(
    "yellow",
    "its context is not known: requests that are too long are sent there and refused",
    "state context_tokens of the model on the node",
  );
}
