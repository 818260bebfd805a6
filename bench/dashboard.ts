/**
 * What open pages of the dashboard cost the gateway, and how they feel.
 *
 * - `cpu_percent_of_core_per_tab`: CPU time of the gateway process with open tabs less that without one, in turns, on a
 *   fleet that is polled. A tab asks what the overview asks: the live feed at the gateway's pace, the history each 5 s.
 * - `first_paint_ms`: of a page without any cache, to the first contentful paint; the best of five, since other work on
 *   the machine only ever adds time.
 * - `scroll_cpu_ms_per_frame`: CPU time of the page's thread per frame while a table of 1,000 nodes is scrolled by the
 *   wheel, with the live feed coming in. A frame has 16.7 ms. `scroll_frames_per_second` is what came of it, on a machine
 *   without a GPU.
 */

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { buildDashboard } from "../scripts/dashboard-pages.ts";
import { measureBrowser } from "./dashboard/measure-browser.ts";
import { measureTabs, withFleet } from "./dashboard/measure-tabs.ts";
import { type Figure, isJsonAsked, report } from "./report.ts";

const TABS = [1, 10];

const json = isJsonAsked(process.argv.slice(2));
const say = (text: string): void => {
  if (!json) process.stderr.write(`${text}\n`);
};

await buildDashboard();
const script = readFileSync(new URL("../packages/gateway/pages/assets/app.js", import.meta.url));
const figures: Figure[] = [{ name: "script_kb_gzipped", value: gzipSync(script).length / 1000, unit: "kB" }];
for (const nodes of [11, 1_000]) {
  await withFleet(nodes, async (gateway) => {
    say(`${nodes} nodes are polled`);
    for (const { tabs, cpuShare, bytesPerTabAndSecond } of await measureTabs(gateway, TABS)) {
      const labels = `{nodes=${nodes},tabs=${tabs}}`;
      figures.push(
        { name: `cpu_percent_of_core_per_tab${labels}`, value: (cpuShare * 100) / tabs, unit: "%" },
        { name: `bytes_per_tab_and_second${labels}`, value: bytesPerTabAndSecond, unit: "bytes" },
      );
    }
    if (nodes < 1_000) return;
    const browser = await measureBrowser(gateway.adminPort);
    if (browser === null) say("no Chromium is installed: first paint and frames are left out");
    else {
      figures.push(
        { name: `first_paint_ms{nodes=${nodes}}`, value: browser.firstPaintMs, unit: "ms" },
        { name: `scroll_cpu_ms_per_frame{nodes=${nodes}}`, value: browser.cpuMsPerFrame, unit: "ms" },
        { name: `scroll_frames_per_second{nodes=${nodes}}`, value: browser.framesPerSecond, unit: "1/s" },
        { name: `scroll_frame_p95_ms{nodes=${nodes}}`, value: browser.frameP95Ms, unit: "ms" },
      );
    }
  });
}
report({ bench: "dashboard", figures, json });
