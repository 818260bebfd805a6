import type { FleetReportJson } from "@zml/protocol/admin";
import { useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import type { Following } from "../live.ts";
import { DecisionStory } from "../parts/decision-story.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { Decision } from "../types.ts";

interface Answer {
  readonly decision: Decision;
  /** Without the overrides. */
  readonly as_it_is: Decision;
}

/** What would be decided now: nothing is booked and nothing is sent. */
export function WhatIfPage({ following }: { following: Following }) {
  const fleet = useAnswer<FleetReportJson>("/fleet").value;
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const families = [...new Set(following.names.family)].sort();
  const submit = async (form: HTMLFormElement): Promise<void> => {
    setError(null);
    try {
      setAnswer(await ask<Answer>("/decide", { method: "POST", body: bodyOf(new FormData(form), families) }));
    } catch (failure) {
      setAnswer(null);
      setError(failure instanceof ApiError ? failure : new ApiError("refused", 0, String(failure)));
    }
  };
  return (
    <section>
      <h1>What if</h1>
      <form
        class="grid"
        onSubmit={(event) => {
          event.preventDefault();
          void submit(event.currentTarget);
        }}
      >
        <fieldset>
          <legend>The request</legend>
          <label>
            Model
            <input name="model" list="models" required />
            <datalist id="models">
              {fleet?.models.map(({ account, name }) => (
                <option key={`${account} ${name}`} value={name} />
              ))}
            </datalist>
          </label>
          <label>
            Account <input name="account" defaultValue="default" required />
          </label>
          <label>
            Policy <input name="policy" placeholder="as the model's" />
          </label>
          <label>
            Prompt tokens <input name="prompt_tokens" type="number" min={0} defaultValue="500" />
          </label>
          <label>
            Output tokens at most <input name="max_tokens" type="number" min={1} />
          </label>
          <label class="check">
            <input name="stream" type="checkbox" value="true" /> stream
          </label>
        </fieldset>
        <fieldset>
          <legend>What is otherwise</legend>
          {families.map((family) => (
            <label key={family}>
              {family}, USD per GPU-hour <input name={`price ${family}`} type="number" min={0} step="any" />
            </label>
          ))}
          <label>
            Nodes that are down <input name="down" placeholder="ids, with commas between them" />
          </label>
        </fieldset>
        <button type="submit">Decide</button>
      </form>
      <ErrorBox error={error} />
      {answer !== null && (
        <div class="compare">
          <div>
            <h2>Then</h2>
            <DecisionStory decision={answer.decision} isHypothetical />
          </div>
          <div>
            <h2>As it is</h2>
            <DecisionStory decision={answer.as_it_is} isHypothetical />
          </div>
        </div>
      )}
    </section>
  );
}

function bodyOf(form: FormData, families: readonly string[]): Record<string, unknown> {
  const text = (name: string): string => String(form.get(name) ?? "").trim();
  const number = (name: string) => (text(name) === "" ? undefined : Number(text(name)));
  const request: Record<string, unknown> = { model: text("model"), stream: text("stream") === "true" };
  if (text("policy") !== "") request["policy"] = text("policy");
  for (const name of ["prompt_tokens", "max_tokens"]) {
    const value = number(name);
    if (value !== undefined) request[name] = value;
  }
  const prices: Record<string, number> = {};
  for (const family of families) {
    const price = number(`price ${family}`);
    if (price !== undefined) prices[family] = price;
  }
  const down = text("down")
    .split(",")
    .map((id) => id.trim())
    .filter((id) => id !== "");
  return { account: text("account"), request, overrides: { prices, down } };
}
