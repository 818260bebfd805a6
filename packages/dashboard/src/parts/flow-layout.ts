/** Where the bars and links of a flow picture stand. Pure. */

import type { FlowLink } from "./flow-picture.tsx";

export interface FlowNode {
  readonly name: string;
  readonly rate: number;
  readonly x: number;
  readonly y: number;
  readonly height: number;
  readonly colour: string;
}

export interface PlacedLink {
  readonly link: FlowLink;
  readonly path: string;
  readonly thickness: number;
}

/** Of a label. */
const ROW_PX = 22;
const GAP_PX = 8;
/** All links of the fullest column together. */
const FLOW_PX = 180;
/** Links of a stage: the largest. */
const LINKS_MAX = 60;

interface Stop {
  incoming: number;
  outgoing: number;
  colour: string;
  y: number;
  height: number;
  usedIn: number;
  usedOut: number;
}

/** @param space px. */
export function layOut(
  stages: readonly (readonly FlowLink[])[],
  { width, bar }: { width: number; bar: number },
): { columns: FlowNode[][]; links: PlacedLink[]; height: number } {
  const shown = stages.map((links) =>
    links
      .filter(({ rate }) => rate > 0)
      .toSorted((a, b) => b.rate - a.rate)
      .slice(0, LINKS_MAX),
  );
  const columns = Array.from({ length: stages.length + 1 }, (_, column) => stopsOf(shown[column - 1], shown[column]));
  const most = Math.max(...columns.map((stops) => sum(stops, rateOf)));
  if (!(most > 0)) return { columns: [], links: [], height: 0 };
  /** px per request per second. */
  const scale = FLOW_PX / most;
  const height = Math.max(...columns.map((stops) => heightOf(stops, scale)));
  for (const stops of columns) place(stops, { scale, height });
  const xOf = (column: number): number => (column * (width - bar)) / stages.length;
  const links = shown.flatMap((stage, column) => {
    const bySide = stage.toSorted((a, b) => yOf(columns[column], a.from) - yOf(columns[column], b.from) || yOf(columns[column + 1], a.to) - yOf(columns[column + 1], b.to)); // biome-ignore format: one rule
    return bySide.flatMap((link): PlacedLink[] => {
      const from = columns[column]?.get(link.from);
      const to = columns[column + 1]?.get(link.to);
      if (from === undefined || to === undefined) return [];
      const thickness = Math.max(1.5, link.rate * scale);
      const y0 = from.y + (from.height - from.outgoing * scale) / 2 + from.usedOut + thickness / 2;
      const y1 = to.y + (to.height - to.incoming * scale) / 2 + to.usedIn + thickness / 2;
      from.usedOut += link.rate * scale;
      to.usedIn += link.rate * scale;
      const [x0, x1] = [xOf(column) + bar, xOf(column + 1)];
      const middle = (x0 + x1) / 2;
      return [{ link, thickness, path: `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}` }];
    });
  });
  return {
    height,
    links,
    columns: columns.map((stops, column) =>
      Array.from(stops, ([name, stop]) => ({
        name,
        rate: rateOf(stop),
        x: xOf(column),
        y: stop.y,
        height: stop.height,
        colour: stop.colour,
      })),
    ),
  };
}

function stopsOf(before: readonly FlowLink[] | undefined, after: readonly FlowLink[] | undefined): Map<string, Stop> {
  const stops = new Map<string, Stop>();
  const at = (name: string): Stop => {
    const stop = stops.get(name) ?? { incoming: 0, outgoing: 0, colour: "", y: 0, height: 0, usedIn: 0, usedOut: 0 };
    stops.set(name, stop);
    return stop;
  };
  for (const { to, rate, colour = "" } of before ?? []) {
    const stop = at(to);
    stop.incoming += rate;
    stop.colour = colour;
  }
  for (const { from, rate } of after ?? []) at(from).outgoing += rate;
  return new Map([...stops].sort(([, a], [, b]) => rateOf(b) - rateOf(a)));
}

function rateOf({ incoming, outgoing }: Stop): number {
  return Math.max(incoming, outgoing);
}

function sum(stops: ReadonlyMap<string, Stop>, of: (stop: Stop) => number): number {
  return [...stops.values()].reduce((total, stop) => total + of(stop), 0);
}

/** A stop is as tall as its rate; its label needs a row. */
function slotOf(stop: Stop, scale: number): number {
  return Math.max(ROW_PX, rateOf(stop) * scale);
}

function heightOf(stops: ReadonlyMap<string, Stop>, scale: number): number {
  return sum(stops, (stop) => slotOf(stop, scale) + GAP_PX) + GAP_PX;
}

/** What a column has less than the tallest is spread between its stops. */
function place(stops: ReadonlyMap<string, Stop>, { scale, height }: { scale: number; height: number }): void {
  const gap = GAP_PX + (height - heightOf(stops, scale)) / (stops.size + 1);
  let y = gap;
  for (const stop of stops.values()) {
    const slot = slotOf(stop, scale);
    stop.height = Math.max(4, rateOf(stop) * scale);
    stop.y = y + (slot - stop.height) / 2;
    y += slot + gap;
  }
}

function yOf(stops: ReadonlyMap<string, Stop> | undefined, name: string): number {
  return stops?.get(name)?.y ?? 0;
}
