import type { Decision } from "../types.ts";
import { ms, plain, timeOfDay } from "../words.ts";

/** Decisions, each with the way to its story. */
export function DecisionTable({ decisions, empty }: { decisions: readonly Decision[]; empty: string }) {
  if (decisions.length === 0) return <p class="quiet">{empty}</p>;
  return (
    <div class="wide">
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Model</th>
            <th scope="col" class="minor">
              Policy
            </th>
            <th scope="col">Node</th>
            <th scope="col">Why</th>
            <th scope="col" class="number">
              Attempt
            </th>
            <th scope="col">Outcome</th>
            <th scope="col" class="number">
              Took
            </th>
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
