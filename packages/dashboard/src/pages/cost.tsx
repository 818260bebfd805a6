import type { PricesReportJson } from "@zml/protocol/admin";
import type { Following } from "../live.ts";
import { Chart } from "../parts/chart.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { Head } from "../parts/head.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { HistoryColumns } from "../types.ts";
import { count, ms, usd } from "../words.ts";

const SECONDS_PER_HOUR = 3_600;
const PRICES_EVERY_MS = 10_000;

/** What the fleet costs, what a million tokens cost on each family, and where prices come from. */
export function CostPage({ following }: { following: Following }) {
  const prices = useAnswer<PricesReportJson>("/prices", PRICES_EVERY_MS);
  const history = useAnswer<HistoryColumns>("/history", PRICES_EVERY_MS).value;
  return (
    <section>
      <h1>Cost</h1>
      <h2>Families</h2>
      <p class="quiet">
        A million tokens at full use: price ÷ capacity. It is what decisions compare, and less than what a node costs
        that is idle.
      </p>
      <table>
        <thead>
          <tr>
            <Head title="Family" />
            <Head title="Nodes" isNumber />
            <Head title="Price/h" isNumber />
            <Head title="Tokens/s" isNumber />
            <Head title="Per million tokens" isNumber />
          </tr>
        </thead>
        <tbody>
          {familiesOf(following).map((family) => (
            <tr key={family.name}>
              <th scope="row">{family.name}</th>
              <td class="number">{family.nodes}</td>
              <td class="number">{usd(family.priceUsdPerHour)}</td>
              <td class="number">{count(family.tokensPerSecond)}</td>
              <td class="number">{usd(family.usdPerMillion)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h2>The last hour</h2>
      <div class="charts">
        <Chart
          title="Price of the fleet per hour"
          atMs={history?.at_ms ?? []}
          lines={[{ label: "USD", values: history?.price_usd_per_hour ?? [], colour: 5 }]}
          format={usd}
        />
      </div>
      <h2>Price feeds</h2>
      <ErrorBox error={prices.error} />
      {prices.value?.feeds.length === 0 && <p class="quiet">None is configured: prices are those that nodes state.</p>}
      <ul class="plain">
        {prices.value?.feeds.map((feed) => (
          <li key={feed.name}>
            <span class={`state ${feed.state}`}>{feed.state}</span> {feed.name} ({feed.provider}), confirmed{" "}
            {feed.last_success_age_ms === null ? "never" : `${ms(feed.last_success_age_ms)} ago`}
            {feed.error !== null && <p class="alarm">{feed.error}</p>}
            {feed.alarms.map(({ text }) => (
              <p key={text} class="alarm">
                {text}
              </p>
            ))}
          </li>
        ))}
      </ul>
      <div class="charts">
        {prices.value?.prices
          .filter(({ changes }) => changes.length > 1)
          .slice(0, CHARTS_MAX)
          .map(({ key, changes }) => (
            <Chart
              key={key}
              title={key}
              atMs={changes.map(({ fetched_at_ms }) => fetched_at_ms)}
              lines={[{ label: "USD per GPU-hour", values: changes.map(({ usd_per_gpu_hour }) => usd_per_gpu_hour) }]}
              format={usd}
            />
          ))}
      </div>
    </section>
  );
}

/** Charts of prices that changed; what is beyond is in `zml prices`. */
const CHARTS_MAX = 12;

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
