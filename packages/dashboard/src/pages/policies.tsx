import { useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import { ErrorBox } from "../parts/error-box.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { ManagedObject } from "../types.ts";

/** @param props.name `account/policy` that is edited; "": the list. */
export function PoliciesPage({ name }: { name: string }) {
  const list = useAnswer<{ items: readonly ManagedObject[] }>("/policies?limit=200");
  const cut = name.indexOf("/");
  const [account, policy] = cut < 0 ? ["default", name] : [name.slice(0, cut), name.slice(cut + 1)];
  const chosen = list.value?.items.find((item) => item.account === account && item.name === policy) ?? null;
  return (
    <section>
      <h1>Policies</h1>
      <ErrorBox error={list.error} />
      <ul class="plain">
        {list.value?.items.map((item) => (
          <li key={`${item.account} ${item.name}`}>
            <a
              href={`#/policies/${encodeURIComponent(`${item.account}/${item.name}`)}`}
              aria-current={item === chosen ? "true" : undefined}
            >
              {item.name}
            </a>
            <span class="quiet">
              {" "}
              {item.account}, {item.owner === "file" ? "of zml.yaml" : "of the API"}
            </span>
          </li>
        ))}
      </ul>
      {(name === "" || chosen !== null) && (
        <Editor
          key={`${name} ${chosen?.revision ?? ""}`}
          account={account ?? "default"}
          chosen={chosen}
          onSaved={list.again}
        />
      )}
    </section>
  );
}

const DRAFT = {
  name: "new-policy",
  accelerator_preference: [{ family: "H100", priority: 1 }],
  latency_target_ms: 2000,
  cost_priority: "cost",
};

interface Applied {
  readonly changes: readonly {
    readonly kind: string;
    readonly name: string;
    readonly action: string;
    readonly fields?: readonly { readonly path: string; readonly before?: unknown; readonly after?: unknown }[];
  }[];
  readonly warnings?: readonly string[];
}

function Editor({ account, chosen, onSaved }: { account: string; chosen: ManagedObject | null; onSaved: () => void }) {
  const isFiles = chosen !== null && chosen.owner !== "api";
  const [text, setText] = useState(() => JSON.stringify(chosen?.spec ?? DRAFT, null, 2));
  const [error, setError] = useState<ApiError | null>(null);
  const [checked, setChecked] = useState<Applied | null>(null);
  const apply = async (isDryRun: boolean): Promise<void> => {
    setError(null);
    setChecked(null);
    try {
      const spec: unknown = JSON.parse(text);
      const policy = { account, ...(spec as object) };
      const applied = await ask<Applied>(`/apply?dry_run=${isDryRun}`, {
        method: "POST",
        body: { policies: [policy] },
      });
      setChecked(applied);
      if (!isDryRun) onSaved();
    } catch (failure) {
      if (failure instanceof ApiError) setError(failure);
      else
        setError(
          new ApiError(
            "refused",
            0,
            `this is no JSON: ${failure instanceof Error ? failure.message : String(failure)}`,
          ),
        );
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
      <label for="spec">{chosen === null ? "A new policy" : chosen.name}</label>
      <textarea
        id="spec"
        rows={16}
        spellcheck={false}
        value={text}
        readOnly={isFiles}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {isFiles && <p class="quiet">It stands in zml.yaml, which owns it: change it there.</p>}
      {!isFiles && (
        <p class="buttons">
          <button type="button" onClick={() => void apply(true)}>
            Check
          </button>
          <button type="submit">Save</button>
        </p>
      )}
      <ErrorBox error={error} />
      {checked !== null && (
        <div role="status">
          {checked.changes.length === 0 && <p>Nothing changes.</p>}
          {checked.changes.map((change) => (
            <div key={`${change.kind} ${change.name}`}>
              <p>
                {change.kind} <b>{change.name}</b>: {change.action}
              </p>
              <ul>
                {change.fields?.map(({ path, before, after }) => (
                  <li key={path}>
                    <code>{path}</code>: {JSON.stringify(before ?? null)} → {JSON.stringify(after ?? null)}
                  </li>
                ))}
              </ul>
            </div>
          ))}
          {checked.warnings?.map((warning) => (
            <p key={warning} class="alarm">
              {warning}
            </p>
          ))}
        </div>
      )}
    </form>
  );
}
