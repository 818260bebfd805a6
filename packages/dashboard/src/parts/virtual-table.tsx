/** A table of which only the rows that are seen exist: 1,000 nodes scroll as smoothly as ten. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

export interface TableColumn {
  readonly key: string;
  readonly title: string;
  readonly isNumber?: boolean;
  /** Left out on narrow screens. */
  readonly isMinor?: boolean;
  readonly cell: (row: number) => ComponentChildren;
}

const ROW_PX = 34;
/** Of the head, with what a scroll bar below takes. */
const HEAD_PX = 48;
/** Rows beyond the edges, so that a quick scroll shows no gap. */
const SPARE_ROWS = 12;

/** @param rows row numbers in the order in which they are shown. */
export function VirtualTable(props: {
  label: string;
  columns: readonly TableColumn[];
  rows: readonly number[];
  sort: { key: string; isDown: boolean };
  onSort: (key: string) => void;
}) {
  const { label, columns, rows, sort, onSort } = props;
  const place = useRef<HTMLElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const look = (): void => {
      const [top, height] = [element.scrollTop, element.clientHeight];
      setView((before) => (isSameView(before, top, height) ? before : { top, height }));
    };
    const watch = new ResizeObserver(look);
    watch.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      watch.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  // an even row first: striding over single rows would draw twice as often
  const first = Math.max(0, (Math.floor(view.top / ROW_PX) - SPARE_ROWS) & ~1);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE_ROWS);
  return (
    <section
      class="scroll"
      ref={place}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
      tabIndex={0}
      aria-label={label}
      style={{ "--rows-height": `${rows.length * ROW_PX + HEAD_PX}px` }}
    >
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map(({ key, title, isNumber, isMinor }) => (
              <th
                key={key}
                scope="col"
                class={classOf(isNumber, isMinor)}
                aria-sort={sort.key !== key ? "none" : sort.isDown ? "descending" : "ascending"}
              >
                <button type="button" onClick={() => onSort(key)}>
                  {title}
                  <span aria-hidden="true">{sort.key === key ? (sort.isDown ? " ↓" : " ↑") : ""}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={first} />
          {rows.slice(first, last).map((row, order) => (
            <Row key={row} row={row} place={first + order + 2} columns={columns} />
          ))}
          <Gap rows={rows.length - last} />
        </tbody>
      </table>
    </section>
  );
}

/** A row that stays in sight while others come and go is not made anew. */
function Row({ row, place, columns }: { row: number; place: number; columns: readonly TableColumn[] }) {
  return useMemo(
    () => (
      <tr aria-rowindex={place}>
        {columns.map(({ key, isNumber, isMinor, cell }) => (
          <td key={key} class={classOf(isNumber, isMinor)}>
            {cell(row)}
          </td>
        ))}
      </tr>
    ),
    [row, place, columns],
  );
}

/** Stands for rows that are not there. */
function Gap({ rows }: { rows: number }) {
  return rows === 0 ? null : <tr style={{ height: `${rows * ROW_PX}px` }} />;
}

/** Whether the same rows are to be there. */
function isSameView(before: { top: number; height: number }, top: number, height: number): boolean {
  return height === before.height && Math.floor(top / ROW_PX) >> 1 === Math.floor(before.top / ROW_PX) >> 1;
}

function classOf(isNumber = false, isMinor = false): string {
  return `${isNumber ? "number" : ""} ${isMinor ? "minor" : ""}`.trim();
}
