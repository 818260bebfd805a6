// docs/operations/add-a-family.md, from its first line to its last, against fake engines on real sockets.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fakeNode } from "../packages/gateway/test/control-fixture.ts";
import { SOURCE, setUp } from "../python/test/python-run.ts";
import { serve } from "./page-gateway.ts";
import { runPage } from "./page-shell.ts";

const setting = await setUp();

test("docs: a family is added to a running gateway in three changes, and the same client.infer() call lands on it", async (t) => {
  const model = "llama-3-8b";
  const nodes = [
    await fakeNode(t, { model }),
    await fakeNode(t, { model }),
    await fakeNode(t, {
      model,
      engine: "sglang",
      hardware: "MI300X-192GB/llama-3-8b/bf16/1",
      accelerator: "AMD Instinct MI300X",
      hasMetrics: true,
    }),
  ];
  const addresses = ["http://10.0.0.11:8000", "http://10.0.0.12:8000", "http://10.0.0.21:8000"];
  const folder = join(setting.scratch, "family");
  mkdirSync(folder);
  const replaced = (text: string, pairs: readonly (readonly [string, string])[]): string =>
    pairs.reduce((whole, [from, to]) => whole.replaceAll(from, to), text);
  const pairs = addresses.map((address, index) => [address, nodes[index]?.url ?? ""] as const);
  let starts = 0;
  await runPage("docs/operations/add-a-family.md", {
    folder,
    python: setting.environment.python,
    env: { PYTHONPATH: SOURCE },
    local: (text) => replaced(text, pairs),
    shown: (text) =>
      replaced(
        text,
        pairs.map(([address, url]) => [url, address] as const),
      ),
    async serve(line) {
      starts += 1;
      const path = join(folder, "zml.yaml");
      // ports that are free, and polls that find a new node before the reader has typed the next line
      const ports = readFileSync(path, "utf8").replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:0");
      writeFileSync(path, `${ports}workers: 2\nhealth: { poll_interval_ms: 500 }\n`);
      const { dataUrl, adminUrl } = await serve(t, line, folder);
      return { ZML_BASE_URL: dataUrl, ZML_ADMIN_URL: adminUrl };
    },
  });
  assert.equal(starts, 1, "nothing was started again");
});
