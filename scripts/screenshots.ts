// Pictures of the dashboard for the docs: docs/images/*.png, of a small fleet with traffic, a node that fails and a node
// that is down. Needs Chromium. `node scripts/screenshots.ts [FOLDER]`.
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { chromium } from "playwright-core";
import { chat, fakeNode, type Owner, startOn } from "../packages/gateway/test/control-fixture.ts";

const outDir = resolve(process.argv[2] ?? join(import.meta.dirname, "..", "docs", "images"));
const FAMILIES = ["H100", "MI300X", "L40S"];
const PRICES = [3.2, 2.1, 0.9];
const PAGES = ["overview", "availability", "cost", "dispatch", "failover", "decisions", "what-if", "policies"];
/** Long enough for a chart to have a line: samples come each five seconds. */
const TRAFFIC_MS = 40_000;

const endings: (() => unknown)[] = [];
const owner: Owner = { after: (end) => endings.unshift(end) };
try {
  mkdirSync(outDir, { recursive: true });
  const nodes = await Promise.all(
    FAMILIES.flatMap((family, index) =>
      [1, 2].map(async (number) => ({
        family,
        id: `${family.toLowerCase()}-${number}`,
        index,
        node: await fakeNode(owner, { model: "llama3-70b", speedUp: 4, outputTokens: 40 }),
      })),
    ),
  );
  const { gateway } = await startOn(
    owner,
    `data: { listen: 127.0.0.1:0 }
admin: { listen: 127.0.0.1:0 }
failover: { cooldown_ms: 20000 }
nodes:
${nodes.map(({ id, family, index, node }) => `  - { id: ${id}, url: "${node.url}", family: ${family}, models: [llama3-70b], max_in_flight: 16, cost: { usd_per_gpu_hour: ${PRICES[index]} } }`).join("\n")}
policies:
  - name: batch
    accelerator_preference: [{ family: L40S, priority: 1 }, { family: MI300X, priority: 1 }, { family: H100, priority: 2 }]
    latency_target_ms: 8000
    cost_priority: cost
  - name: chat
    accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }]
    latency_target_ms: 2500
    cost_priority: balanced
models: [{ name: llama3-70b, policy: batch }]
`,
  );
  const ask = (policy: string): void => {
    chat(gateway, { model: "llama3-70b", stream: true, policy }).then(
      (response) => response.text(),
      () => {},
    );
  };
  let turn = 0;
  const traffic = setInterval(() => ask(turn++ % 3 === 0 ? "chat" : "batch"), 60);
  owner.after(() => clearInterval(traffic));
  await wait(TRAFFIC_MS / 2);
  nodes[3]?.node.faults.status(500, '{"error":{"message":"out of memory","type":"x","param":null,"code":500}}');
  await wait(TRAFFIC_MS / 2);

  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  owner.after(() => browser.close());
  for (const colorScheme of ["light", "dark"] as const) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme });
    const page = await context.newPage();
    for (const name of colorScheme === "light" ? PAGES : ["overview"]) {
      await page.goto(`${gateway.adminUrl}/#/${name}`);
      // rates are of the last seconds
      await wait(6_000);
      if (name === "decisions") {
        await page.locator("tbody a").first().click();
        await page.locator(".story").waitFor();
      }
      if (name === "what-if") {
        await page.getByLabel("Model").fill("llama3-70b");
        await page.getByLabel("L40S, USD per GPU-hour").fill("9");
        await page.getByRole("button", { name: "Decide" }).click();
        await page.locator(".story").first().waitFor();
      }
      await page.screenshot({ path: join(outDir, colorScheme === "light" ? `${name}.png` : `${name}-dark.png`) });
    }
    await context.close();
  }
} finally {
  for (const end of endings) await end();
}
