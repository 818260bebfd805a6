/** How pages feel in Chromium. */

import { launchChromium } from "../../packages/gateway/test/dashboard-fixture.ts";
import { quantile } from "../report.ts";

const PAINTS = 5;
const SCROLL_MS = 5_000;

/** Null: no Chromium is installed. */
export async function measureBrowser(
  adminPort: number,
): Promise<{ firstPaintMs: number; framesPerSecond: number; frameP95Ms: number; cpuMsPerFrame: number } | null> {
  const browser = await launchChromium();
  if (browser === null) return null;
  const url = `http://127.0.0.1:${adminPort}/`;
  try {
    const paints: number[] = [];
    for (let round = 0; round < PAINTS; round++) {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(url);
      paints.push(Number(await page.evaluate(FIRST_PAINT)));
      await context.close();
    }
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(`${url}#/availability`);
    await page.getByText("1000 of 1000 nodes").waitFor();
    const table = page.getByRole("region", { name: "Nodes" });
    await table.hover();
    // the first seconds of a page are compiling
    await page.mouse.wheel(0, 600);
    await page.waitForTimeout(2_000);
    const devtools = await page.context().newCDPSession(page);
    // CPU time of the page's thread: what else runs on the machine does not count
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const taskSeconds = async (): Promise<number> => {
      const { metrics } = await devtools.send("Performance.getMetrics");
      return metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN;
    };
    const before = await taskSeconds();
    const frames = page.evaluate(FRAMES);
    const untilMs = performance.now() + SCROLL_MS;
    for (let turn = 0; performance.now() < untilMs; turn++) {
      await page.mouse.wheel(0, turn % 200 < 100 ? 240 : -240);
      await page.waitForTimeout(16);
    }
    const gaps = Float64Array.from((await frames) as number[]).sort();
    const cpuMs = ((await taskSeconds()) - before) * 1000;
    const totalMs = gaps.reduce((sum, gap) => sum + gap, 0);
    return {
      firstPaintMs: Math.min(...paints),
      framesPerSecond: (gaps.length * 1000) / totalMs,
      frameP95Ms: quantile(gaps, 0.95),
      cpuMsPerFrame: cpuMs / gaps.length,
    };
  } finally {
    await browser.close();
  }
}

/** Waits for the first contentful paint, ms since the navigation began. */
const FIRST_PAINT = `new Promise((resolve) => {
  const tell = (entries) => {
    const entry = entries.find(({ name }) => name === "first-contentful-paint");
    if (entry !== undefined) resolve(entry.startTime);
  };
  new PerformanceObserver((list) => tell(list.getEntries())).observe({ type: "paint", buffered: true });
})`;

/** Times between frames over the scroll, ms. */
const FRAMES = `new Promise((resolve) => {
  const gaps = [];
  let last = null;
  const start = performance.now();
  const frame = (now) => {
    if (last !== null) gaps.push(now - last);
    last = now;
    if (now - start < ${SCROLL_MS}) requestAnimationFrame(frame);
    else resolve(gaps);
  };
  requestAnimationFrame(frame);
})`;
