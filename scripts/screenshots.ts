// Pictures of the dashboard for the docs: docs/images/*.png, of a small fleet with traffic, prices that change, a node that
// fails and a node that is down. Needs Chromium; ImageMagick's convert, where it is there, makes the files a third as
// large. `node scripts/screenshots.ts [FOLDER]`.
import { spawnSync } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { chromium, type Page } from "playwright-core";
import { priceServer } from "../packages/gateway/src/cost/testing/price-server.ts";
import { chat, fakeNode, folder, type Owner, startOn } from "../packages/gateway/test/control-fixture.ts";
import { buildDashboard } from "./dashboard-pages.ts";

const outDir = resolve(process.argv[2] ?? join(import.meta.dirname, "..", "docs", "images"));
/** Family, fake hardware, price, and how much faster than real. */
const KINDS = [
  ["H100", "H100-SXM-80GB/llama-3-8b/bf16/1", 3.2],
  ["MI300X", "MI300X-192GB/llama-3-8b/bf16/1", 2.1],
  ["L40S", "L40S-48GB/llama-3-8b/fp8/1", 0.9],
] as const;
const SPEED_UP = 4;
/** Long enough for a chart to have a line: samples come each five seconds. */
const TRAFFIC_MS = 90_000;
/** Rates are of the last seconds. */
const SETTLE_MS = 7_000;
/** Until what is scrolled to has been drawn. */
const SCROLLED_MS = 1_000;
const BYTES_MAX = 200_000;
/** A minute of traffic is replayed in seconds; it goes behind everything else. */
const REPLAY_MS = 120_000;
const DRAFT = {
  name: "batch",
  accelerator_preference: [{ family: "L40S", priority: 1 }],
  latency_target_ms: 8000,
  cost_priority: "cost",
};

const endings: (() => unknown)[] = [];
const owner: Owner = { after: (end) => endings.unshift(end) };
try {
  mkdirSync(outDir, { recursive: true });
  await buildDashboard();
  let turn = 0;
  const list = (): string =>
    `region,instance_type,market,usd_per_gpu_hour\n${KINDS.map(([family, , price], index) => `east,${family},spot,${(price * (1 + 0.12 * Math.sin(turn++ / (3 + index)))).toFixed(2)}`).join("\n")}\n`;
  const prices = await priceServer(owner as Parameters<typeof priceServer>[0], () => ({ body: list() }));
  const nodes = await Promise.all(
    KINDS.flatMap(([family, hardware]) =>
      [1, 2].map(async (number) => ({
        family,
        id: `${family.toLowerCase()}-${number}`,
        node: await fakeNode(owner, { model: "llama3-70b", hardware, speedUp: SPEED_UP, outputTokens: 60 }),
      })),
    ),
  );
  const { gateway } = await startOn(
    owner,
    `data: { listen: 127.0.0.1:0 }
admin: { listen: 127.0.0.1:0 }
failover: { cooldown_ms: 20000 }
evidence: { keep: {} }
prices: { feeds: [{ name: spot, provider: url, url: "${prices.url}/list", interval_ms: 6000 }] }
nodes:
${nodes.map(({ id, family, node }) => `  - { id: ${id}, url: "${node.url}", family: ${family}, models: [llama3-70b], max_in_flight: 24, cost: { price: spot/east/${family}/spot } }`).join("\n")}
policies:
  - name: batch
    accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 1 }, { family: L40S, priority: 1 }]
    latency_target_ms: 8000
    cost_priority: cost
  - name: search
    accelerator_preference: [{ family: MI300X, priority: 1 }, { family: L40S, priority: 2 }]
    latency_target_ms: 4000
    cost_priority: latency
  - name: drafts
    accelerator_preference: [{ family: L40S, priority: 1 }]
    cost_priority: cost
  - name: chat
    accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }]
    latency_target_ms: 2500
    cost_priority: balanced
models: [{ name: llama3-70b, policy: batch }]
`,
    { productVersion: "unknown", storeFolder: folder(owner) },
  );
  const ask = (policy: string): void => {
    chat(gateway, { model: "llama3-70b", stream: true, policy, stream_options: { include_usage: true } }).then(
      (response) => response.text(),
      () => {},
    );
  };
  let sent = 0;
  const MIX = ["chat", "batch", "search", "batch", "drafts", "chat", "search"];
  const traffic = setInterval(() => ask(MIX[sent++ % MIX.length] ?? "batch"), 60);
  owner.after(() => clearInterval(traffic));
  await wait(TRAFFIC_MS / 2);
  nodes[3]?.node.faults.status(500, '{"error":{"message":"out of memory","type":"x","param":null,"code":500}}');
  await wait(TRAFFIC_MS / 2);
  await fetch(`${gateway.adminUrl}/admin/v1/apply`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      policies: [
        {
          name: "night",
          accelerator_preference: [
            { family: "L40S", priority: 1 },
            { family: "MI300X", priority: 2 },
          ],
          cost_priority: "cost",
          queue_on_saturation: true,
          max_queue_ms: 60_000,
        },
      ],
    }),
  });

  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  owner.after(() => browser.close());

  /** What is done on a page before its picture is taken. */
  const before: Readonly<Record<string, (page: Page) => Promise<void>>> = {
    decisions: async (page) => {
      await page.goto(`${gateway.adminUrl}/#/decisions?redispatched=true`);
      await page.locator("tbody a").first().click();
      await page.getByText("Families in the order of the chain").waitFor();
    },
    "what-if": async (page) => {
      await page.getByLabel("H100, USD per GPU-hour").fill("0.10");
      await page.getByRole("button", { name: "Decide" }).click();
      await page.getByText("It would go to").waitFor();
    },
    "back-test": async (page) => {
      await page.getByLabel("Traffic of").selectOption("3600");
      await page.getByLabel("The draft, as JSON").fill(JSON.stringify(DRAFT, null, 2));
      await page.getByRole("button", { name: "Replay" }).click();
      await page.getByRole("heading", { name: "Draft beside what is in force" }).waitFor({ timeout: REPLAY_MS });
      await page.evaluate(
        "[...document.querySelectorAll('h2')].find((title) => title.textContent.startsWith('How far')).closest('.card').scrollIntoView(); scrollBy(0, -16)",
      );
      await wait(SCROLLED_MS);
    },
    policies: async (page) => {
      await page.getByRole("link", { name: /^night/ }).click();
      await page.getByLabel("Longest wait, ms").fill("90000");
      await page.getByRole("button", { name: "Check" }).click();
      await page.getByRole("status").last().waitFor();
    },
  };
  const shoot = async (page: Page, name: string, file: string): Promise<void> => {
    await page.goto(`${gateway.adminUrl}/#/${name}`);
    await wait(SETTLE_MS);
    await before[name]?.(page);
    const path = join(outDir, file);
    await page.screenshot({ path });
    spawnSync("convert", [path, "-strip", "+dither", "-colors", "128", "-define", "png:compression-level=9", path]);
    const bytes = statSync(path).size;
    if (bytes > BYTES_MAX) throw new Error(`${file} has ${bytes} bytes, more than ${BYTES_MAX}`);
  };
  const desk = { viewport: { width: 1280, height: 860 } };
  const light = await browser.newPage({ ...desk, colorScheme: "light" });
  for (const name of [
    "overview",
    "admission",
    "availability",
    "cost",
    "dispatch",
    "failover",
    "decisions",
    "what-if",
    "back-test",
    "policies",
  ]) {
    await shoot(light, name, `${name}.png`);
  }
  const dark = await browser.newPage({ ...desk, colorScheme: "dark" });
  await shoot(dark, "overview", "overview-dark.png");
  const phone = await browser.newPage({
    viewport: { width: 390, height: 844 },
    colorScheme: "dark",
    // without the room that a scrollbar of a desk takes
    isMobile: true,
    hasTouch: true,
  });
  await shoot(phone, "overview", "overview-phone.png");
  await shoot(phone, "back-test", "back-test-phone.png");
} finally {
  for (const end of endings) await end();
}
