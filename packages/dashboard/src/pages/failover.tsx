import { type Following, rate } from "../live.ts";
import { Bar } from "../parts/bar.tsx";
import { Card } from "../parts/card.tsx";
import { DecisionTable } from "../parts/decision-table.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { Head } from "../parts/head.tsx";
import { PageHead } from "../parts/page-head.tsx";
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
      <PageHead title="Failover">
        Step 5: what failed, what was done about it, and which nodes get nothing for now.
      </PageHead>
      <dl class="tiles">
        <Tile
          name="Re-dispatched"
          value={count(rate(following, ({ totals }) => totals.redispatches))}
          unit="/s"
          note={`${count(now?.totals.redispatches)} since the start`}
        />
        <Tile name="Given up" value={count(now?.totals.endings["given_up"])} note="since the start" />
        <Tile name="Broken answers" value={count(now?.totals.endings["interrupted"])} note="since the start" />
        <Tile name="Nodes out" value={count(out.length)} {...(out.length > 0 ? { tone: "warn" as const } : {})} />
      </dl>
      <div class="columns">
        <Card title="Nodes that take no traffic, or little">
          {out.length === 0 && <p class="empty">Every node is healthy.</p>}
          <ul class="rows">
            {out.slice(0, ROWS_MAX).map((row) => {
              const state = now?.states[now.columns.state[row] ?? -1] ?? "unknown";
              const left = now?.columns.cooldown_ms[row] ?? null;
              return (
                <li key={names.id[row]}>
                  <span class={`state ${state}`}>{plain(state)}</span>{" "}
                  <a href={`#/availability?find=${encodeURIComponent(names.id[row] ?? "")}`}>{names.id[row]}</a>{" "}
                  <small>{names.family[row]}</small>
                  {left !== null && `, for ${ms(left)}`}
                </li>
              );
            })}
          </ul>
          {out.length > ROWS_MAX && (
            <p class="quiet">
              {count(out.length - ROWS_MAX)} more are under <a href="#/availability">availability</a>.
            </p>
          )}
        </Card>
        <Card title="Nodes that failed attempts since the start">
          {troubled.length === 0 && <p class="empty">No attempt has failed.</p>}
          {troubled.length > 0 && (
            <table>
              <thead>
                <tr>
                  <Head title="Node" />
                  <Head title="Failed" isNumber />
                  <Head title="Of its attempts" isNumber />
                </tr>
              </thead>
              <tbody>
                {troubled.map((row) => {
                  const failed = now?.columns.failed[row] ?? 0;
                  return (
                    <tr key={names.id[row]}>
                      <th scope="row">{names.id[row]}</th>
                      <td class="number">{count(failed)}</td>
                      <td class="number">
                        <Bar share={failed / Math.max(1, now?.columns.attempts[row] ?? 0)} tone="bad" />
                        <span class="figure">{percent(failed / Math.max(1, now?.columns.attempts[row] ?? 0))}</span>
                      </td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          )}
        </Card>
      </div>
      <Card title="Requests that went to a second node">
        <ErrorBox error={moved.error} />
        {moved.value !== null && (
          <DecisionTable decisions={moved.value.items} empty="None of those that are remembered." />
        )}
      </Card>
    </section>
  );
}

const ROWS_MAX = 50;
