/** A file of kept decisions with as many made records as wanted: a day of one model on two families of nodes. */

import {
  COST_PRIORITIES,
  ENDPOINTS,
  EVIDENCE_SHAPE,
  HINT_USES,
  OUTCOMES,
  POLICY_SOURCES,
  type PolicyData,
  REASONS,
} from "@zml/engine";
import { ColumnWriter } from "../../packages/gateway/src/evidence/kept/decision-columns.ts";
import { DecisionDatabase } from "../../packages/gateway/src/evidence/kept/decision-database.ts";
import { encodeFleetState } from "../../packages/gateway/src/evidence/kept/fleet-state.ts";
import { seededRandom } from "../../packages/simulator/src/seeded-random.ts";

export interface MadeRecords {
  readonly records: number;
  readonly nodes: number;
  /** Unix ms of the first arrival. */
  readonly fromMs: number;
  readonly lengthMs: number;
}

const FAMILIES = ["H100", "MI300X"];
const CHUNK = 1_024;
/** How long the made nodes take. */
const FIRST_MS = [40, 60];
const TOKEN_MS = [9, 12];
const PROMPT_TOKEN_MS = 0.02;
const TOKENS_PER_SECOND = [6_000, 4_000];
const USD_PER_HOUR = [3, 2];

export const MADE_POLICY: PolicyData = {
  account: "default",
  name: "chat",
  index: 0,
  chain: [
    { family: 0, priority: 1 },
    { family: 1, priority: 1 },
  ],
  latencyTargetMs: 8_000,
  ttftTargetMs: Number.NaN,
  tokenTargetMs: Number.NaN,
  costPriority: "balanced",
  estimator: "predictive",
  queueOnSaturation: true,
  maxQueueMs: 30_000,
  acceptableWaiting: 4,
};

/** Writes them. */
export function makeRecords(path: string, { records, nodes, fromMs, lengthMs }: MadeRecords): void {
  const database = new DecisionDatabase(path);
  const random = seededRandom(7);
  const originMs = fromMs - 3_600_000;
  const run = database.addRun({ originMs, tail: 1 });
  database.addNames(run, [
    { kind: "models", index: 0, scope: "default", name: "m" },
    { kind: "policies", index: 0, scope: "default", name: "chat" },
    ...FAMILIES.map((name, index) => ({ kind: "families" as const, index, scope: "", name })),
    ...Array.from({ length: nodes }, (_, index) => ({
      kind: "identities" as const,
      index,
      scope: `http://node-${index}:8000`,
      name: `node-${index}`,
    })),
  ]);
  database.addFleetState(
    run,
    originMs,
    encodeFleetState({
      version: 1,
      families: FAMILIES,
      nodes: Array.from({ length: nodes }, (_, identity) => ({
        identity,
        id: `node-${identity}`,
        account: "default",
        family: identity % 2,
        gpus: 1,
        state: 1,
        usdPerHour: USD_PER_HOUR[identity % 2] as number,
        maxInFlight: 320,
        concurrencyLimit: 256,
        models: [{ model: 0, kvCapacityTokens: 500_000, contextTokens: 32_768 }],
      })),
      models: [{ index: 0, account: "default", name: "m", policy: "chat" }],
      policies: [MADE_POLICY],
      accounts: [{ name: "default", defaultPolicy: null }],
      pollEveryMs: 5_000,
      failover: { maxAttempts: 3, windowMs: 30_000, retryBudget: 0.2 },
    }),
  );
  const writer = new ColumnWriter(CHUNK);
  const { cells } = writer;
  const n = (name: (typeof EVIDENCE_SHAPE.numbers)[number], value: number) => {
    cells.numbers[EVIDENCE_SHAPE.numbers.indexOf(name)] = value;
  };
  const i = (name: (typeof EVIDENCE_SHAPE.integers)[number], value: number) => {
    cells.integers[EVIDENCE_SHAPE.integers.indexOf(name)] = value;
  };
  for (const name of EVIDENCE_SHAPE.numbers) n(name, Number.NaN);
  i("directoryVersion", 1);
  i("policySource", POLICY_SOURCES.indexOf("model"));
  i("costPriority", COST_PRIORITIES.indexOf("balanced"));
  i("hintFamily", -1);
  i("hint", HINT_USES.indexOf("none"));
  i("endpoint", ENDPOINTS.indexOf("chat_completions"));
  i("reason", REASONS.indexOf("best_balance"));
  i("answers", 1);
  i("key", -1);
  i("attempt", 1);
  i("previous", -1);
  i("families", 2);
  i("outcome", OUTCOMES.indexOf("success"));
  i("status", 200);
  i("fault", -1);
  cells.families = 2;
  cells.familyIntegers.set([0, 0, nodes / 2, 0, 1, 0, nodes / 2, 1]);
  for (let record = 0; record < records; record++) {
    const atMs = fromMs - originMs + (record / records) * lengthMs + random();
    const node = Math.floor(random() * nodes);
    const family = node % 2;
    const prompt = 50 + Math.floor(-Math.log(1 - random()) * 600);
    const output = 1 + Math.floor(-Math.log(1 - random()) * 200);
    const isStream = random() < 0.7;
    const firstMs = (FIRST_MS[family] as number) * (0.8 + 0.4 * random()) + prompt * PROMPT_TOKEN_MS;
    const durationMs = firstMs + (output - 1) * (TOKEN_MS[family] as number) * (0.95 + 0.1 * random());
    n("decidedAtMs", atMs);
    n("admittedAtMs", atMs);
    n("latencyTargetMs", 8_000);
    n("promptTokens", prompt);
    n("promptTokensAtLeast", 0);
    n("estimateMs", durationMs);
    n("costUsd", 1e-4);
    n("expectedTokens", 200);
    n("priceUsdPerHour", USD_PER_HOUR[family] as number);
    n("tokensPerSecond", TOKENS_PER_SECOND[family] as number);
    n("firstByteMs", firstMs);
    n("firstTokenMs", isStream ? firstMs : Number.NaN);
    n("durationMs", durationMs);
    n("reportedPromptTokens", prompt);
    n("reportedOutputTokens", output);
    n("spentUsd", ((USD_PER_HOUR[family] as number) * output) / (TOKENS_PER_SECOND[family] as number) / 3600);
    i("isStream", isStream ? 1 : 0);
    i("identity", node);
    i("family", family);
    writer.take(record);
    if (!writer.isFull && record + 1 < records) continue;
    database.write(() => database.addChunk({ id: run, originMs }, 0, writer.columns()));
    writer.clear();
  }
  database.close();
}
