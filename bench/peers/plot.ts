/** Draws CPU per answer of each gateway: bars from zero, each panel to a scale of its own. */

import { type Figure, told } from "../report.ts";

const PANELS = [
  { name: "chat_1kb", title: "1 KB chat request" },
  { name: "stream_64_fast", title: "stream of 64 events, as fast as possible" },
  { name: "stream_64_paced_20ms", title: "stream of 64 events, one each 20 ms" },
];
const WIDTH = 760;
const LABEL_WIDTH = 130;
/** Room for the figure behind the longest bar. */
const FIGURE_WIDTH = 60;
const BAR_HEIGHT = 16;
const GAP = 6;
const TITLE_HEIGHT = 34;
const FIGURE = /^cpu_us_per_answer\{case=([^,]+),proxy=([^}]+)\}$/;

/** @returns an SVG. */
export function plotOf(figures: readonly Figure[]): string {
  const bars = figures.flatMap(({ name, value }) => {
    const [, panel = "", proxy = ""] = FIGURE.exec(name) ?? [];
    return proxy === "" || proxy === "zml_2_workers" ? [] : [{ panel, proxy, value }];
  });
  const lines: string[] = [];
  let y = 10;
  for (const { name, title } of PANELS) {
    lines.push(`<text x="10" y="${y + 18}" font-weight="bold">CPU per answer, µs: ${title}</text>`);
    y += TITLE_HEIGHT;
    const own = bars.filter(({ panel }) => panel === name).sort((a, b) => a.value - b.value);
    const most = own.at(-1)?.value ?? 1;
    for (const { proxy, value } of own) {
      const width = (value / most) * (WIDTH - LABEL_WIDTH - FIGURE_WIDTH);
      const fill = proxy === "zml" ? "#d9480f" : proxy === "bare" ? "#5c7cfa" : "#adb5bd";
      lines.push(
        `<text x="${LABEL_WIDTH - 8}" y="${y + 13}" text-anchor="end">${proxy}</text>`,
        `<rect x="${LABEL_WIDTH}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" fill="${fill}"/>`,
        `<text x="${(LABEL_WIDTH + width + 6).toFixed(1)}" y="${y + 13}">${told(value)}</text>`,
      );
      y += BAR_HEIGHT + GAP;
    }
    y += GAP;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
${lines.join("\n")}
</svg>
`;
}
