import type { Following } from "../live.ts";
import { type FlowLink, FlowPicture } from "../parts/flow-picture.tsx";
import { Head } from "../parts/head.tsx";
import { count } from "../words.ts";
import { flowLinks } from "./flow-links.ts";

/** Nodes in the picture of dispatch: more than that is a table's work. */
const NODES_MAX = 24;

/** Where requests go: from policies to families, and from families to nodes. */
export function DispatchPage({ following }: { following: Following }) {
  const links = nodeLinks(following).toSorted((a, b) => b.rate - a.rate);
  return (
    <section>
      <h1>Dispatch</h1>
      <h2>From policies to families</h2>
      <FlowPicture links={flowLinks(following)} label="Requests that ended, by policy and family" />
      <h2>From families to nodes</h2>
      <FlowPicture links={links.slice(0, NODES_MAX)} label="Attempts that ended, by family and node" />
      {links.length > NODES_MAX && (
        <p class="quiet">
          The {NODES_MAX} busiest of {links.length} nodes.
        </p>
      )}
      <table>
        <thead>
          <tr>
            <Head title="Node" />
            <Head title="Family" />
            <Head title="Attempts/s" isNumber />
          </tr>
        </thead>
        <tbody>
          {links.slice(0, NODES_MAX).map(({ from, to, rate }) => (
            <tr key={to}>
              <th scope="row">{to}</th>
              <td>{from}</td>
              <td class="number">{count(rate)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function nodeLinks({ now, before, names }: Following): FlowLink[] {
  if (now === null || before === null || now.layout !== before.layout) return [];
  const seconds = (now.clockMs - before.clockMs) / 1000;
  return names.id.flatMap((id, row) => {
    const rate = ((now.columns.attempts[row] ?? 0) - (before.columns.attempts[row] ?? 0)) / seconds;
    return rate > 0 ? [{ from: names.family[row] ?? "", to: id, rate }] : [];
  });
}
