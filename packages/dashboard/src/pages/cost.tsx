import type { PriceHistoryJson, PricesReportJson } from "@zml/protocol/admin";
import { type Following, rate } from "../live.ts";
import { Bar } from "../parts/bar.tsx";
import { Card } from "../parts/card.tsx";
import { Chart } from "../parts/chart.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { Head } from "../parts/head.tsx";
import { MoneyTable } from "../parts/money-table.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Tile } from "../parts/tile.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { HistoryColumns } from "../types.ts";
import { count, ms, percent, usd } from "../words.ts";

const SECONDS_PER_HOUR = 3_600;
const PRICES_EVERY_MS = 10_000;

/** What the fleet costs, what a million tokens cost on each family, and where prices come from. */
export function CostPage({ following }: { following: Following }) {
  const prices = useAnswer<PricesReportJson>("/prices", PRICES_EVERY_MS);
  const history = useAnswer<HistoryColumns>("/history", PRICES_EVERY_MS).value;
  return (
    <section>
      <PageHead title="Cost">
        Step 3: what an answer costs on each family, which is what decisions compare, and what requests did cost.
      </PageHead>
      <MoneyTiles following={following} history={history} />
      <div class="columns">
        <Chart
          title="What requests cost per hour"
          atMs={history?.at_ms ?? []}
          lines={[
            { label: "spent", values: history?.cost_usd_per_hour ?? [], colour: 0 },
            { label: "saved", values: history?.savings_usd_per_hour ?? [], colour: 4 },
            { label: "failed attempts", values: history?.failed_cost_usd_per_hour ?? [], colour: "bad" },
          ]}
          format={usd}
        />
        <Families following={following} />
      </div>
      <MoneyTable />
      <div class="columns">
        <Feeds feeds={prices.value?.feeds ?? null} />
        <Chart
          title="Price of the fleet per hour"
          atMs={history?.at_ms ?? []}
          lines={[{ label: "USD", values: history?.price_usd_per_hour ?? [], colour: 3 }]}
          format={usd}
        />
      </div>
      <ErrorBox error={prices.error} />
      <PriceCharts prices={prices.value?.prices ?? []} />
    </section>
  );
}

/** Dollars per hour over the last seconds; null: nothing ended. */
export function spentPerHour(following: Following): number | null {
  const perSecond = rate(following, ({ totals }) => totals.cost_usd);
  return perSecond === null ? null : perSecond * SECONDS_PER_HOUR;
}

/** Share of the baseline that was saved over the last seconds; null: there is none. */
export function savedShare(following: Following): number | null {
  const baseline = rate(following, ({ totals }) => totals.baseline_cost_usd);
  const compared = rate(following, ({ totals }) => totals.compared_cost_usd);
  return baseline !== null && compared !== null && baseline > 0 ? (baseline - compared) / baseline : null;
}

function MoneyTiles({ following, history }: { following: Following; history: HistoryColumns | null }) {
  const { now } = following;
  const spent = spentPerHour(following);
  const tokens = rate(following, ({ totals }) => totals.input_tokens + totals.output_tokens);
  const perMillion = spent !== null && tokens !== null && tokens > 0 ? (spent / SECONDS_PER_HOUR / tokens) * 1e6 : null;
  const fleet = now?.totals.price_usd_per_hour ?? null;
  const share = savedShare(following);
  const failed = rate(following, ({ totals }) => totals.failed_cost_usd);
  return (
    <dl class="tiles">
      <Tile name="Spent by requests" value={usd(spent)} unit="/h" line={history?.cost_usd_per_hour} />
      <Tile
        name="Saved"
        value={percent(share)}
        note="against the preferred family"
        tone={share === null ? undefined : share < 0 ? "warn" : "good"}
      />
      <Tile name="Per million tokens" value={usd(perMillion)} note="in and out" />
      <Tile
        name="Failed attempts"
        value={usd(failed === null ? null : failed * SECONDS_PER_HOUR)}
        unit="/h"
        line={history?.failed_cost_usd_per_hour}
      />
      <Tile
        name="Fleet"
        value={usd(fleet)}
        unit="/h"
        note={
          spent !== null && fleet !== null && fleet > 0 ? `${percent(spent / fleet)} of it in use` : "at known prices"
        }
      />
    </dl>
  );
}

function Families({ following }: { following: Following }) {
  const families = familiesOf(following);
  const dearest = Math.max(0, ...families.map(({ usdPerMillion }) => usdPerMillion ?? 0));
  return (
    <Card title="Families at full use">
      <table>
        <thead>
          <tr>
            <Head title="Family" />
            <Head title="Nodes" isNumber />
            <Head title="Price/h" isNumber />
            <Head title="Tokens/s" isNumber isMinor />
            <Head title="Per million tokens" isNumber />
          </tr>
        </thead>
        <tbody>
          {families.map((family) => (
            <tr key={family.name}>
              <th scope="row">{family.name}</th>
              <td class="number">{family.nodes}</td>
              <td class="number">{usd(family.priceUsdPerHour)}</td>
              <td class="number minor">{count(family.tokensPerSecond)}</td>
              <td class="number">
                <Bar share={dearest > 0 && family.usdPerMillion !== null ? family.usdPerMillion / dearest : null} />
                <span class="figure">{usd(family.usdPerMillion)}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="quiet">Price ÷ capacity: less than what a node costs that is idle.</p>
    </Card>
  );
}

function Feeds({ feeds }: { feeds: PricesReportJson["feeds"] | null }) {
  if (feeds === null) return null;
  return (
    <Card title="Price feeds">
      {feeds.length === 0 && (
        <p class="empty">None is configured: prices are those that nodes state in the configuration.</p>
      )}
      <ul class="rows">
        {feeds.map((feed) => (
          <li key={feed.name}>
            <span class={`state ${feed.state}`}>{feed.state}</span> {feed.name}{" "}
            <small>
              {feed.provider}, {feed.keys} prices, confirmed{" "}
              {feed.last_success_age_ms === null ? "never" : `${ms(feed.last_success_age_ms)} ago`}
            </small>
            {feed.error !== null && <p class="alarm">{feed.error}</p>}
            {feed.alarms.map(({ text }) => (
              <p key={text} class="alarm warn">
                {text}
              </p>
            ))}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Charts of prices that changed; what is beyond is in `zml prices`. */
const CHARTS_MAX = 12;

function PriceCharts({ prices }: { prices: PricesReportJson["prices"] }) {
  const changed = prices.filter(({ changes }) => changes.length > 1);
  if (changed.length === 0) return null;
  return (
    <>
      <h2>Prices that changed</h2>
      <div class="columns">
        {changed.slice(0, CHARTS_MAX).map(({ key, changes }) => (
          <PriceChart key={key} name={key} changes={changes} />
        ))}
      </div>
      {changed.length > CHARTS_MAX && (
        <p class="quiet">
          {CHARTS_MAX} of {changed.length}; <code>zml prices</code> has all.
        </p>
      )}
    </>
  );
}

/** A price over 30 days, from the gateway's store; what the report remembers until that is there. */
function PriceChart({ name, changes }: { name: string; changes: PricesReportJson["prices"][number]["changes"] }) {
  const { value } = useAnswer<PriceHistoryJson>(`/prices/${encodeURIComponent(name)}/history`, PRICE_HISTORY_EVERY_MS);
  const isTold = value !== null && value.at_ms.length > 0;
  const atMs = isTold ? value.at_ms : changes.map(({ fetched_at_ms }) => fetched_at_ms);
  const prices = isTold ? value.usd_per_gpu_hour : changes.map(({ usd_per_gpu_hour }) => usd_per_gpu_hour);
  return (
    <Chart
      title={name}
      // the last price holds until now
      atMs={[...atMs, Date.now()]}
      lines={[{ label: "per GPU-hour", values: [...prices, prices.at(-1) ?? null] }]}
      format={usd}
      isStepped
    />
  );
}

const PRICE_HISTORY_EVERY_MS = 60_000;

interface FamilyCost {
  readonly name: string;
  nodes: number;
  priceUsdPerHour: number | null;
  tokensPerSecond: number | null;
  usdPerMillion: number | null;
}

function familiesOf({ now, names }: Following): FamilyCost[] {
  const families = new Map<string, FamilyCost>();
  names.family.forEach((name, row) => {
    const family = families.get(name) ?? {
      name,
      nodes: 0,
      priceUsdPerHour: null,
      tokensPerSecond: null,
      usdPerMillion: null,
    };
    family.nodes += 1;
    const price = now?.columns.price_usd_per_hour[row] ?? null;
    const speed = now?.columns.tokens_per_second[row] ?? null;
    if (price !== null) family.priceUsdPerHour = (family.priceUsdPerHour ?? 0) + price;
    if (speed !== null) family.tokensPerSecond = (family.tokensPerSecond ?? 0) + speed;
    families.set(name, family);
  });
  for (const family of families.values()) {
    const { priceUsdPerHour, tokensPerSecond } = family;
    if (priceUsdPerHour === null || tokensPerSecond === null || tokensPerSecond === 0) continue;
    family.usdPerMillion = (priceUsdPerHour / SECONDS_PER_HOUR / tokensPerSecond) * 1e6;
  }
  return [...families.values()].sort((a, b) => (a.usdPerMillion ?? Infinity) - (b.usdPerMillion ?? Infinity));
}
