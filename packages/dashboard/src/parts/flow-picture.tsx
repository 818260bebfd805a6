/** Traffic through stages, as wide as its rate. The same numbers stand in its label for those who do not see it. */

import { count } from "../words.ts";
import { type FlowNode, layOut } from "./flow-layout.ts";
import { useWidth } from "./use-width.ts";

export interface FlowLink {
  readonly from: string;
  readonly to: string;
  /** Requests per second. */
  readonly rate: number;
  /** Class of its colour. */
  readonly colour?: string | undefined;
}

const BAR = 10;
/** Below it labels of neighbouring columns would touch. */
const TIGHT_PX = 560;

/** @param props.stages links from one column to the next; a name at the end of one stage begins links of the next. */
export function FlowPicture({ stages, label }: { stages: readonly (readonly FlowLink[])[]; label: string }) {
  const [place, width] = useWidth<HTMLDivElement>(720);
  const { columns, links, height } = layOut(stages, { width, bar: BAR });
  const isEmpty = links.length === 0;
  const told = links.map(({ link }) => `${link.from} to ${link.to} ${count(link.rate)} per second`).join("; ");
  return (
    <div class="flow" ref={place}>
      {isEmpty && <p class="empty">No request ended in the last seconds.</p>}
      {!isEmpty && (
        <svg
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="img"
          aria-label={`${label}: ${told}`}
        >
          {links.map(({ link, path, thickness }) => (
            <path
              key={`${link.from}\n${link.to}`}
              d={path}
              class={`flow-link ${link.colour ?? ""}`}
              style={{ strokeWidth: `${thickness}px` }}
            />
          ))}
          {columns.map((nodes, column) =>
            nodes.map((node) => {
              const isLast = column === columns.length - 1;
              const isTight = width < TIGHT_PX && column > 0 && !isLast;
              return <Stop key={node.name} node={node} isLast={isLast} isTight={isTight} />;
            }),
          )}
        </svg>
      )}
    </div>
  );
}

/** @param props.isTight there is room for the name only. */
function Stop({ node, isLast, isTight }: { node: FlowNode; isLast: boolean; isTight: boolean }) {
  const { name, rate, x, y, height, colour } = node;
  return (
    <g class={colour}>
      <rect class="flow-bar" x={x} y={y} width={BAR} height={height} rx={3} />
      <text x={isLast ? x - 7 : x + BAR + 7} y={y + height / 2} text-anchor={isLast ? "end" : "start"}>
        {cut(name)} {!isTight && <tspan class="value">{count(rate)}/s</tspan>}
      </text>
    </g>
  );
}

function cut(name: string): string {
  return name.length > 24 ? `${name.slice(0, 23)}…` : name;
}
