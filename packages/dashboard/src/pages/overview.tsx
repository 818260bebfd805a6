import { type Following, rate } from "../live.ts";
import { Chart } from "../parts/chart.tsx";
import { FlowPicture } from "../parts/flow-picture.tsx";
import { Tile } from "../parts/tile.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { HistoryColumns } from "../types.ts";
import { count, percent, usd } from "../words.ts";
import { flowLinks } from "./flow-links.ts";

const HISTORY_EVERY_MS = 5_000;

/** How the fleet does, in one look. */
export function OverviewPage({ following }: { following: Following }) {
  const history = useAnswer<HistoryColumns>("/history", HISTORY_EVERY_MS).value;
  const { now } = following;
  const healthy = now?.states.indexOf("healthy") ?? -1;
  const nodes = now?.columns.state.length ?? 0;
  const healthyNodes = now?.columns.state.filter((state) => state === healthy).length ?? 0;
  const judged = rate(following, ({ totals }) => totals.judged);
  const within = rate(following, ({ totals }) => totals.within_target);
  const attainment = judged !== null && judged > 0 && within !== null ? within / judged : null;
  const failed = rate(following, ({ totals }) => failedOf(totals.endings));
  return (
    <section>
      <h1>Overview</h1>
      <dl class="tiles">
        <Tile name="Requests" value={`${count(rate(following, ({ totals }) => totals.requests))}/s`} />
        <Tile
          name="Within target"
          value={percent(attainment)}
          note="of requests whose policy has one"
          {...(attainment !== null && attainment < 0.95 ? { tone: "warn" as const } : {})}
        />
        <Tile
          name="Failed"
          value={`${count(failed)}/s`}
          {...(failed !== null && failed > 0 ? { tone: "bad" as const } : {})}
        />
        <Tile name="Re-dispatched" value={`${count(rate(following, ({ totals }) => totals.redispatches))}/s`} />
        <Tile
          name="In flight"
          value={count(now?.totals.in_flight)}
          note={`${count(now?.totals.parked)} wait for room`}
        />
        <Tile name="Output" value={`${count(rate(following, ({ totals }) => totals.output_tokens))} tokens/s`} />
        <Tile
          name="Nodes"
          value={`${healthyNodes} of ${nodes}`}
          note="healthy"
          {...(healthyNodes < nodes ? { tone: "warn" as const } : {})}
        />
        <Tile name="Fleet" value={`${usd(now?.totals.price_usd_per_hour)}/h`} note="at known prices" />
      </dl>
      <h2>From policies to families</h2>
      <FlowPicture links={flowLinks(following)} label="Requests that ended, by policy and family" />
      <h2>The last hour</h2>
      <div class="charts">
        <Chart
          title="Requests per second"
          atMs={history?.at_ms ?? []}
          lines={[
            { label: "all", values: history?.requests_per_second ?? [] },
            { label: "failed", values: history?.failed_per_second ?? [], colour: 3 },
          ]}
          format={count}
        />
        <Chart
          title="Within target"
          atMs={history?.at_ms ?? []}
          lines={[{ label: "share", values: history?.attainment ?? [], colour: 2 }]}
          format={percent}
        />
        <Chart
          title="Output tokens per second"
          atMs={history?.at_ms ?? []}
          lines={[{ label: "tokens", values: history?.output_tokens_per_second ?? [], colour: 1 }]}
          format={count}
        />
        <Chart
          title="Requests on the fleet"
          atMs={history?.at_ms ?? []}
          lines={[
            { label: "on nodes", values: history?.depth ?? [], colour: 4 },
            { label: "waiting for room", values: history?.parked ?? [], colour: 3 },
          ]}
          format={count}
        />
      </div>
    </section>
  );
}

function failedOf(endings: Readonly<Record<string, number>>): number {
  return ["saturated", "parked_in_vain", "given_up", "interrupted", "over_time", "internal_error"].reduce(
    (sum, ending) => sum + (endings[ending] ?? 0),
    0,
  );
}
