import { useState } from "preact/hooks";

/** @param props.refusal what the gateway said to the key that was tried; null: none was. */
export function LoginPage({ refusal, onKey }: { refusal: string | null; onKey: (key: string) => void }) {
  const [key, setKey] = useState("");
  return (
    <main class="login">
      <div class="card">
        <h1>ZML</h1>
        <p class="lead">This gateway shows its fleet to those who have a key.</p>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (key.trim() !== "") onKey(key.trim());
          }}
        >
          <label for="key">Key with the scope read or admin</label>
          <input
            id="key"
            type="password"
            autocomplete="current-password"
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
            aria-describedby={refusal === null ? undefined : "refusal"}
          />
          {refusal !== null && (
            <p id="refusal" class="alarm" role="alert">
              {refusal}
            </p>
          )}
          <button type="submit" class="main">
            Log in
          </button>
          <small>
            It stays in this tab until the tab is closed. <code>zml keys create NAME --scope read</code> makes one that
            sees everything and changes nothing. A key of another account than default sees what belongs to that
            account.
          </small>
        </form>
      </div>
    </main>
  );
}
