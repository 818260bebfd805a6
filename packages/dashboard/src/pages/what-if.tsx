import { useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import { type Following, isTenant } from "../live.ts";
import { DecisionStory } from "../parts/decision-story.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { useFamilies } from "../parts/use-families.ts";
import type { Decision, ManagedObject } from "../types.ts";

interface Answer {
  readonly decision: Decision;
  /** Without the overrides. */
  readonly as_it_is: Decision;
}

/** Names that are proposed; others can be typed. */
const PROPOSED = 200;

/** What would be decided now: nothing is booked and nothing is sent. */
export function WhatIfPage({ following }: { following: Following }) {
  const registered = useAnswer<{ items: readonly ManagedObject[] }>(`/models?limit=${PROPOSED}`).value;
  const recent = useAnswer<{ items: readonly Decision[] }>("/decisions?limit=50").value;
  const [model, setModel] = useState<string | null>(null);
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const families = useFamilies(following);
  const models = new Set([
    ...(registered?.items ?? []).map(({ name }) => name),
    ...(recent?.items ?? []).map(({ request }) => request.model ?? ""),
  ]);
  models.delete("");
  const submit = async (form: HTMLFormElement): Promise<void> => {
    setError(null);
    try {
      setAnswer(await ask<Answer>("/decide", { method: "POST", body: bodyOf(new FormData(form), families) }));
    } catch (failure) {
      setAnswer(null);
      setError(failure instanceof ApiError ? failure : new ApiError("foreign", 0, String(failure)));
    }
  };
  return (
    <section>
      <PageHead title="What if">
        Where a request would go now, under other prices or without some nodes, beside where it goes as it is. Nothing
        is booked and nothing is sent.
      </PageHead>
      <form
        class="card editor"
        onSubmit={(event) => {
          event.preventDefault();
          void submit(event.currentTarget);
        }}
      >
        <div class="columns">
          <fieldset>
            <legend>The request</legend>
            <div class="fields">
              <label class="field">
                Model
                <input
                  name="model"
                  list="models"
                  required
                  value={model ?? [...models][0] ?? ""}
                  onInput={(event) => setModel(event.currentTarget.value)}
                />
                <datalist id="models">
                  {[...models].map((name) => (
                    <option key={name} value={name} />
                  ))}
                </datalist>
              </label>
              <label class="field">
                Account{" "}
                <input
                  name="account"
                  defaultValue={following.who?.account ?? "default"}
                  readOnly={isTenant(following.who)}
                  required
                />
              </label>
              <label class="field">
                Policy <input name="policy" placeholder="as the model's" />
              </label>
              <label class="field">
                Prompt tokens <input name="prompt_tokens" type="number" min={0} defaultValue="500" />
              </label>
              <label class="field">
                Output tokens at most <input name="max_tokens" type="number" min={1} placeholder="none stated" />
              </label>
              <label class="check">
                <input name="stream" type="checkbox" value="true" /> as a stream
              </label>
            </div>
          </fieldset>
          <fieldset>
            <legend>What is otherwise</legend>
            <div class="fields">
              {families.map((family) => (
                <label key={family} class="field">
                  {family}, USD per GPU-hour
                  <input name={`price ${family}`} type="number" min={0} step="any" placeholder="as it is" />
                </label>
              ))}
              <label class="field">
                Nodes that are down <input name="down" placeholder="ids, with commas" />
              </label>
            </div>
          </fieldset>
        </div>
        <p class="buttons">
          <button type="submit" class="main">
            Decide
          </button>
        </p>
      </form>
      <ErrorBox error={error} />
      {answer !== null && (
        <>
          <p role="status">{verdict(answer)}</p>
          <div class="columns">
            <div>
              <h2>Then</h2>
              <DecisionStory decision={answer.decision} isHypothetical />
            </div>
            <div>
              <h2>As it is</h2>
              <DecisionStory decision={answer.as_it_is} isHypothetical />
            </div>
          </div>
        </>
      )}
    </section>
  );
}

function verdict({ decision, as_it_is }: Answer): string {
  const [then, now] = [decision.choice, as_it_is.choice];
  if (then.family === now.family) {
    return then.node === now.node ? "It would go to the same node." : "It would go to another node of the same family.";
  }
  return `It would go to ${then.family ?? "no node"} instead of ${now.family ?? "no node"}.`;
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
