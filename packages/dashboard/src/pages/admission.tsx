import { type Following, rate } from "../live.ts";
import { policyKey } from "../live-model.ts";
import { Bar } from "../parts/bar.tsx";
import { Card } from "../parts/card.tsx";
import { Chart } from "../parts/chart.tsx";
import { Head } from "../parts/head.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tile } from "../parts/tile.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { HistoryColumns } from "../types.ts";
import { count, percent, plain } from "../words.ts";
import { attainmentOf } from "./overview.tsx";

const HISTORY_EVERY_MS = 5_000;

const ENDINGS: Readonly<Record<string, string>> = {
  delivered: "the caller has the node's answer",
  refused: "refused before routing: a wrong key, body, model or policy, or a limit",
  incapable: "every node of the chain lacks something that it needs",
  saturated: "no node had room, or none was healthy",
  parked_in_vain: "it waited for room in vain",
  given_up: "nothing more was tried after failures",
  interrupted: "the answer broke after it had begun",
  over_time: "timeouts.total_ms passed",
  cancelled: "the caller left",
  drained: "the gateway stopped",
  internal_error: "a fault of the gateway's own",
};

/** What came in, how it ended, and what waits for room. */
export function AdmissionPage({ following }: { following: Following }) {
  const history = useAnswer<HistoryColumns>("/history", HISTORY_EVERY_MS).value;
  const { now } = following;
  const saturated = rate(
    following,
    ({ totals: { endings: by } }) => (by["saturated"] ?? 0) + (by["parked_in_vain"] ?? 0),
  );
  return (
    <section>
      <PageHead title="Admission">
        Step 1: a request comes in, its key and limits are checked, and its policy is found. When no node has room it is
        refused, or waits where its policy says so.
      </PageHead>
      <dl class="tiles">
        <Tile
          name="Requests"
          value={count(rate(following, ({ totals }) => totals.requests))}
          unit="/s"
          line={history?.requests_per_second}
        />
        <Tile name="Within target" value={percent(attainmentOf(following))} note="of requests whose policy has one" />
        <Tile name="Refused" value={count(rate(following, ({ totals }) => totals.endings["refused"] ?? 0))} unit="/s" />
        <Tile
          name="Saturated"
          value={count(saturated)}
          unit="/s"
          tone={saturated !== null && saturated > 0 ? "bad" : undefined}
          note="no node had room"
        />
        <Tile
          name="Waiting for room"
          value={count(now?.totals.parked)}
          tone={(now?.totals.parked ?? 0) > 0 ? "warn" : undefined}
          line={history?.parked}
        />
      </dl>
      <div class="columns">
        <Chart
          title="Waiting for room"
          atMs={history?.at_ms ?? []}
          lines={[{ label: "requests", values: history?.parked ?? [], colour: 3 }]}
          format={count}
        />
        <Chart
          title="Within target"
          atMs={history?.at_ms ?? []}
          lines={[{ label: "share", values: history?.attainment ?? [], colour: 4 }]}
          format={percent}
          max={1}
        />
      </div>
      <Attainment following={following} />
      <Endings endings={now?.totals.endings ?? {}} />
    </section>
  );
}

/** Policies whose requests have a target, the busiest first. */
const POLICIES_MAX = 50;

function Attainment({ following: { now, before } }: { following: Following }) {
  const policies = (now?.attainment ?? []).toSorted((a, b) => b.judged - a.judged);
  const was = new Map(before?.attainment.map((policy) => [policyKey(policy), policy]));
  const isShared = new Set(policies.map(({ account }) => account)).size > 1;
  return (
    <Card title="Within target, by policy">
      {policies.length === 0 && <p class="empty">No request of a policy with a target has ended yet.</p>}
      {policies.length > 0 && (
        <table>
          <thead>
            <tr>
              <Head title="Policy" />
              <Head title="Last seconds" isNumber />
              <Head title="Since the start" isNumber />
              <Head title="Requests" isNumber isMinor />
            </tr>
          </thead>
          <tbody>
            {policies.slice(0, POLICIES_MAX).map((policy) => {
              const last = was.get(policyKey(policy));
              const judged = policy.judged - (last?.judged ?? 0);
              const recent =
                judged > 0 && last !== undefined ? (policy.within_target - last.within_target) / judged : null;
              return (
                <tr key={policyKey(policy)}>
                  <th scope="row">
                    {isShared ? `${policy.account} · ` : ""}
                    {policy.policy}
                  </th>
                  <td class="number">{percent(recent)}</td>
                  <td class="number">
                    <Bar share={policy.within_target / policy.judged} />
                    <span class="figure">{percent(policy.within_target / policy.judged)}</span>
                  </td>
                  <td class="number minor">{count(policy.judged)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Endings({ endings }: { endings: Readonly<Record<string, number>> }) {
  const seen = Object.entries(endings)
    .filter(([, requests]) => requests > 0)
    .sort(([, a], [, b]) => b - a);
  const never = Object.keys(endings).filter((ending) => endings[ending] === 0);
  const all = seen.reduce((sum, [, requests]) => sum + requests, 0);
  return (
    <Card title="How requests ended since the start">
      {seen.length === 0 && <p class="empty">No request has ended yet.</p>}
      {seen.length > 0 && (
        <table>
          <thead>
            <tr>
              <Head title="Ending" />
              <Head title="Meaning" isMinor />
              <Head title="Requests" isNumber />
              <Head title="Share" isNumber />
            </tr>
          </thead>
          <tbody>
            {seen.map(([ending, requests]) => (
              <tr key={ending}>
                <th scope="row">{plain(ending)}</th>
                <td class="text minor quiet">{ENDINGS[ending] ?? ""}</td>
                <td class="number">{count(requests)}</td>
                <td class="number">
                  <Bar share={requests / all} tone={WANTED.has(ending) ? undefined : "bad"} />
                  <span class="figure">{percent(requests / all)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {seen.length > 0 && never.length > 0 && <p class="quiet">None so far: {never.map(plain).join(", ")}.</p>}
    </Card>
  );
}

/** Endings that nobody has to look at. */
const WANTED: ReadonlySet<string> = new Set(["delivered", "cancelled"]);
