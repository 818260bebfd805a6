/** Chromium on the dashboard of a gateway, for its tests. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, afterEach, before, type TestContext } from "node:test";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { buildDashboard } from "../../../scripts/dashboard-pages.ts";
import type { Gateway } from "../src/control/gateway-interface.ts";

const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
/** Of a wait in the browser: what is over long before is the rule. */
const DEADLINE_MS = 20_000;

export const PAGES = [
  "Overview",
  "Admission",
  "Availability",
  "Cost",
  "Dispatch",
  "Failover",
  "Decisions",
  "What if",
  "Back-test",
  "Policies",
];

export interface Visit {
  /** Errors of the page that the test wants. */
  readonly expected?: RegExp;
  readonly context?: BrowserContextOptions;
  /** Behind `#`. */
  readonly at?: string;
}

/** Null: none is installed. */
export async function launchChromium(): Promise<Browser | null> {
  for (const executablePath of BROWSERS) {
    const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] }).catch(() => null);
    if (browser !== null) return browser;
  }
  return null;
}

/** The browser of a test file, started before its tests and stopped after them. */
export class DashboardBrowser {
  #browser: Browser | null = null;
  /** What pages of the running test complained of, or asked of another origin. */
  readonly #wrong: string[] = [];

  constructor() {
    before(async () => {
      await buildDashboard();
      this.#browser = await launchChromium();
    });
    after(() => this.#browser?.close());
    afterEach(() => assert.deepEqual(this.#wrong.splice(0), []));
  }

  /** False, and the test is skipped, where there is no browser. */
  isHere(t: TestContext): boolean {
    if (this.#browser !== null) return true;
    const hint = "no Chromium is installed: apt-get install chromium";
    assert.equal(process.env.CI, undefined, hint);
    t.skip(`left out: ${hint}`);
    return false;
  }

  /** A page; the test fails if it logged an error, broke, opened a dialog or asked another origin for anything. */
  async visit(t: TestContext, gateway: Pick<Gateway, "adminUrl">, visit: Visit = {}): Promise<Page> {
    if (this.#browser === null) throw new Error("isHere was not asked");
    const { adminUrl } = gateway;
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 800 }, ...visit.context });
    const page = await context.newPage();
    page.setDefaultTimeout(DEADLINE_MS);
    const note = (text: string): void => {
      if (visit.expected?.test(text) !== true) this.#wrong.push(text);
    };
    page.on("console", (message) => {
      // the browser says so itself of each answer that is no success
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) note(message.text());
    });
    page.on("pageerror", (error) => note(String(error)));
    page.on("dialog", (dialog) => {
      note(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(adminUrl) && !request.url().startsWith("data:")) note(request.url());
    });
    t.after(() => context.close());
    await page.goto(`${adminUrl}/${visit.at === undefined ? "" : `#/${visit.at}`}`);
    return page;
  }
}

/** Goes to a page by the navigation. */
export async function go(page: Page, name: string): Promise<void> {
  await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** What axe calls serious or critical. */
export async function faults(page: Page): Promise<string[]> {
  await page.evaluate(axeScript());
  const found = (await page.evaluate(
    "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, impact, nodes }) => ({ id, impact, html: nodes[0].html })))",
  )) as { id: string; impact: string; html: string }[];
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, html }) => `${id}: ${html}`);
}

let axe: string | null = null;

function axeScript(): string {
  axe ??= readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  return `globalThis.axe === undefined && (0, eval)(${JSON.stringify(axe)})`;
}
