import type { Decision, FamilyEvidence, Outcome } from "../types.ts";
import { count, ms, percent, plain, reasonText, usd } from "../words.ts";
import { Bar } from "./bar.tsx";
import { Head } from "./head.tsx";

/** Why a request went where it went. */
export function DecisionStory({ decision, isHypothetical = false }: { decision: Decision; isHypothetical?: boolean }) {
  const { request, policy, choice, families, earlier, outcome, hint } = decision;
  return (
    <article class="card story">
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
      <dl class="facts">
        <Fact name="Model">{request.model ?? "?"}</Fact>
        <Fact name="Account">{request.account ?? "?"}</Fact>
        <Fact name="Request">
          {request.stream ? "stream" : "plain answer"}, about {count(request.prompt_tokens)} prompt tokens
          {request.max_tokens !== null && `, at most ${count(request.max_tokens)} out`}
        </Fact>
        <Fact name="Policy">
          {policy.name ?? "?"} <small>{plain(policy.source)}</small>
        </Fact>
        <Fact name="What it weighs">
          {policy.cost_priority},{" "}
          {policy.latency_target_ms === null ? "no target" : `target ${ms(policy.latency_target_ms)}`}
        </Fact>
        {choice.target_chance !== null && <Fact name="Chance of its target">{percent(choice.target_chance)}</Fact>}
        {hint !== null && (
          <Fact name="The caller hinted at">
            {hint.family ?? "?"} <small>{plain(hint.use)}</small>
          </Fact>
        )}
        {choice.data_age_ms !== null && (
          <Fact name="Decided on">
            a poll {ms(choice.data_age_ms)} old <small>configuration {decision.version}</small>
          </Fact>
        )}
        {choice.is_trial && <Fact name="Trial">of a node after its cooldown</Fact>}
      </dl>
      <div class="wide">
        <table>
          <caption>
            Families in the order of the chain<span class="roomy">; the mark on a bar is the target</span>
          </caption>
          <thead>
            <tr>
              <Head title="Family" />
              <Head title="Best node" />
              <Head title="Depth" isNumber isMinor />
              <Head title="Estimate" isNumber />
              <th scope="col" class="number minor roomy">
                Headroom
              </th>
              <Head title="Cost" isNumber />
              <Head title="Left out" />
            </tr>
          </thead>
          <tbody>
            {families.map((family) => (
              <FamilyRow key={family.family} family={family} decision={decision} />
            ))}
          </tbody>
        </table>
      </div>
      {decision.outside_chain > 0 && (
        <p class="quiet">{count(decision.outside_chain)} nodes serve the model and are outside the chain.</p>
      )}
      {decision.are_prices_unknown && <p class="quiet">No price is known, so that cost weighed nothing.</p>}
      {!isHypothetical && (
        <ol class="attempts" aria-label="Attempts">
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

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function FamilyRow({ family, decision }: { family: FamilyEvidence; decision: Decision }) {
  const target = decision.policy.latency_target_ms;
  const longest = Math.max(target ?? 0, ...decision.families.map(({ estimate_ms }) => estimate_ms ?? 0)) * 1.1;
  const misses = family.headroom_ms !== null && family.headroom_ms < 0;
  return (
    <tr class={family.is_chosen ? "chosen" : ""}>
      <th scope="row">
        {family.tier}. {family.family}
        {family.is_chosen && <span class="mark">chosen</span>}
        {family.family === decision.runner_up && <span class="mark second">runner-up</span>}
      </th>
      <td>{family.best_node ?? (family.nodes === 0 ? "serves no such model" : "none can take it")}</td>
      <td class="number minor">{count(family.depth)}</td>
      <td class="number">
        {family.estimate_ms !== null && longest > 0 && (
          <Bar
            share={family.estimate_ms / longest}
            limit={target === null ? null : target / longest}
            tone={misses ? "bad" : undefined}
            isLong
          />
        )}
        {ms(family.estimate_ms)}
      </td>
      <td class="number minor roomy">{ms(family.headroom_ms)}</td>
      <td class="number">{usd(family.cost_usd)}</td>
      <td>{leftOut(family)}</td>
    </tr>
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
