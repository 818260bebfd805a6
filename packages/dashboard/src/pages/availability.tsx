import { useEffect, useMemo, useState } from "preact/hooks";
import type { Following } from "../live.ts";
import type { Column } from "../live-model.ts";
import { Bar } from "../parts/bar.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { type TableColumn, VirtualTable } from "../parts/virtual-table.tsx";
import { count, ms, plain, usd } from "../words.ts";

/** A node that is that full stands out. */
const FULL = 0.9;

/** Every node as decisions see it. */
export function AvailabilityPage({ following, find }: { following: Following; find: string }) {
  const [sort, setSort] = useState({ key: "id", isDown: false });
  const [wanted, setWanted] = useState(find);
  const [state, setState] = useState("");
  const { now, names } = following;
  const rows = useMemo(() => rowsOf(following, { wanted, state, sort }), [following, wanted, state, sort]);
  useEffect(() => setWanted(find), [find]);
  if (now === null) return <p class="empty">Waiting for the fleet…</p>;
  const { columns, states } = now;
  const stateOf = (row: number): string => states[columns.state[row] ?? -1] ?? "unknown";
  const number = (
    key: string,
    title: string,
    of: Column,
    format: (value: number | null) => string,
    isMinor = false,
  ): TableColumn => ({
    key,
    title,
    isNumber: true,
    isMinor,
    cell: (row) => format(of[row] ?? null),
  });
  const table: TableColumn[] = [
    {
      key: "id",
      title: "Node",
      cell: (row) => <a href={`#/decisions?node=${encodeURIComponent(names.id[row] ?? "")}`}>{names.id[row]}</a>,
    },
    { key: "family", title: "Family", isMinor: true, cell: (row) => names.family[row] },
    {
      key: "state",
      title: "State",
      cell: (row) => (
        <span class={`state ${stateOf(row)}`}>
          {plain(stateOf(row))}
          {(columns.cooldown_ms[row] ?? null) !== null && ` ${ms(columns.cooldown_ms[row])}`}
        </span>
      ),
    },
    {
      key: "depth",
      title: "Depth / room",
      isNumber: true,
      cell: (row) => {
        const most = columns.max_in_flight[row] ?? 0;
        const depth = columns.depth[row] ?? 0;
        return (
          <>
            <Bar share={most > 0 ? depth / most : null} tone={depth >= most * FULL ? "warn" : undefined} />
            <span class="figure">
              {count(depth)} / {count(most)}
            </span>
          </>
        );
      },
    },
    number("waiting", "Waiting", columns.waiting, count, true),
    number("tokens_per_second", "Tokens/s", columns.tokens_per_second, count),
    number("health_score", "Health", columns.health_score, count),
    number("price_usd_per_hour", "Price/h", columns.price_usd_per_hour, usd),
    number("data_age_ms", "Age", columns.data_age_ms, ms, true),
    { key: "engine", title: "Engine", isMinor: true, cell: (row) => names.engine[row] ?? "not detected" },
  ];
  return (
    <section>
      <PageHead title="Availability">
        Step 2: every node as a decision would find it now. A dash is a number that nobody knows; <code>zml nodes</code>{" "}
        says why.
      </PageHead>
      <div class="filters">
        <label>
          Node or family{" "}
          <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        </label>
        <label>
          State{" "}
          <select value={state} onChange={(event) => setState(event.currentTarget.value)}>
            <option value="">all</option>
            {states.map((name) => (
              <option key={name} value={name}>
                {plain(name)}
              </option>
            ))}
          </select>
        </label>
        <span class="quiet" role="status">
          {rows.length} of {names.id.length} nodes
        </span>
      </div>
      <VirtualTable
        label="Nodes"
        columns={table}
        rows={rows}
        sort={sort}
        onSort={(key) => setSort({ key, isDown: sort.key === key ? !sort.isDown : key !== "id" && key !== "family" })}
      />
    </section>
  );
}

function rowsOf(
  { now, names }: Following,
  { wanted, state, sort }: { wanted: string; state: string; sort: { key: string; isDown: boolean } },
): number[] {
  if (now === null) return [];
  const words = wanted.trim().toLowerCase();
  const stateIndex = state === "" ? -1 : now.states.indexOf(state);
  const rows = names.id
    .map((_, row) => row)
    .filter((row) => {
      if (stateIndex >= 0 && now.columns.state[row] !== stateIndex) return false;
      if (words === "") return true;
      return `${names.id[row]} ${names.family[row]} ${names.engine[row] ?? ""}`.toLowerCase().includes(words);
    });
  const keyOf = (row: number): string | number => {
    switch (sort.key) {
      case "id":
      case "family":
      case "engine":
        return names[sort.key][row] ?? "";
      default:
        // what is unknown comes last, whichever way
        return (
          (now.columns[sort.key as keyof typeof now.columns] as Column)[row] ?? (sort.isDown ? -Infinity : Infinity)
        );
    }
  };
  const direction = sort.isDown ? -1 : 1;
  return rows.sort((a, b) => {
    const [left, right] = [keyOf(a), keyOf(b)];
    return left < right ? -direction : left > right ? direction : a - b;
  });
}
