/** A chart over time. The values under the pointer, else the last ones, stand beside its title as text. */

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Column } from "../live-model.ts";
import { dateAndTime } from "../words.ts";
import { thinned } from "./thinned.ts";

export interface Line {
  readonly label: string;
  readonly values: Column;
  /** Index of the page's chart colours, or what is bad. */
  readonly colour?: number | "bad";
}

const HEIGHT_PX = 180;
/** More points than a screen has columns are drawn as their extremes. */
const POINTS_MAX = 1_500;

/**
 * @param atMs Unix ms, rising.
 * @param props.isStepped values hold until the next one, as prices do.
 * @param props.max top of the scale, where it is known.
 */
export function Chart(props: {
  title: string;
  atMs: readonly number[];
  lines: readonly Line[];
  format: (value: number | null) => string;
  isStepped?: boolean;
  max?: number;
}) {
  const { title, atMs, lines, format, isStepped = false, max } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const shown = thinned(atMs, lines, POINTS_MAX);
  const latest = useRef(shown);
  latest.current = shown;
  const shape = lines.map(({ label }) => label).join("\n");

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const make = (): void => {
      plot.current?.destroy();
      const options = optionsOf(lines, { format, width: element.clientWidth, isStepped, max, onPoint: setPointed });
      plot.current = new uPlot(options, dataOf(latest.current), element);
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
  useEffect(() => plot.current?.setData(dataOf(latest.current)), [atMs, lines]);

  const at = pointed ?? shown.atMs.length - 1;
  return (
    <figure class="chart card">
      <figcaption>
        {title}
        <span class="keys">
          {atMs.length === 0 && "collecting…"}
          {pointed !== null && <span>{dateAndTime(shown.atMs[pointed] ?? 0)}</span>}
          {atMs.length > 0 &&
            lines.map(({ label, colour }, order) => (
              <span key={label} class={colour === "bad" ? "bad-key" : `c${(colour ?? order) % 6}`}>
                <i class="swatch" aria-hidden="true" />
                {label} {format(shown.columns[order]?.[at] ?? null)}
              </span>
            ))}
        </span>
      </figcaption>
      <div class="plot" ref={place} aria-hidden="true" />
    </figure>
  );
}

const DAY_S = 86_400;
/** Distances of times on an axis: no two read the same. */
const TIME_STEPS_S = [60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, DAY_S, 2 * DAY_S, 7 * DAY_S, 30 * DAY_S];

/** Times of one day as times, of several days as dates. @param values Unix s. */
function timesOf(values: readonly number[]): string[] {
  const isLong = (values.at(-1) ?? 0) - (values[0] ?? 0) > DAY_S;
  const shown: Intl.DateTimeFormatOptions = isLong
    ? { month: "short", day: "numeric" }
    : { hour: "2-digit", minute: "2-digit", hour12: false };
  return values.map((value) => new Date(value * 1000).toLocaleString(undefined, shown));
}

function dataOf({ atMs, columns }: ReturnType<typeof thinned>): uPlot.AlignedData {
  return [atMs.map((at) => at / 1000), ...columns] as uPlot.AlignedData;
}

function optionsOf(
  lines: readonly Line[],
  context: {
    format: (value: number | null) => string;
    width: number;
    isStepped: boolean;
    max: number | undefined;
    onPoint: (index: number | null) => void;
  },
): uPlot.Options {
  const { format, width, isStepped, max: top, onPoint } = context;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--dim"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const stepped = isStepped
    ? { paths: (uPlot.paths.stepped as uPlot.Series.PathBuilderFactories["stepped"] & object)({ align: 1 }) }
    : {};
  return {
    width: Math.max(120, width),
    height: HEIGHT_PX,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 } },
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
    scales: { y: { range: (_plot, min, max) => [Math.min(0, min * 1.1), top ?? (max > 0 ? max * 1.1 : 1)] } },
    axes: [
      { ...axis, space: 70, size: 24, incrs: TIME_STEPS_S, values: (_plot, values) => timesOf(values) },
      {
        ...axis,
        size: 52,
        space: 36,
        values: (_plot, values) => values.map((value) => format(value).replace(".00", "")),
      },
    ],
    series: [
      {},
      ...lines.map(({ label, colour: index }, order) => {
        const stroke = colour(index === "bad" ? "--bad" : `--chart-${(index ?? order) % 6}`);
        return {
          label,
          stroke,
          width: 1.75,
          spanGaps: false,
          points: { show: false },
          ...stepped,
          ...(lines.length === 1 ? { fill: `${stroke}22` } : {}),
        };
      }),
    ],
  };
}
