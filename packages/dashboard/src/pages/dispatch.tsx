import type { Following } from "../live.ts";
import { Card } from "../parts/card.tsx";
import { familyColours } from "../parts/family-colour.ts";
import { type FlowLink, FlowPicture } from "../parts/flow-picture.tsx";
import { Head } from "../parts/head.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { count, percent } from "../words.ts";
import { flowLinks } from "./flow-links.ts";

/** Nodes in the picture: more than that is a table's work. */
const NODES_MAX = 16;
/** Rows of the table. */
const ROWS_MAX = 100;

/** Where requests go: from policies to families, and from families to nodes. */
export function DispatchPage({ following }: { following: Following }) {
  const links = nodeLinks(following).toSorted((a, b) => b.rate - a.rate);
  const all = links.reduce((sum, { rate }) => sum + rate, 0);
  return (
    <section>
      <PageHead title="Dispatch">
        Step 4: where requests go, policies on the left, families between, nodes on the right. Rates are of the last
        five seconds.
      </PageHead>
      <Card title="Policies → families → nodes">
        <FlowPicture
          stages={[flowLinks(following), withRest(links)]}
          label="Requests that ended, by policy, family and node"
        />
      </Card>
      <Card title="Busiest nodes">
        {links.length === 0 && <p class="empty">No attempt ended in the last seconds.</p>}
        {links.length > 0 && (
          <table>
            <thead>
              <tr>
                <Head title="Node" />
                <Head title="Family" />
                <Head title="Attempts/s" isNumber />
                <Head title="Share" isNumber />
              </tr>
            </thead>
            <tbody>
              {links.slice(0, ROWS_MAX).map(({ from, to, rate }) => (
                <tr key={to}>
                  <th scope="row">
                    <a href={`#/decisions?node=${encodeURIComponent(to)}`}>{to}</a>
                  </th>
                  <td>{from}</td>
                  <td class="number">{count(rate)}</td>
                  <td class="number">{percent(rate / all)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {links.length > ROWS_MAX && (
          <p class="quiet">
            The {ROWS_MAX} busiest of {count(links.length)}.
          </p>
        )}
      </Card>
    </section>
  );
}

/** The busiest nodes, and those of each family that are left as one. */
function withRest(links: readonly FlowLink[]): FlowLink[] {
  if (links.length <= NODES_MAX) return [...links];
  const rest = new Map<string, { rate: number; nodes: number; colour: string | undefined }>();
  for (const { from, rate, colour } of links.slice(NODES_MAX)) {
    const before = rest.get(from) ?? { rate: 0, nodes: 0, colour };
    rest.set(from, { rate: before.rate + rate, nodes: before.nodes + 1, colour });
  }
  const others = Array.from(rest, ([from, { rate, nodes, colour }]) => {
    return { from, to: `${nodes} more ${from}`, rate, colour };
  });
  return [...links.slice(0, NODES_MAX), ...others];
}

function nodeLinks({ now, before }: Following): FlowLink[] {
  if (now === null || before === null || now.layout !== before.layout) return [];
  const { names } = now;
  const seconds = (now.clockMs - before.clockMs) / 1000;
  const colours = familyColours(names.family);
  return names.id.flatMap((id, row) => {
    const rate = ((now.columns.attempts[row] ?? 0) - (before.columns.attempts[row] ?? 0)) / seconds;
    const from = names.family[row] ?? "";
    return rate > 0 ? [{ from, to: id, rate, colour: colours.get(from) }] : [];
  });
}
