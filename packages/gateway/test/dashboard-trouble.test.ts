/** The dashboard where things go wrong: keys, versions, gateways that go, hostile names, and more of everything. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { chat, decisionOf, fakeNode, PORTS, startOn } from "./control-fixture.ts";
import { DashboardBrowser, faults, go } from "./dashboard-fixture.ts";

const browser = new DashboardBrowser();

const ONE_NODE = (url: string) => `nodes: [{ id: node-1, url: "${url}", family: H100, models: [m] }]\n`;

test("without the key nothing is shown but the way in; a key opens it, and shuts it when it goes", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const file = (keys: string) => `${PORTS}keys: [${keys}]\n${ONE_NODE(node.url)}`;
  const ops = "{ name: ops, value_env: OPS, scopes: [admin] }";
  const reader = "{ name: eye, value_env: EYE, scopes: [read] }";
  const { gateway, write } = await startOn(t, file(`${ops}, ${reader}, { name: app, value_env: APP }`), {
    env: { OPS: "ops-secret", EYE: "eye-secret", APP: "app-secret" },
  });
  const page = await browser.visit(t, gateway);
  const key = page.getByLabel("Key with the scope read or admin");
  await key.fill("app-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
  assert.deepEqual(await faults(page), []);
  assert.doesNotMatch(await page.content(), /node-1/);
  await key.fill("eye-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await go(page, "Availability");
  await page.getByRole("row", { name: /node-1/ }).waitFor();
  assert.doesNotMatch(page.url(), /eye-secret/);
  await go(page, "Policies");
  await page.getByText("Your key reads only").waitFor();
  assert.equal(await page.getByRole("button", { name: "Save" }).count(), 0, "what it may not do is not offered");
  write(file(ops));
  await gateway.reload();
  await page.getByRole("alert").getByText(/Logged out/).waitFor(); // biome-ignore format: one line
  await key.fill("ops-secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: "Save" }).waitFor();
});

test("a key of another account sees what is that account's, and is told what is not for it", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS}workers: 1
keys:
  - { name: ops, value_env: OPS, scopes: [admin] }
  - { name: acme-eye, account: acme, value_env: EYE, scopes: [infer, read] }
  - { name: acme-hand, account: acme, value_env: HAND, scopes: [admin] }
accounts: [{ name: acme }]
nodes:
  - { id: shared-1, account: acme, url: "${node.url}", family: H100, models: [m], cost: { usd_per_gpu_hour: 4 } }
policies:
  - { name: swift, account: acme, accelerator_preference: [{ family: H100, priority: 1 }] }
  - { name: of-operators }
models: [{ name: m, account: acme, policy: swift }, { name: other }]
`,
    { env: { OPS: "ops-secret", EYE: "eye-secret", HAND: "hand-secret" } },
  );
  const answer = await chat(gateway, {}, { headers: { authorization: "Bearer eye-secret" } });
  const id = decisionOf(answer);
  await answer.text();
  const page = await browser.visit(t, gateway);
  const logIn = async (key: string): Promise<void> => {
    await page.getByLabel("Key with the scope read or admin").fill(key);
    await page.getByRole("button", { name: "Log in" }).click();
  };
  await logIn("eye-secret");
  await page.getByText("The key acme-eye is of the account acme and shows what belongs to it").waitFor();
  await page.getByRole("rowheader", { name: "acme-hand" }).waitFor();
  await page.getByRole("row", { name: "m swift" }).waitFor();
  await page.getByRole("row", { name: /^H100 \$/ }).waitFor();
  assert.doesNotMatch(await page.content(), /ops|of-operators|other<|127\.0\.0\.1/, "what belongs to others");
  const links = page.getByRole("navigation").getByRole("link");
  const names = ["Your account", "Decisions", "What if", "Back-test", "Policies"];
  assert.deepEqual(await links.allTextContents(), names);
  for (const name of names) {
    await go(page, name);
    assert.deepEqual(await faults(page), [], name);
    assert.equal(await page.getByRole("alert").count(), 0, `${name} shows no refusal`);
  }
  await page.getByRole("link", { name: /^swift/ }).click();
  await page.getByText("It stands in zml.yaml").waitFor();
  await go(page, "What if");
  assert.equal(await page.getByRole("textbox", { name: "Account" }).inputValue(), "acme");
  await page.getByLabel("H100, USD per GPU-hour").fill("9");
  await page.getByRole("button", { name: "Decide" }).click();
  await page.getByText("shared-1 (H100)").first().waitFor();
  await page.goto(`${gateway.adminUrl}/#/decisions/${id}`);
  await page.getByText("Families in the order of the chain").waitFor();
  await page.goto(`${gateway.adminUrl}/#/availability`);
  await page.getByRole("heading", { level: 1, name: "Availability is for operators" }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  await page.getByRole("link", { name: "Go to your account" }).click();
  await page.getByRole("heading", { level: 1, name: "Your account" }).waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await logIn("hand-secret");
  await go(page, "Policies");
  await page.getByLabel("Name", { exact: true }).fill("own");
  assert.equal(await page.getByRole("button", { name: "Check" }).count(), 0, "a configuration is not its to try");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("status").getByText("saved").waitFor();
  assert.notEqual(gateway.objects.get("policy", "acme", "own"), null);
});

test("a gateway that stops is told, what was shown stays, and one that comes back is followed", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const first = await startOn(t, `${PORTS}${ONE_NODE(node.url)}`);
  const page = await browser.visit(t, first.gateway, { at: "availability" });
  await page.getByRole("row", { name: /node-1/ }).waitFor();
  const { port } = first.gateway.adminAddress;
  await first.gateway.stop(0);
  await page.getByRole("alert").getByText(/does not answer/).waitFor(); // biome-ignore format: one line
  await page.getByRole("row", { name: /node-1/ }).waitFor();
  const ports = `data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:${port} }\n`;
  await startOn(t, `${ports}${ONE_NODE(node.url).replace("node-1", "node-2")}`);
  await page.getByRole("row", { name: /node-2/ }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.equal(await page.getByRole("row", { name: /node-1/ }).count(), 0, "the other process has other nodes");
});

test("a page that nobody looks at asks nothing, and asks at once when it is looked at again", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const { gateway } = await startOn(t, `${PORTS}${ONE_NODE(node.url)}`);
  const page = await browser.visit(t, gateway, { at: "decisions" });
  let asked = 0;
  page.on("request", () => {
    asked += 1;
  });
  await page.waitForRequest(/\/live/);
  await look(page, "hidden");
  // what was on its way may still end, and starts nothing
  await page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))");
  asked = 0;
  await page.evaluate("new Promise((resolve) => setTimeout(resolve, 3500))");
  assert.equal(asked, 0, "three and a half seconds of the pace of one second");
  const [request] = await Promise.all([page.waitForRequest(/\/live/), look(page, "visible")]);
  assert.match(request.url(), /since=/);
});

/** As the browser does when a tab goes to the back. */
async function look(page: Page, state: "hidden" | "visible"): Promise<void> {
  await page.evaluate(`
    Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  `);
}

test("a gateway of another version is told, and a reload is offered", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const { gateway } = await startOn(t, `${PORTS}${ONE_NODE(node.url)}`, { productVersion: "99.1.0" });
  const page = await browser.visit(t, gateway, { expected: /undefined|not iterable|null/ });
  await page.getByRole("status").getByText(/version 99\.1\.0 now/).waitFor(); // biome-ignore format: one line
  // an older one knows no such route
  await page.route("**/admin/v1/whoami", (route) => route.fulfill({ status: 404, json: { detail: "not here" } }));
  await page.reload();
  await page.getByRole("status").getByText(/older version/).waitFor(); // biome-ignore format: one line
  // one whose answers are others: the frame stays, and says so
  await page.route("**/admin/v1/money*", (route) => route.fulfill({ json: { sums: [] } }));
  await go(page, "Cost").catch(() => {});
  await page.getByRole("alert").getByText(/can't show what the gateway answers/).waitFor(); // biome-ignore format: one line
  await go(page, "Availability");
  await page.getByRole("row", { name: /node-1/ }).waitFor();
  const old = { at: "", clock_ms: 1, nodes_tag: "1-x", nodes: null, columns: {}, totals: {} };
  await page.route("**/admin/v1/live*", (route) => route.fulfill({ json: old }));
  const alert = page.getByRole("alert");
  await alert.getByText(/does not understand/).waitFor();
  await alert.getByRole("button", { name: "Reload the page" }).waitFor();
  await page.route("**/admin/v1/live*", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Login</h1>" }));
  await page.reload();
  await alert.getByText(/does not understand/).waitFor();
});

test("names with markup and emoji are text on every page", async (t) => {
  if (!browser.isHere(t)) return;
  const evil = '<img src=x onerror="alert(1)">🙂<script>alert(2)</script>';
  const node = await fakeNode(t, { model: evil });
  const { gateway } = await startOn(
    t,
    `${PORTS}accounts: [{ name: default, display_name: ${JSON.stringify(evil)} }]
nodes: [{ id: node-1, url: "${node.url}", family: H100, cost: { usd_per_gpu_hour: 4 }, display_name: ${JSON.stringify(evil)} }]
policies: [{ name: p }]
models: [{ name: ${JSON.stringify(evil)}, policy: p, display_name: ${JSON.stringify(evil)} }]
`,
  );
  const answer = await chat(gateway, { model: evil });
  const id = decisionOf(answer);
  await answer.text();
  const page = await browser.visit(t, gateway, { at: `decisions/${id}` });
  await page.getByText(evil).first().waitFor();
  await page.goto(`${gateway.adminUrl}/#/decisions`);
  await page.getByText(evil).first().waitFor();
  await page.goto(`${gateway.adminUrl}/#/what-if`);
  await page.getByLabel("Account").fill(evil);
  await page.getByRole("button", { name: "Decide" }).click();
  await page.getByRole("alert").waitFor();
  await page.goto(`${gateway.adminUrl}/#/cost`);
  await page.getByLabel("By").selectOption("model");
  await page.getByRole("rowheader", { name: evil }).waitFor();
  await page.goto(`${gateway.adminUrl}/#/availability?find=${encodeURIComponent(evil)}`);
  await page.getByText("0 of 1 nodes").waitFor();
  await page.goto(`${gateway.adminUrl}/#/decisions/${encodeURIComponent(evil)}`);
  await page.getByRole("alert").waitFor();
  assert.equal(await page.locator("img, main script").count(), 0);
});

test("ten thousand accounts and their policies are searched, and never listed whole", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const names = Array.from({ length: 10_000 }, (_, index) => `team-${String(index).padStart(5, "0")}`);
  const { gateway } = await startOn(
    t,
    `${PORTS}${ONE_NODE(node.url)}accounts: [${names.map((name) => `{ name: ${name} }`).join(", ")}]
policies: [${names
      .slice(0, 400)
      .map((name) => `{ name: batch, account: ${name} }`)
      .join(", ")}]
`,
  );
  const page = await browser.visit(t, gateway, { at: "policies" });
  await page.getByRole("link", { name: "batch team-00000" }).waitFor();
  assert.equal(await page.getByRole("link", { name: /^batch/ }).count(), 50);
  await page.getByRole("button", { name: "More than these 50" }).click();
  await page.getByRole("link", { name: "batch team-00099" }).waitFor();
  await page.getByLabel("Search by name or account").fill("00399");
  await page.getByRole("link", { name: "batch team-00399" }).click();
  await page.getByRole("heading", { name: "batch" }).waitFor();
  assert.equal((await page.locator("option").count()) < 100, true);
});

test("1,000 nodes scroll with only the rows that are seen, on a phone too", async (t) => {
  if (!browser.isHere(t)) return;
  const node = await fakeNode(t);
  const nodes = Array.from(
    { length: 1_000 },
    (_, index) =>
      `  - { id: n${String(index).padStart(4, "0")}, url: "${node.url}/${index}", family: F${index % 3}, models: [m] }\n`,
  );
  const { gateway } = await startOn(t, `${PORTS}nodes:\n${nodes.join("")}`, { firstRoundMs: 0 });
  const page = await browser.visit(t, gateway, { context: { viewport: { width: 390, height: 800 } } });
  await page.getByRole("img", { name: /^F0: \d+ of 334 healthy/ }).waitFor();
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
