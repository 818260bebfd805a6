/** Every node as a square, by family, as full as it is: 1,000 nodes in one look. The table of availability says the same. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Following } from "../live.ts";
import type { Live } from "../live-model.ts";
import { count, percent, plain } from "../words.ts";
import { Bar } from "./bar.tsx";
import { Head } from "./head.tsx";
import { useWidth } from "./use-width.ts";

interface Family {
  readonly name: string;
  /** Rows of its nodes. */
  readonly rows: readonly number[];
  readonly healthy: number;
  /** Of the room of its healthy nodes; null: they have none. */
  readonly use: number | null;
}

/** Side of a square with its gap, px, by how many there are. */
const SIZES: readonly (readonly [number, number])[] = [
  [48, 22],
  [300, 14],
  [1_500, 9],
  [Number.POSITIVE_INFINITY, 5],
];

export function FleetMap({ following }: { following: Following }) {
  const { now } = following;
  const [pointed, setPointed] = useState<number | null>(null);
  if (now === null) return <p class="empty">Waiting for the fleet…</p>;
  if (now.names.id.length === 0) return <p class="empty">No node is registered.</p>;
  if (now.names.id.length <= LISTED_MAX) return <NodeList now={now} />;
  return (
    <div class="map">
      {familiesOf(now).map((family) => (
        <FamilyMap key={family.name} family={family} now={now} onPoint={setPointed} />
      ))}
      <div class="legend">
        {pointed === null ? (
          <>
            <span>the fuller, the darker</span>
            <span style={{ "--swatch": "var(--warn)" }}>
              <i class="swatch" aria-hidden="true" />
              cooling down or on trial
            </span>
            <span class="bad-key">
              <i class="swatch" aria-hidden="true" />
              takes no traffic
            </span>
          </>
        ) : (
          <span>{toldNode(now, pointed)}</span>
        )}
      </div>
    </div>
  );
}

/** A fleet that small is read, not looked at. */
const LISTED_MAX = 14;

function NodeList({ now }: { now: Live }) {
  const { names, columns } = now;
  return (
    <table class="nodes">
      <thead>
        <tr>
          <Head title="Node" />
          <Head title="State" />
          <Head title="Places taken" isNumber />
          <Head title="Tokens/s" isNumber isMinor />
        </tr>
      </thead>
      <tbody>
        {names.id.map((id, row) => {
          const state = stateAt(now, row);
          const [depth, most] = [columns.depth[row] ?? 0, columns.max_in_flight[row] ?? 0];
          return (
            <tr key={id}>
              <th scope="row">
                <a href={`#/availability?find=${encodeURIComponent(id)}`}>{id}</a>
              </th>
              <td>
                <span class={`state ${state}`}>{plain(state)}</span>
              </td>
              <td class="number">
                <Bar share={most > 0 ? depth / most : null} />
                <span class="figure">
                  {count(depth)} / {count(most)}
                </span>
              </td>
              <td class="number minor">{count(columns.tokens_per_second[row])}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function FamilyMap(props: { family: Family; now: Live; onPoint: (row: number | null) => void }) {
  const { family, now, onPoint } = props;
  const [place, width] = useWidth<HTMLDivElement>(480);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = SIZES.find(([most]) => family.rows.length <= most)?.[1] ?? 5;
  const across = Math.max(1, Math.floor(width / size));
  const height = Math.ceil(family.rows.length / across) * size;
  useEffect(() => {
    const draw = (): void => {
      if (canvas.current !== null) paint(canvas.current, { family, now, size, across, width, height });
    };
    draw();
    addEventListener("zml-theme", draw);
    return () => removeEventListener("zml-theme", draw);
  }, [now, width]);
  const rowAt = (event: MouseEvent): number | null => {
    const column = Math.floor(event.offsetX / size);
    if (column >= across) return null;
    return family.rows[Math.floor(event.offsetY / size) * across + column] ?? null;
  };
  const told = `${family.healthy} of ${family.rows.length} healthy`;
  return (
    <div class="family" ref={place}>
      <div class="head">
        <span>{family.name}</span>
        <small>
          {told}, {percent(family.use)} in use
        </small>
      </div>
      <canvas
        ref={canvas}
        style={{ height: `${height}px` }}
        role="img"
        aria-label={`${family.name}: ${told}, ${percent(family.use)} of their room in use`}
        onMouseMove={(event) => onPoint(rowAt(event))}
        onMouseLeave={() => onPoint(null)}
        onClick={(event) => {
          const row = rowAt(event);
          if (row !== null) location.hash = `#/availability?find=${encodeURIComponent(now.names.id[row] ?? "")}`;
        }}
      />
    </div>
  );
}

function paint(
  canvas: HTMLCanvasElement,
  scene: { family: Family; now: Live; size: number; across: number; width: number; height: number },
): void {
  const { family, now, size, across, width, height } = scene;
  const density = devicePixelRatio;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const [well, accent, warn, bad, card] = ["--well", "--accent", "--warn", "--bad", "--card"].map(colour) as [
    string,
    string,
    string,
    string,
    string,
  ];
  pen.scale(density, density);
  const side = size - (size > 12 ? 3 : size > 6 ? 2 : 1);
  family.rows.forEach((row, at) => {
    const [x, y] = [(at % across) * size, Math.floor(at / across) * size];
    const state = stateAt(now, row);
    const isOut = state === "unhealthy" || state === "draining" || state === "not_polled";
    pen.fillStyle = isOut ? bad : state === "healthy" ? well : warn;
    pen.fillRect(x, y, side, side);
    if (state === "healthy") {
      pen.globalAlpha = useAt(now, row);
      pen.fillStyle = accent;
      pen.fillRect(x, y, side, side);
      pen.globalAlpha = 1;
    } else if (isOut && side > 4) {
      // not by its colour alone
      pen.strokeStyle = card;
      pen.lineWidth = side > 10 ? 2 : 1;
      pen.beginPath();
      pen.moveTo(x, y + side);
      pen.lineTo(x + side, y);
      pen.stroke();
    }
  });
}

/** How full a node is, 0 to 1, with a first step for any request at all. */
function useAt(now: Live, row: number): number {
  const depth = now.columns.depth[row] ?? 0;
  const most = now.columns.max_in_flight[row] ?? 0;
  if (depth <= 0) return 0;
  return Math.min(1, 0.2 + (0.8 * depth) / Math.max(1, most));
}

function stateAt(now: Live, row: number): string {
  return now.states[now.columns.state[row] ?? -1] ?? "unknown";
}

function toldNode(now: Live, row: number): string {
  const { id } = now.names;
  const { depth, max_in_flight } = now.columns;
  return `${id[row]}: ${plain(stateAt(now, row))}, ${count(depth[row])} of ${count(max_in_flight[row])} places taken`;
}

function familiesOf(now: Live): Family[] {
  const rows = new Map<string, number[]>();
  now.names.family.forEach((name, row) => {
    const family = rows.get(name);
    if (family === undefined) rows.set(name, [row]);
    else family.push(row);
  });
  return Array.from(rows, ([name, ofFamily]): Family => {
    const healthy = ofFamily.filter((row) => stateAt(now, row) === "healthy");
    const room = healthy.reduce((sum, row) => sum + (now.columns.max_in_flight[row] ?? 0), 0);
    const depth = healthy.reduce((sum, row) => sum + (now.columns.depth[row] ?? 0), 0);
    return { name, rows: ofFamily, healthy: healthy.length, use: room > 0 ? depth / room : null };
  }).sort((a, b) => (a.name < b.name ? -1 : 1));
}
