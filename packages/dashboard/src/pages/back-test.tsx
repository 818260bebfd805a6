import type { BacktestJobJson } from "@zml/protocol/admin";
import { useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import type { Following } from "../live.ts";
import { BacktestReport } from "../parts/backtest-report.tsx";
import { Card } from "../parts/card.tsx";
import { ErrorBox } from "../parts/error-box.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { useFamilies } from "../parts/use-families.ts";
import type { ManagedObject } from "../types.ts";
import { dateAndTime, percent } from "../words.ts";

const RUNNING_EVERY_MS = 1_000;
const LIST_EVERY_MS = 5_000;
/** Of the draft's text. */
const ROWS_MIN = 10;
const ROWS_MAX = 24;
/** Policies that are proposed; others can be typed. */
const PROPOSED = 200;

const WINDOWS: readonly (readonly [number, string])[] = [
  [3_600, "the last hour"],
  [21_600, "the last 6 hours"],
  [86_400, "the last day"],
  [604_800, "the last 7 days"],
];

/** @param props.id of the job that is shown; "": none. */
export function BackTestPage({ id, following }: { id: string; following: Following }) {
  const jobs = useAnswer<{ items: readonly BacktestJobJson[] }>("/backtest", LIST_EVERY_MS);
  return (
    <section>
      <PageHead title="Back-test">
        What a policy would have done: recorded traffic, replayed under the policies in force and under a draft. It
        needs decisions that are kept (<code>evidence.keep</code>).
      </PageHead>
      <Start following={following} onStarted={jobs.again} />
      <ErrorBox error={jobs.error} />
      {(jobs.value?.items.length ?? 0) > 0 && (
        <Card title="Runs since the start">
          <ul class="rows">
            {jobs.value?.items.map((job) => (
              <li key={job.id}>
                <span class={`state ${STATES[job.state] ?? ""}`}>{job.state}</span>{" "}
                <a href={`#/back-test/${encodeURIComponent(job.id)}`} aria-current={job.id === id ? "true" : undefined}>
                  {dateAndTime(Date.parse(job.started_at))}
                </a>{" "}
                {job.state === "running" && <small>{percent(job.progress)}</small>}
                {job.state === "waiting" && <small>{aheadWords(job)}</small>}
              </li>
            ))}
          </ul>
        </Card>
      )}
      {id !== "" && <Job key={id} id={id} />}
    </section>
  );
}

/** Colours of the states. */
const STATES: Readonly<Record<string, string>> = {
  waiting: "waiting",
  running: "waiting",
  done: "ok",
  failed: "failing",
};

function isOpen({ state }: BacktestJobJson): boolean {
  return state === "running" || state === "waiting";
}

function aheadWords({ ahead }: BacktestJobJson): string {
  return ahead === 1 ? "one other comes before it" : `${ahead ?? 0} others come before it`;
}

function Job({ id }: { id: string }) {
  const [isOver, setOver] = useState(false);
  const {
    value: job,
    error,
    again,
  } = useAnswer<BacktestJobJson>(`/backtest/${encodeURIComponent(id)}`, isOver ? 0 : RUNNING_EVERY_MS);
  if (job !== null && !isOpen(job) && !isOver) setOver(true);
  const cancel = async (): Promise<void> => {
    await ask(`/backtest/${encodeURIComponent(id)}`, { method: "DELETE" }).catch(() => {});
    again();
  };
  return (
    <>
      <ErrorBox error={error} />
      {job !== null && isOpen(job) && (
        <Card title={job.state === "waiting" ? "It waits" : "It runs"}>
          <p role="status">
            <progress max={1} value={job.progress} aria-label="Progress" />{" "}
            {job.state === "waiting" ? aheadWords(job) : `${job.phase}, ${percent(job.progress)}`}{" "}
            <button type="button" onClick={() => void cancel()}>
              Cancel
            </button>
          </p>
        </Card>
      )}
      {job !== null && job.problem !== null && (
        <div class="alarm" role="alert">
          <p>{job.problem.detail}</p>
          <ul>
            {job.problem.errors.map(({ path, message }) => (
              <li key={path}>
                {path}: {message}
              </li>
            ))}
          </ul>
        </div>
      )}
      {job !== null && job.report !== null && <BacktestReport report={job.report} />}
    </>
  );
}

function Start({ following, onStarted }: { following: Following; onStarted: () => void }) {
  const policies = useAnswer<{ items: readonly ManagedObject[] }>(`/policies?limit=${PROPOSED}`).value;
  const [text, setText] = useState<string | null>(null);
  const [seconds, setSeconds] = useState(86_400);
  const [error, setError] = useState<ApiError | null>(null);
  const items = policies?.items ?? [];
  const first = items[0];
  const families = useFamilies(following).join(", ");
  const shown = text ?? (first === undefined ? "" : textOf(first));
  const start = async (): Promise<void> => {
    setError(null);
    try {
      const draft: unknown = JSON.parse(shown);
      const job = await ask<BacktestJobJson>("/backtest", {
        method: "POST",
        body: { policies: [draft], since_s: seconds },
      });
      location.hash = `#/back-test/${encodeURIComponent(job.id)}`;
      onStarted();
    } catch (failure) {
      if (failure instanceof ApiError) setError(failure);
      else
        setError(
          new ApiError("refused", 0, `This is no JSON: ${failure instanceof Error ? failure.message : failure}`),
        );
    }
  };
  return (
    <form
      class="card editor"
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
    >
      <div class="fields">
        <label class="field">
          Begin with the policy
          <select
            onChange={({ currentTarget: { value } }) => {
              const chosen = items[Number(value)];
              if (chosen !== undefined) setText(textOf(chosen));
            }}
          >
            {items.map(({ account, name }, at) => (
              <option key={`${account} ${name}`} value={at}>
                {account} · {name}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          Traffic of
          <select value={seconds} onChange={({ currentTarget: { value } }) => setSeconds(Number(value))}>
            {WINDOWS.map(([length, title]) => (
              <option key={length} value={length}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </div>
      <label class="field">
        The draft, as JSON{families === "" ? "" : ` (families here: ${families})`}
        <textarea
          rows={Math.min(ROWS_MAX, Math.max(ROWS_MIN, shown.split("\n").length + 1))}
          spellcheck={false}
          value={shown}
          onInput={({ currentTarget: { value } }) => setText(value)}
        />
      </label>
      <p class="buttons">
        <button type="submit" class="main">
          Replay
        </button>
      </p>
      <ErrorBox error={error} />
    </form>
  );
}

function textOf({ account, name, spec }: ManagedObject): string {
  return JSON.stringify({ account, name, ...spec }, null, 2);
}
