import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { prepareScenario, runPolicy } from "../run-scenario.ts";
import { parseScenario } from "../scenario.ts";
import { readPrices } from "./read-prices.ts";

const folder = mkdtempSync(join(tmpdir(), "zml-prices-"));
after(() => rmSync(folder, { recursive: true }));

const HEAD = "snapshot_date,provider,region,gpu_type,is_spot,price_per_gpu_hour_usd,sample_rows";
const query = { provider: "aws", region: "us-east-1", gpu: "H100", isSpot: true };

function fileOf(lines: readonly string[], head = HEAD): string {
  const path = join(folder, "prices.csv");
  writeFileSync(path, `${[head, ...lines].join("\n")}\n`);
  return path;
}

it("prices are told from the right lines, in days", () => {
  const path = fileOf([
    "2026-05-28,aws,us-east-1,H100,1,2.5,3",
    "2026-05-28,aws,us-east-1,H100,0,9.5,3",
    "2026-05-29,azure,us-east-1,H100,1,7,3",
    "2026-05-30,aws,us-east-1,H100,1,3.5,3",
  ]);
  assert.deepEqual(readPrices(path, query), [
    { day: 0, usdPerGpuHour: 2.5 },
    { day: 2, usdPerGpuHour: 3.5 },
  ]);
});

it("what makes no sense is refused with its line", () => {
  const refused = (lines: readonly string[], head?: string) => () => readPrices(fileOf(lines, head), query);
  assert.throws(refused(["2026-05-28,aws,us-east-1,H100,1,-2,3"]), /prices\.csv:2: price_per_gpu_hour_usd is -2/);
  assert.throws(refused(["soon,aws,us-east-1,H100,1,2,3"]), /:2: snapshot_date is no day: "soon"/);
  assert.throws(
    refused(["2026-05-28,aws,us-east-1,H100,1,2,3", "2026-05-27,aws,us-east-1,H100,1,2,3"]),
    /:3: snapshot_date is not after/,
  );
  assert.throws(refused(["2026-05-28,aws,us-east-1,A10,1,2,3"]), /no price of H100 at aws us-east-1, spot/);
  assert.throws(refused(["2026-05-28,aws"], "snapshot_date,provider"), /:1: no column region/);
  assert.throws(() => readPrices(join(folder, "none.csv"), query), /can't be read: ENOENT/);
});

it("a scenario replays them on its own scale of time, and bills them", () => {
  fileOf(["2026-05-28,aws,us-east-1,H100,1,2,3", "2026-05-29,aws,us-east-1,H100,1,40,3"]);
  const replay = {
    kind: "replay",
    file: "prices.csv",
    provider: "aws",
    region: "us-east-1",
    gpu: "H100",
    is_spot: true,
  };
  const usdOf = (dayS: number) => {
    const parsed = parseScenario({
      fleet: [{ family: "H100", hardware: "H100-SXM-80GB/llama-3-8b/bf16/1", usd_per_hour: 1 }],
      workload: { rps: 5, duration_s: 20 },
      prices: [{ ...replay, day_s: dayS, gpus: 2 }],
    });
    assert.ok("scenario" in parsed, JSON.stringify(parsed));
    const report = runPolicy(prepareScenario(parsed.scenario, folder), "WLR");
    return report.busy_usd / (report.nodes[0]?.busy_share ?? 0);
  };
  // two GPUs: 4 USD/h all the time, or 4 for 10 s and 80 for the rest, which is 10 s and what the last answers take
  const ratio = usdOf(10) / usdOf(1_000);
  assert.ok(ratio > 9 && ratio < 16, `${ratio}`);
});
