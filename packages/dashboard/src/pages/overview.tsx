import { type Following, rate } from "../live.ts";
import type { Live } from "../live-model.ts";
import { Card } from "../parts/card.tsx";
import { Chart } from "../parts/chart.tsx";
import { FleetMap } from "../parts/fleet-map.tsx";
import { FlowPicture } from "../parts/flow-picture.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tile } from "../parts/tile.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { HistoryColumns } from "../types.ts";
import { count, percent, usd } from "../words.ts";
import { savedShare, spentPerHour } from "./cost.tsx";
import { flowLinks } from "./flow-links.ts";

const HISTORY_EVERY_MS = 5_000;
/** Below it the share of requests within their targets stands out. */
const ATTAINMENT_WANTED = 0.95;

/** How the fleet does, in one look. */
export function OverviewPage({ following }: { following: Following }) {
  const history = useAnswer<HistoryColumns>("/history", HISTORY_EVERY_MS).value;
  const { now } = following;
  const healthy = now?.states.indexOf("healthy") ?? -1;
  const nodes = now?.columns.state.length ?? 0;
  const healthyNodes = now?.columns.state.filter((state) => state === healthy).length ?? 0;
  const attainment = attainmentOf(following);
  const saved = savedShare(following);
  const failed = rate(following, ({ totals }) => failedOf(totals.endings));
  return (
    <section>
      <PageHead title="Overview">The gateway and its fleet now. Rates are of the last five seconds.</PageHead>
      <dl class="tiles four">
        <Tile
          name="Requests"
          value={count(rate(following, ({ totals }) => totals.requests))}
          unit="/s"
          line={history?.requests_per_second}
        />
        <Tile
          name="Within target"
          value={percent(attainment)}
          tone={attainment !== null && attainment < ATTAINMENT_WANTED ? "warn" : undefined}
          line={history?.attainment}
        />
        <Tile
          name="Output tokens"
          value={count(rate(following, ({ totals }) => totals.output_tokens))}
          unit="/s"
          line={history?.output_tokens_per_second}
        />
        <Tile
          name="Re-dispatched"
          value={count(rate(following, ({ totals }) => totals.redispatches))}
          unit="/s"
          line={history?.redispatches_per_second}
        />
        <Tile name="Failed" value={count(failed)} unit="/s" tone={failed !== null && failed > 0 ? "bad" : undefined} />
        <Tile
          name="In flight"
          value={count(now?.totals.in_flight)}
          note={`${count(now?.totals.parked)} wait for room`}
        />
        <Tile
          name="Healthy nodes"
          value={`${count(healthyNodes)} of ${count(nodes)}`}
          tone={healthyNodes < nodes ? "warn" : undefined}
          note={healthyNodes < nodes ? <a href="#/failover">what is out</a> : "all take traffic"}
        />
        <Tile
          name="Spent by requests"
          value={usd(spentPerHour(following))}
          unit="/h"
          note={saved === null ? "nothing to compare" : `${percent(Math.abs(saved))} ${saved < 0 ? "dearer" : "saved"}`}
        />
      </dl>
      <div class="columns">
        <Card title="From policies to families">
          <FlowPicture stages={[flowLinks(following)]} label="Requests that ended, by policy and family" />
        </Card>
        <Card title="Nodes">
          <FleetMap following={following} />
        </Card>
      </div>
      <div class="columns">
        <Chart
          title="Requests per second"
          atMs={history?.at_ms ?? []}
          lines={[
            { label: "all", values: history?.requests_per_second ?? [] },
            { label: "failed", values: history?.failed_per_second ?? [], colour: "bad" },
          ]}
          format={count}
        />
        <Chart
          title="Within target"
          atMs={history?.at_ms ?? []}
          lines={[{ label: "share", values: history?.attainment ?? [], colour: 4 }]}
          format={percent}
          max={1}
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
            { label: "on nodes", values: history?.depth ?? [], colour: 2 },
            { label: "waiting for room", values: history?.parked ?? [], colour: 3 },
          ]}
          format={count}
        />
      </div>
    </section>
  );
}

/** Share of the last seconds' requests with a target that met it; null: there were none. */
export function attainmentOf(following: Following): number | null {
  const judged = rate(following, ({ totals }) => totals.judged);
  const within = rate(following, ({ totals }) => totals.within_target);
  return judged !== null && judged > 0 && within !== null ? within / judged : null;
}

function failedOf(endings: Live["totals"]["endings"]): number {
  return ["saturated", "parked_in_vain", "given_up", "interrupted", "over_time", "internal_error"].reduce(
    (sum, ending) => sum + (endings[ending] ?? 0),
    0,
  );
}
