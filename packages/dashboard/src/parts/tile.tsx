import type { ComponentChildren } from "preact";
import type { Column } from "../live-model.ts";

/** One number with its name, what it is compared with, and how it went: the line is for the eye, the number for all. */
export function Tile(props: {
  name: string;
  value: string;
  unit?: string;
  note?: ComponentChildren;
  tone?: "good" | "warn" | "bad" | undefined;
  line?: Column | undefined;
}) {
  const { name, value, unit, note, tone, line } = props;
  const path = line === undefined ? "" : pathOf(line);
  return (
    <div class={`tile ${tone ?? ""} ${path === "" ? "" : "lined"}`}>
      <dt>{name}</dt>
      <dd>
        <strong>
          {value}
          {unit !== undefined && <span class="unit">{unit}</span>}
        </strong>
        {note !== undefined && <small>{note}</small>}
      </dd>
      {path !== "" && (
        <svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
          <path class="tile-line" d={path} />
        </svg>
      )}
    </div>
  );
}

/** Samples that a line of that width can show. */
const SAMPLES = 90;

function pathOf(line: Column): string {
  const values = line.slice(-SAMPLES).filter((value): value is number => value !== null);
  if (values.length < 3) return "";
  const most = Math.max(...values);
  if (most <= 0) return "";
  const points = values.map(
    (value, at) => `${(at * 100) / (values.length - 1)},${(19 - (value / most) * 17).toFixed(2)}`,
  );
  return `M-2,21 L-2,${points[0]?.split(",")[1]} L${points.join(" L")} L102,${points.at(-1)?.split(",")[1]} L102,21 Z`;
}
