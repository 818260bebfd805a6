/** The dashboard in a real browser, on a gateway with traffic. Screenshots of it: scripts/screenshots.ts. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, afterEach, before, type TestContext, test } from "node:test";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { buildDashboard } from "../../../scripts/dashboard-pages.ts";
import type { Gateway } from "../src/control/gateway.ts";
import { chat, decisionOf, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const DEADLINE_MS = 15_000;

const FILE = (a: string, b: string) => `${PORTS}nodes:
  - { id: h100-1, url: "${a}", family: H100, cost: { usd_per_gpu_hour: 4 }, models: [m] }
  - { id: mi300x-1, url: "${b}", family: MI300X, cost: { usd_per_gpu_hour: 2 }, models: [m] }
policies:
  - { name: cheap, accelerator_preference: [{ family: MI300X, priority: 1 }, { family: H100, priority: 2 }], latency_target_ms: 60000, cost_priority: cost }
models: [{ name: m, policy: cheap }]
`;

let browser: Browser | null = null;

before(async () => {
  await buildDashboard();
  for (const executablePath of BROWSERS) {
    browser ??= await chromium.launch({ executablePath, args: ["--no-sandbox"] }).catch(() => null);
  }
});
after(() => browser?.close());

/** What pages of the running test complained of, or asked of another origin. */
const wrong: string[] = [];
afterEach(() => assert.deepEqual(wrong.splice(0), []));

/** Skips where there is no browser. */
function theBrowser(t: TestContext): Browser | null {
  if (browser !== null) return browser;
  const hint = "no Chromium is installed: apt-get install chromium";
  assert.equal(process.env.CI, undefined, hint);
  t.skip(`left out: ${hint}`);
  return null;
}

/** A page; the test fails if it logged an error or asked another origin for anything. */
async function visit(
  t: TestContext,
  shown: Browser,
  gateway: Gateway,
  options: BrowserContextOptions = {},
): Promise<Page> {
  const context = await shown.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE_MS);
  page.on("console", (message) => {
    // the browser says so itself of each answer that is no success
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(gateway.adminUrl) && !request.url().startsWith("data:")) wrong.push(request.url());
  });
  t.after(() => context.close());
  await page.goto(`${gateway.adminUrl}/`);
  return page;
}

async function served(t: TestContext) {
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const started = await startOn(t, FILE(a.url, b.url));
  return { a, b, ...started };
}

async function go(page: Page, name: string): Promise<void> {
  await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** What axe calls serious or critical. */
async function faults(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const found = (await page.evaluate(
    "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, impact, nodes }) => ({ id, impact, html: nodes[0].html })))",
  )) as { id: string; impact: string; html: string }[];
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, html }) => `${id}: ${html}`);
}

const PAGES = [
  "Overview",
  "Admission",
  "Availability",
  "Cost",
  "Dispatch",
  "Failover",
  "Decisions",
  "What if",
  "Policies",
];

for (const colorScheme of ["light", "dark"] as const) {
  test(`every page shows the fleet's truth, ${colorScheme}, and axe finds no serious fault`, async (t) => {
    const shown = theBrowser(t);
    if (shown === null) return;
    const { gateway } = await served(t);
    const page = await visit(t, shown, gateway, { colorScheme });
    const traffic = setInterval(
      () =>
        void chat(gateway).then(
          (response) => response.text(),
          () => {},
        ),
      100,
    );
    t.after(() => clearInterval(traffic));
    await page.getByText("2 of 2").waitFor();
    await page
      .getByRole("img", { name: /cheap to MI300X/ })
      .first()
      .waitFor();
    for (const name of PAGES) {
      await go(page, name);
      assert.deepEqual(await faults(page), [], name);
    }
    await go(page, "Availability");
    await page.getByRole("row", { name: /mi300x-1 MI300X healthy/ }).waitFor();
    await go(page, "Policies");
    await page.getByRole("link", { name: "cheap" }).click();
    await page.getByText("It stands in zml.yaml, which owns it").waitFor();
  });
}

test("a decision is found, and its story is told", async (t) => {
  const shown = theBrowser(t);
  if (shown === null) return;
  const { gateway, b } = await served(t);
  b.faults.status(500, '{"error":{"message":"boom","type":"x","param":null,"code":500}}');
  const id = decisionOf(await chat(gateway));
  const page = await visit(t, shown, gateway);
  await go(page, "Decisions");
  await page.getByLabel("Decision id").fill(id);
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("h100-1 (H100): success, status 200").waitFor();
  await page.getByText("mi300x-1 (MI300X): failure, status 500").waitFor();
  await go(page, "Failover");
  await page.getByRole("cell", { name: "h100-1" }).first().waitFor();
});

test("a dearer family would not be chosen: both decisions stand side by side", async (t) => {
  const shown = theBrowser(t);
  if (shown === null) return;
  const { gateway } = await served(t);
  const page = await visit(t, shown, gateway);
  await go(page, "What if");
  await page.getByLabel("Model").fill("m");
  await page.getByLabel("MI300X, USD per GPU-hour").fill("40");
  await page.getByRole("button", { name: "Decide" }).click();
  await page.getByText("h100-1 (H100)").waitFor();
  await page.getByText("mi300x-1 (MI300X)").waitFor();
  await page.getByLabel("Model").fill("nothing");
  await page.getByRole("button", { name: "Decide" }).click();
  await page
    .getByRole("alert")
    .getByText(/model_not_found/)
    .first()
    .waitFor();
});

test("a policy is checked, with every error, before it is saved", async (t) => {
  const shown = theBrowser(t);
  if (shown === null) return;
  const { gateway } = await served(t);
  const page = await visit(t, shown, gateway);
  await go(page, "Policies");
  const text = page.getByLabel("A new policy");
  await text.fill('{ "name": "p", "cost_priority": "cheapest", "latency_target_ms": -1 }');
  await page.getByRole("button", { name: "Check" }).click();
  const alert = page.getByRole("alert");
  await alert
    .getByText(/cost_priority/)
    .first()
    .waitFor();
  await alert
    .getByText(/latency_target_ms/)
    .first()
    .waitFor();
  await text.fill('{ "name": "p", "cost_priority": "latency" }');
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByRole("status").getByText("created").waitFor();
  assert.equal(gateway.objects.get("policy", "default", "p"), null, "a check saves nothing");
  await page.getByRole("button", { name: "Save" }).click();
  await until("it is saved", () => gateway.objects.get("policy", "default", "p") !== null);
});

test("without the key nothing is shown but the way in, and a key opens it", async (t) => {
  const shown = theBrowser(t);
  if (shown === null) return;
  const node = await fakeNode(t);
  const keys = "keys: [{ name: ops, value_env: OPS, scopes: [admin] }, { name: app, value_env: APP }]\n";
  const { gateway } = await startOn(
    t,
    `${PORTS}${keys}nodes: [{ id: secret-node, url: "${node.url}", family: H100, models: [m] }]\n`,
    { env: { OPS: "ops-secret", APP: "app-secret" } },
  );
  const context = await shown.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE_MS);
  await page.goto(`${gateway.adminUrl}/`);
  const key = page.getByLabel("Key with the scope read or admin");
  await key.fill("app-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
  assert.doesNotMatch(await page.content(), /secret-node/);
  await key.fill("ops-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await go(page, "Availability");
  await page.getByRole("row", { name: /secret-node/ }).waitFor();
  assert.doesNotMatch(page.url(), /ops-secret/);
});

test("a gateway that stops is told, and what was shown stays", async (t) => {
  const shown = theBrowser(t);
  if (shown === null) return;
  const { gateway } = await served(t);
  const context = await shown.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE_MS);
  await page.goto(`${gateway.adminUrl}/#/availability`);
  await page.getByRole("row", { name: /mi300x-1/ }).waitFor();
  await gateway.stop(0);
  await page
    .getByRole("alert")
    .getByText(/does not answer/)
    .waitFor();
  await page.getByRole("row", { name: /mi300x-1/ }).waitFor();
});

test("1,000 nodes scroll with only the rows that are seen, on a phone too", async (t) => {
  const shown = theBrowser(t);
  if (shown === null) return;
  const node = await fakeNode(t);
  const nodes = Array.from(
    { length: 1_000 },
    (_, index) =>
      `  - { id: n${String(index).padStart(4, "0")}, url: "${node.url}/${index}", family: F${index % 3}, models: [m] }\n`,
  );
  const { gateway } = await startOn(t, `${PORTS}nodes:\n${nodes.join("")}`, { firstRoundMs: 0 });
  const page = await visit(t, shown, gateway, { viewport: { width: 390, height: 800 } });
  await go(page, "Availability");
  await page.getByText("1000 of 1000 nodes").waitFor();
  const rows = page.locator("tbody tr");
  assert.ok((await rows.count()) < 80, `${await rows.count()} rows exist`);
  await page.getByRole("region", { name: "Nodes" }).evaluate((element) => {
    element.scrollTop = element.scrollHeight;
  });
  await page.getByRole("link", { name: "n0999" }).waitFor();
  const width = await page.evaluate("document.documentElement.scrollWidth");
  assert.ok(Number(width) <= 390, `the page is ${width} px wide on a phone of 390`);
});
