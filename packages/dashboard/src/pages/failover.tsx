import { type Following, rate } from "../live.ts";
import { DecisionTable } from "../parts/decision-table.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { Head } from "../parts/head.tsx";
import { Tile } from "../parts/tile.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { Decision } from "../types.ts";
import { count, ms, percent, plain } from "../words.ts";

const EVERY_MS = 3_000;

/** What failed, what was done about it, and which nodes are out. */
export function FailoverPage({ following }: { following: Following }) {
  const moved = useAnswer<{ items: readonly Decision[] }>("/decisions?redispatched=true&limit=20", EVERY_MS);
  const { now, names } = following;
  const healthy = now?.states.indexOf("healthy") ?? 0;
  const out = names.id.map((_, row) => row).filter((row) => now?.columns.state[row] !== healthy);
  const troubled = names.id
    .map((_, row) => row)
    .filter((row) => (now?.columns.failed[row] ?? 0) > 0)
    .sort((a, b) => (now?.columns.failed[b] ?? 0) - (now?.columns.failed[a] ?? 0))
    .slice(0, ROWS_MAX);
  return (
    <section>
      <h1>Failover</h1>
      <dl class="tiles">
        <Tile
          name="Re-dispatched"
          value={`${count(rate(following, ({ totals }) => totals.redispatches))}/s`}
          note={`${count(now?.totals.redispatches)} since the start`}
        />
        <Tile name="Given up" value={count(now?.totals.endings["given_up"])} note="since the start" />
        <Tile name="Broken answers" value={count(now?.totals.endings["interrupted"])} note="since the start" />
        <Tile name="Nodes out" value={count(out.length)} {...(out.length > 0 ? { tone: "warn" as const } : {})} />
      </dl>
      <h2>Nodes that take no traffic</h2>
      {out.length === 0 && <p class="quiet">Every node is healthy.</p>}
      <ul class="plain">
        {out.slice(0, ROWS_MAX).map((row) => {
          const state = now?.states[now.columns.state[row] ?? -1] ?? "unknown";
          const left = now?.columns.cooldown_ms[row] ?? null;
          return (
            <li key={names.id[row]}>
              <span class={`state ${state}`}>{plain(state)}</span> {names.id[row]} ({names.family[row]})
              {left !== null && `, for ${ms(left)}`}
            </li>
          );
        })}
      </ul>
      <h2>Nodes that failed attempts since the start</h2>
      {troubled.length === 0 && <p class="quiet">None.</p>}
      {troubled.length > 0 && (
        <table>
          <thead>
            <tr>
              <Head title="Node" />
              <Head title="Failed" isNumber />
              <Head title="Share" isNumber />
            </tr>
          </thead>
          <tbody>
            {troubled.map((row) => {
              const failed = now?.columns.failed[row] ?? 0;
              return (
                <tr key={names.id[row]}>
                  <th scope="row">{names.id[row]}</th>
                  <td class="number">{count(failed)}</td>
                  <td class="number">{percent(failed / Math.max(1, now?.columns.attempts[row] ?? 0))}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      <h2>Requests that went to a second node</h2>
      <ErrorBox error={moved.error} />
      <DecisionTable decisions={moved.value?.items ?? []} empty="None of those that are remembered." />
    </section>
  );
}

const ROWS_MAX = 50;
