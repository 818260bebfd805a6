import type { Decision, FamilyEvidence, Outcome } from "../types.ts";
import { count, ms, plain, reasonText, usd } from "../words.ts";
import { Head } from "./head.tsx";

/** Why a request went where it went. */
export function DecisionStory({ decision, isHypothetical = false }: { decision: Decision; isHypothetical?: boolean }) {
  const { request, policy, choice, families, earlier, outcome, hint } = decision;
  return (
    <article class="story">
      <p class="verdict">
        {choice.node === null ? (
          <strong>No node: {reasonText(choice.reason)}.</strong>
        ) : (
          <>
            <strong>
              {choice.node} ({choice.family})
            </strong>
            : {reasonText(choice.reason)}.
          </>
        )}
      </p>
      <p>
        {request.stream ? "A stream" : "A plain answer"} of <b>{request.model ?? "?"}</b> for account{" "}
        {request.account ?? "?"}, about {count(request.prompt_tokens)} prompt tokens
        {request.max_tokens !== null && `, at most ${count(request.max_tokens)} output tokens`}. Policy{" "}
        <b>{policy.name ?? "?"}</b> ({plain(policy.source)}): {policy.cost_priority},{" "}
        {policy.latency_target_ms === null ? "no target" : `target ${ms(policy.latency_target_ms)}`}.
        {hint !== null && ` The caller hinted at ${hint.family ?? "?"}: ${hint.use}.`}
        {choice.is_trial && " It was the trial of a node after its cooldown."}
      </p>
      <div class="wide">
        <table>
          <caption>Families in the order of the chain</caption>
          <thead>
            <tr>
              <Head title="Family" />
              <Head title="Best node" />
              <Head title="Depth" isNumber />
              <Head title="Estimate" isNumber />
              <Head title="Headroom" isNumber />
              <Head title="Cost" isNumber />
              <Head title="Left out" />
            </tr>
          </thead>
          <tbody>
            {families.map((family) => (
              <tr key={family.family} class={family.is_chosen ? "chosen" : ""}>
                <th scope="row">
                  {family.tier}. {family.family}
                  {family.is_chosen && <span class="mark"> chosen</span>}
                  {family.family === decision.runner_up && <span class="mark"> runner-up</span>}
                </th>
                <td>{family.best_node ?? (family.nodes === 0 ? "serves no such model" : "none can take it")}</td>
                <td class="number">{count(family.depth)}</td>
                <td class="number">{ms(family.estimate_ms)}</td>
                <td class="number">{ms(family.headroom_ms)}</td>
                <td class="number">{usd(family.cost_usd)}</td>
                <td>{leftOut(family)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {decision.outside_chain > 0 && (
        <p class="quiet">{count(decision.outside_chain)} nodes serve the model and are outside the chain.</p>
      )}
      {decision.are_prices_unknown && <p class="quiet">No price is known, so that cost weighed nothing.</p>}
      {choice.data_age_ms !== null && (
        <p class="quiet">
          Decided on a poll {ms(choice.data_age_ms)} old, configuration {decision.version}.
        </p>
      )}
      {!isHypothetical && (
        <ol class="attempts">
          {earlier.map((before, order) => (
            <li key={order}>
              {before.node === null
                ? `no node (${reasonText(before.reason)})`
                : `${before.node} (${before.family}): ${outcomeText(before.outcome)}`}
            </li>
          ))}
          {choice.node !== null && (
            <li>
              {choice.node} ({choice.family}): {outcomeText(outcome)}
            </li>
          )}
        </ol>
      )}
    </article>
  );
}

function leftOut({ excluded }: FamilyEvidence): string {
  return Object.entries(excluded)
    .map(([reason, nodes]) => `${nodes} ${plain(reason)}`)
    .join(", ");
}

function outcomeText(outcome: Outcome): string {
  if (outcome.kind === "running") return "running, or its end was not recorded";
  const parts = [plain(outcome.kind)];
  if (outcome.status !== null) parts.push(`status ${outcome.status}`);
  if (outcome.fault !== null) parts.push(plain(outcome.fault));
  if (outcome.first_token_ms !== null) parts.push(`first token after ${ms(outcome.first_token_ms)}`);
  if (outcome.duration_ms !== null) parts.push(`ended after ${ms(outcome.duration_ms)}`);
  if (outcome.output_tokens !== null) parts.push(`${count(outcome.output_tokens)} output tokens`);
  return parts.join(", ");
}
