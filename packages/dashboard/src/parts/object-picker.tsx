/** Objects to choose one of: searched by the gateway, a page at a time, so that ten thousand are as quick as ten. */

import { useEffect, useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import type { ManagedObject } from "../types.ts";
import { count } from "../words.ts";
import { ErrorBox } from "./error-box.tsx";
import { useAnswer } from "./use-answer.ts";

interface ObjectPage {
  readonly items: readonly ManagedObject[];
  readonly next_cursor: string | null;
}

const PAGE = 50;
/** After the last key, ms. */
const TYPING_MS = 250;

/** @param props.collection path of the collection. @param props.turn another number: ask anew. */
export function ObjectPicker(props: {
  collection: string;
  label: string;
  chosen: string;
  hrefOf: (object: ManagedObject) => string;
  turn: number;
}) {
  const { collection, label, chosen, hrefOf, turn } = props;
  const [text, setText] = useState("");
  const words = useSettled(text.trim());
  const path = `/${collection}?limit=${PAGE}${words === "" ? "" : `&contains=${encodeURIComponent(words)}`}`;
  const first = useAnswer<ObjectPage>(path);
  const [more, setMore] = useState<ObjectPage | null>(null);
  const [moreError, setMoreError] = useState<ApiError | null>(null);
  useEffect(() => {
    setMore(null);
    first.again();
  }, [path, turn]);
  const last = more ?? first.value;
  const items = [...(first.value?.items ?? []), ...(more?.items ?? [])];
  const next = async (cursor: string): Promise<void> => {
    try {
      const page = await ask<ObjectPage>(`${path}&cursor=${encodeURIComponent(cursor)}`);
      setMore({ ...page, items: [...(more?.items ?? []), ...page.items] });
    } catch (failure) {
      setMoreError(failure instanceof ApiError ? failure : new ApiError("foreign", 0, String(failure)));
    }
  };
  const cursor = last?.next_cursor ?? null;
  return (
    <div class="picker">
      <label class="field">
        {label}
        <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <ErrorBox error={first.error ?? moreError} />
      {first.value !== null && items.length === 0 && <p class="empty">Nothing has such a name.</p>}
      <ul class="rows">
        {items.map((object) => {
          const id = `${object.account}/${object.name}`;
          return (
            <li key={id}>
              <a href={hrefOf(object)} aria-current={id === chosen ? "true" : undefined}>
                {object.name}
                <small>
                  {object.account}, {object.owner === "file" ? "of zml.yaml" : "of the API"}
                </small>
              </a>
            </li>
          );
        })}
      </ul>
      {cursor !== null && (
        <button type="button" onClick={() => void next(cursor)}>
          More than these {count(items.length)}
        </button>
      )}
    </div>
  );
}

/** A text once it has not changed for a while. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
