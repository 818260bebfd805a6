import { useState } from "preact/hooks";
import { DecisionStory } from "../parts/decision-story.tsx";
import { DecisionTable } from "../parts/decision-table.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { Decision } from "../types.ts";

const EVERY_MS = 3_000;

/** @param props.id of the decision that is told; `?node=…` or nothing: the search. */
export function DecisionsPage({ id }: { id: string }) {
  return id === "" || id.startsWith("?") ? <Search start={new URLSearchParams(id)} /> : <Story id={id} />;
}

function Story({ id }: { id: string }) {
  const { value, error } = useAnswer<Decision>(`/decisions/${encodeURIComponent(id)}`);
  return (
    <section>
      <h1>Decision</h1>
      <p>
        <a href="#/decisions">All decisions</a>
      </p>
      <p class="id">{id}</p>
      <ErrorBox error={error} />
      {value !== null && <DecisionStory decision={value} />}
    </section>
  );
}

const FIELDS = [
  ["policy", "Policy"],
  ["model", "Model"],
  ["node", "Node"],
] as const;

function Search({ start }: { start: URLSearchParams }) {
  const [asked, setAsked] = useState(() => start.toString());
  const [isFollowing, setFollowing] = useState(true);
  const { value, error } = useAnswer<{ items: readonly Decision[]; looked_at?: number }>(
    `/decisions?limit=50${asked === "" ? "" : `&${asked}`}`,
    isFollowing ? EVERY_MS : 0,
  );
  return (
    <section>
      <h1>Decisions</h1>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const given = new FormData(event.currentTarget);
          const query = new URLSearchParams();
          for (const [name, text] of given)
            if (typeof text === "string" && text.trim() !== "") query.set(name, text.trim());
          setAsked(query.toString());
        }}
      >
        {FIELDS.map(([name, title]) => (
          <label key={name}>
            {title} <input name={name} defaultValue={start.get(name) ?? ""} />
          </label>
        ))}
        <label>
          Slower than, ms <input name="slower_than_ms" type="number" min={0} />
        </label>
        <label class="check">
          <input type="checkbox" name="redispatched" value="true" /> second nodes only
        </label>
        <button type="submit">Search</button>
        <label class="check">
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />{" "}
          follow
        </label>
      </form>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const id = new FormData(event.currentTarget).get("id");
          if (typeof id === "string" && id.trim() !== "")
            location.hash = `#/decisions/${encodeURIComponent(id.trim())}`;
        }}
      >
        <label>
          Decision id <input name="id" class="long" />
        </label>
        <button type="submit">Explain</button>
      </form>
      <ErrorBox error={error} />
      <DecisionTable decisions={value?.items ?? []} empty="Nothing that is remembered matches." />
    </section>
  );
}
