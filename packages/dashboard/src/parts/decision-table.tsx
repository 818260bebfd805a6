import type { Decision } from "../types.ts";
import { ms, plain, timeOfDay } from "../words.ts";
import { Head } from "./head.tsx";

/** Decisions, each with the way to its story. */
export function DecisionTable({ decisions, empty }: { decisions: readonly Decision[]; empty: string }) {
  if (decisions.length === 0) return <p class="quiet">{empty}</p>;
  return (
    <div class="wide">
      <table>
        <thead>
          <tr>
            <Head title="Time" />
            <Head title="Model" />
            <Head title="Policy" isMinor />
            <Head title="Node" />
            <Head title="Why" />
            <Head title="Attempt" isNumber />
            <Head title="Outcome" />
            <Head title="Took" isNumber />
          </tr>
        </thead>
        <tbody>
          {decisions.map(({ decision, decided_at, request, policy, choice, attempt, outcome }) => (
            <tr key={decision}>
              <td>
                <a href={`#/decisions/${encodeURIComponent(decision)}`}>{timeOfDay(decided_at)}</a>
              </td>
              <td>{request.model ?? "?"}</td>
              <td class="minor">{policy.name ?? "?"}</td>
              <td>{choice.node ?? "none"}</td>
              <td>{plain(choice.reason)}</td>
              <td class="number">{attempt}</td>
              <td>
                {choice.node === null ? "none" : <span class={`state ${outcome.kind}`}>{plain(outcome.kind)}</span>}
              </td>
              <td class="number">{ms(outcome.duration_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
