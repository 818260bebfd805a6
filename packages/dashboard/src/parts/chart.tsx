/** A chart over time. Its last values stand beside it as text, for those who do not see it. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Column } from "../live-model.ts";

export interface Line {
  readonly label: string;
  readonly values: Column;
  /** Index of the page's chart colours. */
  readonly colour?: number;
}

const HEIGHT_PX = 180;

/** @param atMs Unix ms, rising. */
export function Chart(props: {
  title: string;
  atMs: readonly number[];
  lines: readonly Line[];
  format: (value: number | null) => string;
}) {
  const { title, atMs, lines, format } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = lines.map(({ label }) => label).join("\n");

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const make = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(lines, format, element.clientWidth), dataOf(atMs, lines), element);
    };
    make();
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    watch.observe(element);
    addEventListener("zml-theme", make);
    return () => {
      watch.disconnect();
      removeEventListener("zml-theme", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf(atMs, lines)), [atMs, lines]);

  const last = lines.map(({ label, values }) => `${label} ${format(values.at(-1) ?? null)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        {title} <span class="last">{atMs.length === 0 ? "collecting…" : last}</span>
      </figcaption>
      <div ref={place} aria-hidden="true" />
    </figure>
  );
}

function dataOf(atMs: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [atMs.map((at) => at / 1000), ...lines.map(({ values }) => [...values])] as uPlot.AlignedData;
}

function optionsOf(lines: readonly Line[], format: (value: number | null) => string, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width: Math.max(120, width),
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [axis, { ...axis, size: 64, values: (_plot, values) => values.map((value) => format(value)) }],
    series: [
      {},
      ...lines.map(({ label, colour: index }, order) => ({
        label,
        stroke: colour(`--chart-${(index ?? order) % 6}`),
        width: 2,
        spanGaps: false,
        points: { show: false },
      })),
    ],
  };
}
