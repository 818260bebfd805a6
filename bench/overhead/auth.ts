/**
 * What a key and limits add to a request: CPU time of a gateway that asks for a key and counts every limit there is,
 * less that of one that does neither, round by round in turn. Beside it the same steps alone, in a loop of this process.
 */

import {
  chargeCost,
  closeAllowance,
  createLimitsTable,
  holdCost,
  isRefusedAllowance,
  takeAllowance,
  writeLimits,
} from "@zml/engine";
import { CallerKeys } from "../../packages/gateway/src/admission/authenticate.ts";
import { limitLines } from "../../packages/gateway/src/admission/limit-answer.ts";
import { keyDigest, PROCESS_PEPPER } from "../../packages/gateway/src/config/key-digest.ts";
import { benchConfig, type Measured, startGatewayProcess } from "../processes.ts";
import type { Figure } from "../report.ts";
import { chatBody, requestBytes, runLoad } from "./load.ts";

/** A key as the gateway makes them: `zml_` and 43 characters. */
const KEY = `zml_${"k".repeat(43)}`;
/** Short turns, so that both meet the same machine; over all of them the kernel's steps of 10 ms are 0.1 µs an answer. */
const TURNS = 50;
const ANSWERS = 2_000;
const WARM_UP_TURNS = 4;
const CONNECTIONS = 64;

/** Everything that can be limited, far above what the bench asks for. */
const LIMITS =
  "{ requests_per_minute: 100000000, tokens_per_minute: 100000000, concurrent_requests: 1000000, " +
  "budget_usd_per_day: 1000000, budget_usd_per_month: 1000000 }";

/** @param nodePort of the node behind both. Takes a minute. */
export async function measureAuth(nodePort: number, say: (line: string) => void): Promise<Figure[]> {
  process.env["ZML_BENCH_KEY"] = KEY;
  const open = await startGatewayProcess(benchConfig(nodePort));
  const guarded = await startGatewayProcess(
    `${benchConfig(nodePort)}accounts: [{ name: default, limits: ${LIMITS} }]\n` +
      `keys: [{ name: bench, value_env: ZML_BENCH_KEY, models: [bench], policies: [zml-default], limits: ${LIMITS} }]\n`,
  );
  try {
    const sums = { open: 0, guarded: 0 };
    for (let turn = -WARM_UP_TURNS; turn < TURNS; turn++) {
      const openUs = await cpuUsPerAnswer(open, false);
      const guardedUs = await cpuUsPerAnswer(guarded, true);
      if (turn < 0) continue;
      sums.open += openUs / TURNS;
      sums.guarded += guardedUs / TURNS;
    }
    say(`auth: ${sums.open.toFixed(1)} µs without, ${sums.guarded.toFixed(1)} µs with\n`);
    return [
      { name: "auth_us", value: stepsUs(), unit: "us" },
      { name: "auth_added_us{case=chat_1kb}", value: sums.guarded - sums.open, unit: "us" },
    ];
  } finally {
    await Promise.all([open.stop(), guarded.stop()]);
  }
}

async function cpuUsPerAnswer(gateway: Measured, withKey: boolean): Promise<number> {
  const fields = withKey ? { authorization: `Bearer ${KEY}` } : {};
  const request = requestBytes(gateway.port, chatBody("plain", 1024), fields);
  const before = gateway.cpuUs();
  const { answers, failures } = await runLoad({
    port: gateway.port,
    connections: CONNECTIONS,
    total: ANSWERS,
    request,
  });
  if (failures > 0) throw new Error(`${failures} of ${ANSWERS} requests failed: the figure would mean nothing`);
  return (gateway.cpuUs() - before) / answers;
}

const LOOPS = 200_000;

/** Key, limits of key and account, and their header fields; µs for one request. */
function stepsUs(): number {
  const table = createLimitsTable({ rows: 2, workers: 3 });
  const limits = {
    requestsPerMinute: 100_000_000,
    tokensPerMinute: 100_000_000,
    concurrentRequests: 1_000_000,
    budgetUsdPerDay: 1e6,
    budgetUsdPerMonth: 1e6,
  };
  for (const row of [0, 1]) writeLimits(table, row, limits);
  const keys = new CallerKeys({
    pepper: PROCESS_PEPPER,
    list: [
      {
        ...{ name: "bench", account: "default", scopes: ["infer"], models: null, policies: null },
        ...{ expiresAtMs: Number.POSITIVE_INFINITY, digest: keyDigest(PROCESS_PEPPER, KEY), limitRow: 0 },
        index: -1,
      },
    ],
    accountRows: { default: 1 },
  });
  const rawHeaders = ["host", "x", "content-type", "application/json", "content-length", "1024"];
  rawHeaders.push("user-agent", "bench", "accept", "*/*", "Authorization", `Bearer ${KEY}`);
  let fields = 0;
  const loop = (loops: number) => {
    for (let index = 0; index < loops; index++) {
      const nowMs = index / 10;
      const caller = keys.identify(rawHeaders);
      if (caller.kind !== "known") throw new Error("the key is known");
      const taken = takeAllowance(table, 0, caller.rights.rows, { tokens: 200, nowMs });
      if (isRefusedAllowance(taken)) throw new Error("the limits are far off");
      fields += limitLines(taken, "openai", nowMs).length;
      holdCost(table, 0, taken, 0.001);
      holdCost(table, 0, taken, 0);
      chargeCost(table, 0, taken, 0.001);
      closeAllowance(table, 0, taken, { usedTokens: 150, nowMs });
    }
  };
  loop(LOOPS / 4);
  const before = process.cpuUsage();
  loop(LOOPS);
  if (fields === 0) throw new Error("a caller with limits is told about them");
  const { user, system } = process.cpuUsage(before);
  return (user + system) / LOOPS;
}
