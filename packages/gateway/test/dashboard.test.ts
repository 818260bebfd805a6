/** The dashboard in a real browser, on a gateway with traffic. Screenshots of it: scripts/screenshots.ts. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { chat, decisionOf, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";
import { DashboardBrowser, faults, go, PAGES } from "./dashboard-fixture.ts";

const FILE = (a: string, b: string) => `${PORTS}nodes:
  - { id: h100-1, url: "${a}", family: H100, cost: { usd_per_gpu_hour: 4 }, models: [m] }
  - { id: mi300x-1, url: "${b}", family: MI300X, cost: { usd_per_gpu_hour: 2 }, models: [m] }
policies:
  - { name: cheap, accelerator_preference: [{ family: MI300X, priority: 1 }, { family: H100, priority: 2 }], latency_target_ms: 60000, cost_priority: cost }
models: [{ name: m, policy: cheap }]
`;
const PHONE = { width: 390, height: 800 };
const DESK = { width: 1280, height: 800 };

const browser = new DashboardBrowser();

async function served(t: TestContext) {
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const started = await startOn(t, FILE(a.url, b.url));
  return { a, b, ...started };
}

test("every page shows the fleet's truth, in light, dark and on a phone, and axe finds no serious fault", async (t) => {
  if (!browser.isHere(t)) return;
  const { gateway } = await served(t);
  const page = await browser.visit(t, gateway);
  const traffic = setInterval(() => void chat(gateway).then((response) => response.text(), () => {}), 100); // biome-ignore format: one line
  t.after(() => clearInterval(traffic));
  await page.getByText("2 of 2").waitFor();
  const flow = page.getByRole("img", { name: /cheap to MI300X/ });
  await flow.first().waitFor();
  for (const name of [...PAGES, "a decision"]) {
    if (name === "a decision") {
      await page.goto(`${gateway.adminUrl}/#/decisions/${decisionOf(await chat(gateway))}`);
      await page.getByText("Families in the order of the chain").waitFor();
    } else await go(page, name);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await faults(page), [], `${name}, ${colorScheme}`);
    }
    await page.setViewportSize(PHONE);
    // plots follow the width a frame later
    await until(`${name} is no wider than a phone of ${PHONE.width} px`, async () => {
      return Number(await page.evaluate("document.documentElement.scrollWidth")) <= PHONE.width;
    });
    await page.setViewportSize(DESK);
  }
  await go(page, "Availability");
  await page.getByRole("row", { name: /mi300x-1 MI300X healthy/ }).waitFor();
  await go(page, "Cost");
  await page.getByRole("row", { name: /^MI300X \$/ }).waitFor();
  await go(page, "Policies");
  await page.getByRole("link", { name: "cheap" }).click();
  await page.getByText("It stands in zml.yaml, which owns it").waitFor();
});

test("the keyboard reaches the pages, past the navigation too", async (t) => {
  if (!browser.isHere(t)) return;
  const { gateway } = await served(t);
  const page = await browser.visit(t, gateway, { at: "availability" });
  await page.getByRole("row", { name: /mi300x-1/ }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate("document.activeElement.type"), "search", "the page's first field");
  await page.keyboard.type("mi300x");
  await page.getByText("1 of 2 nodes").waitFor();
  await page.getByRole("button", { name: "Depth / room" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("th[aria-sort=descending]").waitFor();
});

test("a decision is found, and its story is told", async (t) => {
  if (!browser.isHere(t)) return;
  const { gateway, b } = await served(t);
  b.faults.status(500, '{"error":{"message":"boom","type":"x","param":null,"code":500}}');
  const id = decisionOf(await chat(gateway));
  await (await chat(gateway)).text();
  const page = await browser.visit(t, gateway);
  await go(page, "Decisions");
  await page.getByRole("row", { name: /h100-1/ }).first().waitFor(); // biome-ignore format: one line
  await page.getByLabel("re-dispatched only").check();
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByRole("heading", { name: "What matches" }).waitFor();
  assert.match(page.url(), /redispatched=true/, "the search can be passed on");
  await page.getByRole("row", { name: /h100-1/ }).waitFor();
  assert.equal(await page.getByRole("row").count(), 2, "the head, and the one request that moved on");
  await page.getByLabel("Decision id").fill(id);
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("h100-1 (H100): success, status 200").waitFor();
  await page.getByText("mi300x-1 (MI300X): failure, status 500").waitFor();
  await go(page, "Failover");
  await page.getByRole("cell", { name: "h100-1" }).first().waitFor();
});

test("a dearer family would not be chosen: both decisions stand side by side", async (t) => {
  if (!browser.isHere(t)) return;
  const { gateway } = await served(t);
  const page = await browser.visit(t, gateway, { at: "what-if" });
  await page.getByLabel("Model").fill("m");
  await page.getByLabel("MI300X, USD per GPU-hour").fill("40");
  await page.getByRole("button", { name: "Decide" }).click();
  await page.getByText("h100-1 (H100)").waitFor();
  await page.getByText("mi300x-1 (MI300X)").waitFor();
  await page.getByText("It would go to H100 instead of MI300X.").waitFor();
  await page.getByLabel("Model").fill("nothing");
  await page.getByRole("button", { name: "Decide" }).click();
  await page.getByRole("alert").getByText(/model_not_found/).first().waitFor(); // biome-ignore format: one line
});

test("a policy is checked, with every error, before it is saved", async (t) => {
  if (!browser.isHere(t)) return;
  const { gateway } = await served(t);
  const page = await browser.visit(t, gateway, { at: "policies" });
  await page.getByRole("button", { name: "as text" }).click();
  const text = page.getByLabel("A new policy, as JSON");
  await text.fill("{ no");
  await page.getByRole("button", { name: "Check" }).click();
  const alert = page.getByRole("alert");
  await alert.getByText(/This is no JSON/).waitFor();
  await text.fill('{ "name": "p", "cost_priority": "cheapest", "latency_target_ms": -1 }');
  await page.getByRole("button", { name: "Check" }).click();
  for (const field of [/cost_priority/, /latency_target_ms/]) await alert.getByText(field).first().waitFor();
  await text.fill('{ "name": "p", "cost_priority": "latency" }');
  await page.getByRole("button", { name: "as a form" }).click();
  await page.getByRole("button", { name: "Add a family" }).click();
  assert.equal(await page.getByLabel("Family").inputValue(), "H100");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByRole("status").getByText("created").waitFor();
  assert.equal(gateway.objects.get("policy", "default", "p"), null, "a check saves nothing");
  await page.getByRole("button", { name: "Save" }).click();
  await until("it is saved", () => gateway.objects.get("policy", "default", "p") !== null);
  const chain = gateway.objects.get("policy", "default", "p")?.spec["accelerator_preference"];
  assert.deepEqual(chain, [{ family: "H100", priority: 1 }]);
  await page.getByRole("link", { name: /^p default/ }).click();
  await page.getByLabel("Target for the whole answer, ms").fill("1500");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("latency_target_ms").waitFor();
});

test("recorded traffic is replayed under a draft, and both stand beside each other", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS}workers: 1\nevidence: { keep: {} }
nodes: [{ id: a, url: "${node.url}", family: H100, models: [m], cost: { usd_per_gpu_hour: 3 } }]
policies: [{ name: chat, cost_priority: latency, latency_target_ms: 5000 }]
models: [{ name: m, policy: chat }]
`,
    { storeFolder: folder(t) },
  );
  for (let call = 0; call < 30; call++) await (await chat(gateway)).arrayBuffer();
  const page = await browser.visit(t, gateway, { at: "back-test" });
  await page.getByLabel("Traffic of").selectOption("3600");
  const draft = page.getByLabel("The draft, as JSON");
  await draft.fill('{ "name": "chat", "cost_priority": "cheapest" }');
  await page.getByRole("button", { name: "Replay" }).click();
  await page
    .getByRole("alert")
    .getByText(/cost_priority/)
    .first()
    .waitFor();
  await draft.fill('{ "name": "chat", "cost_priority": "cost" }');
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByRole("heading", { name: "Draft beside what is in force" }).waitFor();
  await page.getByRole("rowheader", { name: "targets met" }).waitFor();
  await page.getByRole("rowheader", { name: "H100" }).waitFor();
  assert.deepEqual(await faults(page), []);
});
