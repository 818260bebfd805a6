/** A policy as a form, or as text: both are the same object, and the gateway judges it. */

import { useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import { type Applied, AppliedChanges } from "./applied-changes.tsx";
import { ErrorBox } from "./error-box.tsx";

export type Spec = Readonly<Record<string, unknown>>;

interface Step {
  readonly family: string;
  readonly priority: number;
}

export const NEW_POLICY: Spec = {
  name: "new-policy",
  accelerator_preference: [],
  latency_target_ms: 2000,
  cost_priority: "cost",
};

const COST_PRIORITIES: readonly (readonly [string, string])[] = [
  ["cost", "cost: cheapest in time"],
  ["balanced", "balanced: both"],
  ["latency", "latency: whatever it costs"],
];

/**
 * @param props.lock why it can't be changed; null: it can.
 * @param props.isTenant whole configurations are not for this key to apply or try: it puts the policy itself.
 */
export function PolicyEditor(props: {
  title: string;
  account: string;
  isTenant: boolean;
  spec: Spec;
  lock: string | null;
  families: readonly string[];
  onSaved: () => void;
}) {
  const { title, account, isTenant, lock, families, onSaved } = props;
  const isNew = props.spec === NEW_POLICY;
  const [spec, setSpec] = useState<Spec>(props.spec);
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [applied, setApplied] = useState<{ isDryRun: boolean; answer: Applied } | null>(null);
  const isLocked = lock !== null;
  const set = (name: string, value: unknown): void => setSpec({ ...spec, [name]: value });
  const current = (): Spec => (text === null ? spec : parsedText(text));
  const apply = async (isDryRun: boolean): Promise<void> => {
    setError(null);
    setApplied(null);
    try {
      // an object's spec has no name in it
      const policy: Spec = { account, ...(isNew ? {} : { name: title }), ...current() };
      const answer = isTenant ? await put(policy) : await applyOne(policy, isDryRun);
      setApplied({ isDryRun, answer });
      if (!isDryRun) onSaved();
    } catch (failure) {
      setError(failure instanceof ApiError ? failure : new ApiError("foreign", 0, String(failure)));
    }
  };
  const toggle = (): void => {
    setError(null);
    if (text === null) {
      setText(JSON.stringify(spec, null, 2));
      return;
    }
    try {
      setSpec(parsedText(text));
      setText(null);
    } catch (failure) {
      setError(failure as ApiError);
    }
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        void apply(false);
      }}
    >
      <div class="title">
        <h2>{title}</h2>
        <button type="button" class="plain" onClick={toggle}>
          {text === null ? "as text" : "as a form"}
        </button>
      </div>
      {lock !== null && <p class="alarm warn">{lock}</p>}
      {text === null ? (
        <fieldset disabled={isLocked}>
          <legend class="hidden">{title}</legend>
          <div class="fields">
            {isNew && (
              <label class="field">
                Name
                <input value={textOf(spec["name"])} onInput={(event) => set("name", event.currentTarget.value)} />
              </label>
            )}
            <label class="field">
              What it weighs
              <select
                value={textOf(spec["cost_priority"] ?? "balanced")}
                onChange={(event) => set("cost_priority", event.currentTarget.value)}
              >
                {COST_PRIORITIES.map(([value, shown]) => (
                  <option key={value} value={value}>
                    {shown}
                  </option>
                ))}
              </select>
            </label>
            <NumberField spec={spec} name="latency_target_ms" title="Target for the whole answer, ms" set={set} />
            <NumberField spec={spec} name="ttft_target_ms" title="Target for the first token, ms" set={set} />
            <NumberField spec={spec} name="token_target_ms" title="Target between two tokens, ms" set={set} />
          </div>
          <Chain
            steps={stepsOf(spec["accelerator_preference"])}
            families={families}
            isLocked={isLocked}
            onChange={(steps) => set("accelerator_preference", steps)}
          />
          <div class="fields">
            <label class="check">
              <input
                type="checkbox"
                checked={spec["queue_on_saturation"] === true}
                onChange={(event) => set("queue_on_saturation", event.currentTarget.checked)}
              />
              wait for room instead of a 503
            </label>
            {spec["queue_on_saturation"] === true && (
              <NumberField spec={spec} name="max_queue_ms" title="Longest wait, ms" placeholder="30000" set={set} />
            )}
          </div>
        </fieldset>
      ) : (
        <label class="field">
          {title}, as JSON
          <textarea
            rows={18}
            spellcheck={false}
            value={text}
            readOnly={isLocked}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
      )}
      {!isLocked && (
        <p class="buttons">
          <button type="submit" class="main">
            Save
          </button>
          {!isTenant && (
            <button type="button" onClick={() => void apply(true)}>
              Check
            </button>
          )}
        </p>
      )}
      <ErrorBox error={error} />
      {applied !== null && <AppliedChanges applied={applied.answer} isDryRun={applied.isDryRun} />}
    </form>
  );
}

function applyOne(policy: Spec, isDryRun: boolean): Promise<Applied> {
  return ask<Applied>(`/apply?dry_run=${isDryRun}`, { method: "POST", body: { policies: [policy] } });
}

async function put(policy: Spec): Promise<Applied> {
  const { name: given, account: _account, ...spec } = policy;
  const name = textOf(given);
  await ask(`/policies/${encodeURIComponent(name)}`, { method: "PUT", body: { spec } });
  return { changes: [{ kind: "policy", name, action: "saved" }] };
}

function NumberField(props: {
  spec: Spec;
  name: string;
  title: string;
  placeholder?: string;
  set: (name: string, value: number | null) => void;
}) {
  const { spec, name, title, placeholder = "none", set } = props;
  return (
    <label class="field">
      {title}
      <input
        type="number"
        min={1}
        placeholder={placeholder}
        value={textOf(spec[name])}
        onInput={({ currentTarget: { value } }) => set(name, value === "" ? null : Number(value))}
      />
    </label>
  );
}

/** The chain: families by priority; equal ones are one tier. */
function Chain(props: {
  steps: readonly Step[];
  families: readonly string[];
  isLocked: boolean;
  onChange: (steps: readonly Step[]) => void;
}) {
  const { steps, families, isLocked, onChange } = props;
  const change = (at: number, over: Partial<Step>): void =>
    onChange(steps.map((step, index) => (index === at ? { ...step, ...over } : step)));
  const unused = families.find((name) => !steps.some(({ family }) => family === name)) ?? "";
  return (
    <fieldset>
      <legend>The chain</legend>
      {steps.length === 0 && (
        <p class="quiet">Empty: all families of the account, in the order of their registration.</p>
      )}
      <ul class="chain">
        {steps.map(({ family, priority }, at) => (
          <li key={at}>
            <label class="field">
              <span class={at === 0 ? "" : "hidden"}>Priority</span>
              <input
                type="number"
                min={0}
                value={priority}
                onInput={(event) => change(at, { priority: Number(event.currentTarget.value) })}
              />
            </label>
            <label class="field">
              <span class={at === 0 ? "" : "hidden"}>Family</span>
              <input
                list="families"
                value={family}
                onInput={(event) => change(at, { family: event.currentTarget.value })}
              />
            </label>
            {!isLocked && (
              <button
                type="button"
                aria-label={`Take ${family === "" ? "this family" : family} out`}
                onClick={() => onChange(steps.filter((_, index) => index !== at))}
              >
                Remove
              </button>
            )}
          </li>
        ))}
      </ul>
      <datalist id="families">
        {families.map((family) => (
          <option key={family} value={family} />
        ))}
      </datalist>
      {!isLocked && (
        <p class="buttons">
          <button
            type="button"
            onClick={() =>
              onChange([...steps, { family: unused, priority: Math.max(0, ...steps.map((step) => step.priority)) + 1 }])
            }
          >
            Add a family
          </button>
        </p>
      )}
    </fieldset>
  );
}

function stepsOf(value: unknown): Step[] {
  if (!Array.isArray(value)) return [];
  return value.map((step: Partial<Step> | null) => ({
    family: textOf(step?.family),
    priority: Number(step?.priority ?? 1),
  }));
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** @throws ApiError */
function parsedText(text: string): Spec {
  try {
    return JSON.parse(text) as Spec;
  } catch (failure) {
    const why = failure instanceof Error ? failure.message : String(failure);
    throw new ApiError("refused", 0, `This is no JSON: ${why}`);
  }
}
