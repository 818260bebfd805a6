/** Plots as SVG: lines over two axes, small enough to stand in the repository. */

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [number, number])[];
  /** Of our own: thicker and in colour; others are grey. */
  readonly isOwn: boolean;
}

export interface Plot {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly lines: readonly Line[];
  /** Ends of the axes; absent: those of the points. */
  readonly yFrom?: number;
  readonly yTo?: number;
  readonly xFrom?: number;
}

const WIDTH = 720;
const HEIGHT = 420;
const BOX = { left: 60, right: 580, top: 36, bottom: 370 };
const OWN = ["#0b6e4f", "#1f5fbf", "#b3541e"];
/** Grey lines are told apart by their dashes. */
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4", "12 3"];

/** One plot. Names stand at the right, beside the last point where there is room. */
export function svgOf(plot: Plot): string {
  const points = plot.lines.flatMap((line) => line.points);
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const xTicks = ticksOf(plot.xFrom ?? Math.min(...xs), Math.max(...xs));
  const yTicks = ticksOf(plot.yFrom ?? Math.min(...ys), plot.yTo ?? Math.max(...ys));
  const scale = (ticks: readonly number[], from: number, to: number) => {
    const first = ticks[0] ?? 0;
    const last = ticks.at(-1) ?? 1;
    return (value: number) => from + ((Math.min(last, Math.max(first, value)) - first) / (last - first)) * (to - from);
  };
  const atX = scale(xTicks, BOX.left, BOX.right);
  const atY = scale(yTicks, BOX.bottom, BOX.top);
  const parts = [
    ...xTicks.map((value) => tick(atX(value), BOX.bottom + 16, "middle", value)),
    ...yTicks.map((value) => tick(BOX.left - 6, atY(value) + 4, "end", value)),
    ...yTicks.map(
      (value) => `<path d="M${BOX.left} ${at(atY(value))}H${BOX.right}" stroke="#ddd" stroke-width="0.7"/>`,
    ),
    `<path d="M${BOX.left} ${BOX.top}V${BOX.bottom}H${BOX.right}" fill="none" stroke="#444"/>`,
    `<text x="${BOX.left}" y="20" font-weight="bold">${escaped(plot.title)}</text>`,
    `<text x="${(BOX.left + BOX.right) / 2}" y="${HEIGHT - 12}" text-anchor="middle">${escaped(plot.x)}</text>`,
    `<text transform="translate(16 ${(BOX.top + BOX.bottom) / 2}) rotate(-90)" text-anchor="middle">${escaped(plot.y)}</text>`,
  ];
  const places = plot.lines.map((line) => atY(line.points.at(-1)?.[1] ?? 0));
  const spread = spreadOf(places, 13);
  let own = 0;
  let grey = 0;
  for (const [index, line] of plot.lines.entries()) {
    const colour = line.isOwn ? (OWN[own++ % OWN.length] as string) : "#777";
    const dash = line.isOwn ? "" : (DASHES[grey++ % DASHES.length] as string);
    const path = line.points.map(([x, y], place) => `${place === 0 ? "M" : "L"}${at(atX(x))} ${at(atY(y))}`).join("");
    parts.push(
      `<path d="${path}" fill="none" stroke="${colour}" stroke-width="${line.isOwn ? 2.2 : 1.1}"${dash === "" ? "" : ` stroke-dasharray="${dash}"`}/>`,
      ...line.points.map(
        ([x, y]) => `<circle cx="${at(atX(x))}" cy="${at(atY(y))}" r="${line.isOwn ? 3 : 2}" fill="${colour}"/>`,
      ),
    );
    const last = line.points.at(-1);
    if (last === undefined) continue;
    const y = spread[index] as number;
    parts.push(
      `<path d="M${at(atX(last[0]))} ${at(atY(last[1]))}L${BOX.right + 18} ${at(y)}" stroke="#bbb" stroke-width="0.6"/>`,
      `<text x="${BOX.right + 22}" y="${at(y + 4)}" fill="${colour}"${line.isOwn ? ' font-weight="bold"' : ""}>${escaped(line.name)}</text>`,
    );
  }
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="11">`;
  return [head, `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`, ...parts, "</svg>", ""].join("\n");
}

/** Round numbers that enclose a range, four to nine of them. */
export function ticksOf(from: number, to: number): number[] {
  const range = to > from ? to - from : Math.abs(from) || 1;
  const power = 10 ** Math.floor(Math.log10(range / 4));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => range / size <= 7) ?? 10 * power;
  const first = Math.floor(from / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(to / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** Places at least so far apart, in the same order, near where they want to be. */
function spreadOf(wanted: readonly number[], gap: number): number[] {
  const order = wanted.map((place, index) => ({ place, index })).sort((a, b) => a.place - b.place);
  const spread = new Array<number>(wanted.length).fill(0);
  let low = BOX.top;
  for (const { place, index } of order) {
    low = Math.max(low, place);
    spread[index] = low;
    low += gap;
  }
  const over = low - gap - BOX.bottom;
  return over > 0 ? spread.map((place) => place - over) : spread;
}

function tick(x: number, y: number, anchor: string, value: number): string {
  return `<text x="${at(x)}" y="${at(y)}" text-anchor="${anchor}" fill="#444">${value}</text>`;
}

function at(value: number): string {
  return value.toFixed(1);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
