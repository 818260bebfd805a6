/** Traffic from policies to families, as wide as its rate. The same numbers stand in a table for those who do not see it. */

import { count } from "../words.ts";

export interface FlowLink {
  readonly from: string;
  readonly to: string;
  /** Requests per second. */
  readonly rate: number;
}

const WIDTH = 720;
const BAR = 12;
const GAP = 10;
const LINKS_MAX = 40;

interface Side {
  readonly name: string;
  readonly rate: number;
  readonly y: number;
  readonly height: number;
  used: number;
}

export function FlowPicture({ links, label }: { links: readonly FlowLink[]; label: string }) {
  const shown = links
    .filter(({ rate }) => rate > 0)
    .toSorted((a, b) => b.rate - a.rate)
    .slice(0, LINKS_MAX);
  if (shown.length === 0) return <p class="quiet">No request ended in the last second.</p>;
  const total = shown.reduce((sum, { rate }) => sum + rate, 0);
  const left = sidesOf(shown, total, ({ from }) => from);
  const right = sidesOf(shown, total, ({ to }) => to);
  const height = Math.max(bottom(left), bottom(right));
  return (
    <div class="flow">
      <svg
        viewBox={`0 0 ${WIDTH} ${height}`}
        role="img"
        aria-label={`${label}: ${shown.map((link) => `${link.from} to ${link.to} ${count(link.rate)} per second`).join("; ")}`}
      >
        {shown.map((link, index) => {
          const from = left.get(link.from);
          const to = right.get(link.to);
          if (from === undefined || to === undefined) return null;
          const thick = thicknessOf(link.rate, total);
          const y0 = from.y + from.used + thick / 2;
          const y1 = to.y + to.used + thick / 2;
          from.used += thick;
          to.used += thick;
          const path = `M ${160 + BAR} ${y0} C ${WIDTH / 2} ${y0}, ${WIDTH / 2} ${y1}, ${WIDTH - 160 - BAR} ${y1}`;
          return (
            <path
              key={`${link.from} ${link.to}`}
              d={path}
              class={`link c${index % 6}`}
              style={{ strokeWidth: thick }}
            />
          );
        })}
        {[...left.values()].map((side) => (
          <g key={side.name}>
            <rect x={160} y={side.y} width={BAR} height={side.height} class="bar" />
            <text x={152} y={side.y + side.height / 2} class="end">
              {cut(side.name)} {count(side.rate)}/s
            </text>
          </g>
        ))}
        {[...right.values()].map((side) => (
          <g key={side.name}>
            <rect x={WIDTH - 160 - BAR} y={side.y} width={BAR} height={side.height} class="bar" />
            <text x={WIDTH - 152} y={side.y + side.height / 2}>
              {cut(side.name)} {count(side.rate)}/s
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}

function thicknessOf(rate: number, total: number): number {
  return Math.max(1.5, (rate / total) * 160);
}

function sidesOf(links: readonly FlowLink[], total: number, nameOf: (link: FlowLink) => string): Map<string, Side> {
  const sides = new Map<string, { rate: number; height: number }>();
  for (const link of links) {
    const side = sides.get(nameOf(link)) ?? { rate: 0, height: 0 };
    sides.set(nameOf(link), { rate: side.rate + link.rate, height: side.height + thicknessOf(link.rate, total) });
  }
  let y = GAP;
  return new Map(
    [...sides].map(([name, { rate, height }]) => {
      const tall = Math.max(16, height);
      const side: Side = { name, rate, y, height: tall, used: (tall - height) / 2 };
      y += tall + GAP;
      return [name, side];
    }),
  );
}

function bottom(sides: ReadonlyMap<string, Side>): number {
  return Math.max(...Array.from(sides.values(), ({ y, height }) => y + height)) + GAP;
}

function cut(name: string): string {
  return name.length > 18 ? `${name.slice(0, 17)}…` : name;
}
