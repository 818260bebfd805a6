/** How the gateway is reached, and what stands between it and this page. */

import { useEffect, useState } from "preact/hooks";
import type { Following } from "../live.ts";

/** Version of the product that these pages were built with. */
declare const ZML_VERSION: string;

export function Contact({ following }: { following: Following }) {
  const { now, error, who } = following;
  if (error !== null) return <span class="contact lost">No contact</span>;
  const isThere = now !== null || who !== null;
  return <span class={`contact ${isThere ? "live" : ""}`}>{isThere ? "Live" : "Connecting…"}</span>;
}

/** What is wrong, with what to do about it. */
export function Banners({ following }: { following: Following }) {
  const { error, now, who } = following;
  const version = who?.product_version ?? null;
  return (
    <>
      {error !== null && (
        <div class="banner" role="alert">
          <span>
            {error.message}. {now === null && who === null ? "" : "What is shown is from before."}
          </span>
          {error.kind === "foreign" ? <Reload /> : <Retry following={following} />}
        </div>
      )}
      {error === null && (now !== null || who !== null) && version !== ZML_VERSION && version !== "unknown" && (
        <div class="banner note" role="status">
          <span>
            {version === null
              ? `The gateway is of an older version than this page (${ZML_VERSION}).`
              : `The gateway is version ${version} now, and this page is of ${ZML_VERSION}.`}{" "}
            Some of it may be missing or wrong.
          </span>
          <Reload />
        </div>
      )}
    </>
  );
}

function Reload() {
  return (
    <button type="button" onClick={() => location.reload()}>
      Reload the page
    </button>
  );
}

function Retry({ following: { retryAtMs, retry } }: { following: Following }) {
  const [, setTurn] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTurn((turn) => turn + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.ceil(((retryAtMs ?? 0) - Date.now()) / 1000));
  return (
    <>
      <button type="button" onClick={retry}>
        Try now
      </button>
      <small aria-hidden="true">{seconds > 0 ? `again in ${seconds} s` : "asking…"}</small>
    </>
  );
}
