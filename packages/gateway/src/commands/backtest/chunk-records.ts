/** The kept records of a chunk, one after the other, as far as a back-test reads them. */

import { ENDPOINTS } from "@zml/engine";
import type { ColumnReader } from "../../evidence/kept/decision-columns.ts";

/** A record. Indexes are those of its run, -1: none; times are ms; NaN: unknown, also where a chunk lacks the column. */
export interface ChunkRecord {
  readonly sequence: number;
  /** Since the run began. */
  readonly admittedAtMs: number;
  readonly decidedAtMs: number;
  readonly model: number;
  readonly policy: number;
  /** Of the node that was chosen. */
  readonly identity: number;
  /** Index into ENDPOINTS. */
  readonly endpoint: number;
  readonly isStream: boolean;
  readonly hasImages: boolean;
  readonly hint: number;
  readonly answers: number;
  readonly costPriority: string | undefined;
  readonly latencyTargetMs: number;
  readonly estimatedTokens: number;
  readonly atLeastTokens: number;
  readonly maxTokens: number;
  readonly tokensPerSecond: number;
  readonly priceUsdPerHour: number;
  readonly predictedFirstMs: number;
  readonly predictedTokenMs: number;
  /** Sequence of the attempt before, -1: the first one. */
  readonly previous: number;
  readonly outcome: string;
  /** HTTP status; -1: no answer came. */
  readonly status: number;
  readonly firstMs: number;
  readonly durationMs: number;
  /** As the node told it, without what its prefix cache held: that was no work, and is taken to be none elsewhere either. */
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly usd: number;
}

export function* recordsOf(columns: ColumnReader): Generator<ChunkRecord> {
  const { head, sequences } = columns.columns;
  const number = (name: string) => columns.number(name) ?? new Float64Array(head.count).fill(Number.NaN);
  const integer = (name: string, otherwise = -1) => columns.integer(name) ?? new Int32Array(head.count).fill(otherwise);
  const [admittedAt, decidedAt, target] = [number("admittedAtMs"), number("decidedAtMs"), number("latencyTargetMs")];
  const [estimated, atLeast, max] = [number("promptTokens"), number("promptTokensAtLeast"), number("maxTokens")];
  const [speed, first, duration] = [number("tokensPerSecond"), number("firstTokenMs"), number("durationMs")];
  const price = number("priceUsdPerHour");
  const [prompt, cached] = [number("reportedPromptTokens"), number("reportedCachedTokens")];
  const [output, spent] = [number("reportedOutputTokens"), number("spentUsd")];
  const [predictedFirst, predictedToken] = [number("estimateFirstMs"), number("estimateTokenMs")];
  const [models, policies, identities] = [integer("model"), integer("policy"), integer("identity")];
  const [endpoints, streams, images] = [integer("endpoint"), integer("isStream"), integer("hasImages")];
  const [hints, answers, previous] = [integer("hintFamily"), integer("answers", 1), integer("previous")];
  const [outcomes, statuses, priorities] = [integer("outcome"), integer("status"), integer("costPriority")];
  const endpointOf = head.lists.endpoint.map((name) => (ENDPOINTS as readonly string[]).indexOf(name));
  for (let index = 0; index < head.count; index++) {
    const told = prompt[index] as number;
    const found = cached[index] as number;
    yield {
      sequence: sequences[index] as number,
      admittedAtMs: admittedAt[index] as number,
      decidedAtMs: decidedAt[index] as number,
      model: models[index] as number,
      policy: policies[index] as number,
      identity: identities[index] as number,
      endpoint: endpointOf[endpoints[index] as number] ?? -1,
      isStream: streams[index] === 1,
      hasImages: images[index] === 1,
      hint: hints[index] as number,
      answers: answers[index] as number,
      costPriority: head.lists.costPriority[priorities[index] as number],
      latencyTargetMs: target[index] as number,
      estimatedTokens: estimated[index] as number,
      atLeastTokens: atLeast[index] as number,
      maxTokens: max[index] as number,
      tokensPerSecond: speed[index] as number,
      priceUsdPerHour: price[index] as number,
      predictedFirstMs: predictedFirst[index] as number,
      predictedTokenMs: predictedToken[index] as number,
      previous: previous[index] as number,
      outcome: head.lists.outcome[outcomes[index] as number] ?? "running",
      status: statuses[index] as number,
      firstMs: first[index] as number,
      durationMs: duration[index] as number,
      promptTokens: found > 0 ? Math.max(1, told - found) : told,
      outputTokens: output[index] as number,
      usd: spent[index] as number,
    };
  }
}
