import { type Following, rate } from "../live.ts";
import { ErrorBox } from "../parts/error-box.tsx";
import { Head } from "../parts/head.tsx";
import { Tile } from "../parts/tile.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { ManagedObject } from "../types.ts";
import { count, plain } from "../words.ts";

const ENDINGS: Readonly<Record<string, string>> = {
  delivered: "the caller has the node's answer",
  refused: "refused before routing: a wrong key, body, model or policy",
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

/** What came in, how it ended, and which policies it may run under. */
export function AdmissionPage({ following }: { following: Following }) {
  const policies = useAnswer<{ items: readonly ManagedObject[] }>("/policies?limit=200");
  const { now } = following;
  const endings = Object.entries(now?.totals.endings ?? {});
  return (
    <section>
      <h1>Admission</h1>
      <dl class="tiles">
        <Tile name="Requests" value={`${count(rate(following, ({ totals }) => totals.requests))}/s`} />
        <Tile name="Refused" value={`${count(rate(following, ({ totals }) => totals.endings["refused"] ?? 0))}/s`} />
        <Tile name="Waiting for room" value={count(now?.totals.parked)} />
      </dl>
      <h2>How requests ended since the start</h2>
      <table>
        <thead>
          <tr>
            <Head title="Ending" />
            <Head title="Requests" isNumber />
            <Head title="Meaning" isMinor />
          </tr>
        </thead>
        <tbody>
          {endings.map(([ending, requests]) => (
            <tr key={ending}>
              <th scope="row">{plain(ending)}</th>
              <td class="number">{count(requests)}</td>
              <td class="minor">{ENDINGS[ending] ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h2>Policies</h2>
      <ErrorBox error={policies.error} />
      <ul class="plain">
        {policies.value?.items.map(({ account, name, owner }) => (
          <li key={`${account} ${name}`}>
            <a href={`#/policies/${encodeURIComponent(`${account}/${name}`)}`}>{name}</a>
            <span class="quiet">
              {" "}
              {account}, {owner === "file" ? "of zml.yaml" : "of the API"}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
