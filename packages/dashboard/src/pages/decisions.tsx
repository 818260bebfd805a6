import { useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import { Card } from "../parts/card.tsx";
import { DecisionStory } from "../parts/decision-story.tsx";
import { DecisionTable } from "../parts/decision-table.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import type { Decision } from "../types.ts";
import { count, KNOWN_REASONS, plain } from "../words.ts";

const EVERY_MS = 3_000;
const PAGE = 50;

interface DecisionPage {
  readonly items: readonly Decision[];
  readonly next_cursor: string | null;
  readonly looked_at: number;
}

/** @param props.id of the decision that is told; "": the search. @param props.query what is searched for. */
export function DecisionsPage({ id, query }: { id: string; query: URLSearchParams }) {
  if (id !== "") return <Story id={id} />;
  const asked = query.toString();
  return <Search key={asked} asked={asked} />;
}

function Story({ id }: { id: string }) {
  const { value, error } = useAnswer<Decision>(`/decisions/${encodeURIComponent(id)}`);
  return (
    <section>
      <PageHead title="Decision">
        <a href="#/decisions">All decisions</a> · <span class="id">{id}</span>
      </PageHead>
      <ErrorBox error={error} />
      {value !== null && <DecisionStory decision={value} />}
    </section>
  );
}

const FIELDS = [
  ["policy", "Policy"],
  ["model", "Model"],
  ["node", "Node"],
  ["account", "Account"],
] as const;

/** @param props.asked the filter, as the address has it, so that it can be passed on. */
function Search({ asked }: { asked: string }) {
  const start = new URLSearchParams(asked);
  const [isFollowing, setFollowing] = useState(true);
  const [older, setOlder] = useState<DecisionPage | null>(null);
  const [olderError, setOlderError] = useState<ApiError | null>(null);
  const path = `/decisions?limit=${PAGE}${asked === "" ? "" : `&${asked}`}`;
  const { value, error } = useAnswer<DecisionPage>(path, isFollowing && older === null ? EVERY_MS : 0);
  const last = older ?? value;
  const items = [...(value?.items ?? []), ...(older?.items ?? [])];
  const more = async (): Promise<void> => {
    if (last === null || last.next_cursor === null) return;
    try {
      const next = await ask<DecisionPage>(`${path}&cursor=${encodeURIComponent(last.next_cursor)}`);
      setOlder({ ...next, items: [...(older?.items ?? []), ...next.items] });
    } catch (failure) {
      setOlderError(failure instanceof ApiError ? failure : new ApiError("foreign", 0, String(failure)));
    }
  };
  return (
    <section>
      <PageHead title="Decisions">
        Why each request went where it went, newest first, as far as the workers remember.
      </PageHead>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const query = new URLSearchParams();
          for (const [name, text] of new FormData(event.currentTarget)) {
            if (typeof text === "string" && text.trim() !== "") query.set(name, text.trim());
          }
          location.hash = `#/decisions?${query}`;
        }}
      >
        {FIELDS.map(([name, title]) => (
          <label key={name}>
            {title}
            <input name={name} size={12} defaultValue={start.get(name) ?? ""} />
          </label>
        ))}
        <label>
          Reason
          <select name="reason" defaultValue={start.get("reason") ?? ""}>
            <option value="">any</option>
            {KNOWN_REASONS.map((reason) => (
              <option key={reason} value={reason} selected={start.get("reason") === reason}>
                {plain(reason)}
              </option>
            ))}
          </select>
        </label>
        <label>
          Slower than, ms
          <input
            name="slower_than_ms"
            type="number"
            min={0}
            size={7}
            defaultValue={start.get("slower_than_ms") ?? ""}
          />
        </label>
        <label class="check">
          <input
            type="checkbox"
            name="redispatched"
            value="true"
            defaultChecked={start.get("redispatched") === "true"}
          />
          re-dispatched only
        </label>
        <button type="submit" class="main">
          Search
        </button>
        {asked !== "" && <a href="#/decisions">Clear</a>}
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
          Decision id, from the header x-zml-routing
          <input name="id" class="long" />
        </label>
        <button type="submit">Explain</button>
      </form>
      <ErrorBox error={error ?? olderError} />
      <Card title={asked === "" ? "The latest" : "What matches"}>
        <div class="filters">
          <label class="check">
            <input
              type="checkbox"
              checked={isFollowing && older === null}
              onChange={(event) => {
                setFollowing(event.currentTarget.checked);
                setOlder(null);
              }}
            />
            follow
          </label>
          {value !== null && (
            <small role="status">
              {count(items.length)} of {count(value.looked_at + (older?.looked_at ?? 0))} that were looked at
            </small>
          )}
        </div>
        {value !== null && <DecisionTable decisions={items} empty="Nothing that is remembered matches." />}
        {last !== null && last.next_cursor !== null && (
          <p>
            <button type="button" onClick={() => void more()}>
              Look at older ones
            </button>
          </p>
        )}
      </Card>
    </section>
  );
}
