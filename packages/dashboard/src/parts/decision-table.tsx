import type { Decision } from "../types.ts";
import { ms, plain, timeOfDay } from "../words.ts";
import { Head } from "./head.tsx";

/** Decisions, each with the way to its story. */
export function DecisionTable({ decisions, empty }: { decisions: readonly Decision[]; empty: string }) {
  if (decisions.length === 0) return <p class="empty">{empty}</p>;
  return (
    <div class="wide">
      <table>
        <thead>
          <tr>
            <Head title="Time" />
            <Head title="Model" isMinor />
            <Head title="Policy" isMinor />
            <Head title="Node" />
            <Head title="Why" isMinor />
            <Head title="Attempt" isNumber isMinor />
            <Head title="Outcome" />
            <Head title="Took" isNumber />
          </tr>
        </thead>
        <tbody>
          {decisions.map(({ decision, decided_at, request, policy, choice, attempt, outcome }) => (
            <tr key={decision}>
              <td>
                <a href={`#/decisions/${encodeURIComponent(decision)}`} title={decision}>
                  {timeOfDay(decided_at)}
                </a>
              </td>
              <td class="minor">
                <span class="clip" title={request.model ?? undefined}>
                  {request.model ?? "?"}
                </span>
              </td>
              <td class="minor">{policy.name ?? "?"}</td>
              <td>{choice.node ?? <span class="quiet">none</span>}</td>
              <td class="minor">{plain(choice.reason)}</td>
              <td class="number minor">{attempt}</td>
              <td>
                {choice.node === null ? (
                  <span class="quiet">–</span>
                ) : (
                  <span class={`state ${outcome.kind}`}>{plain(outcome.kind)}</span>
                )}
              </td>
              <td class="number">{ms(outcome.duration_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
