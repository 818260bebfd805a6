/** `zml backtest`: what a policy would have done with recorded traffic. */

import { existsSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { BacktestJobJson, BacktestReportJson } from "@zml/protocol/admin";
import { DECISIONS_FILE } from "../../store/store-files.ts";
import { type AdminOptions, askAdmin, tellProblem } from "../ask-admin.ts";
import { durationMs, momentMs } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { readInput } from "../input-file.ts";
import { type Draft, readDraft } from "../read-draft.ts";
import { hasColour, type Terminal, widthOfScreen } from "../terminal.ts";
import type { Watch } from "../watch-page.ts";
import { backtestLines } from "./backtest-text.ts";

export interface BacktestCommand extends AdminOptions {
  /** The draft. */
  readonly policy: string;
  readonly since: string;
  readonly until?: string;
  readonly replaces?: string;
  readonly account?: string;
  /** Folder of a store, or its file of decisions: read here, without a gateway. */
  readonly store?: string;
  readonly json: boolean;
  /** Where the report goes as a page. */
  readonly html?: string;
}

/** Between two looks at a job, ms. */
const POLL_MS = 500;

/** @returns the exit code. */
export async function backtest(terminal: Terminal, options: BacktestCommand, watch: Watch): Promise<number> {
  const fail = (text: string, exit: number = EXIT.failed): number => {
    terminal.error(`${text}\n`);
    return exit;
  };
  const nowMs = Date.now();
  const fromMs = pastMs(options.since, nowMs);
  const toMs = options.until === undefined ? nowMs : pastMs(options.until, nowMs);
  for (const [name, ms, text] of [
    ["--since", fromMs, options.since],
    ["--until", toMs, options.until ?? ""],
  ] as const) {
    if (Number.isNaN(ms))
      return fail(`zml: ${name} ${text} is no time: 24h, 30m, 7d, or 2027-01-31T00:00:00Z`, EXIT.usage);
  }
  if (fromMs >= toMs) return fail("zml: the window is empty: --since has to be before --until", EXIT.usage);
  const read = await readInput(terminal, options.policy, "--policy");
  if ("problem" in read) return fail(read.problem);
  const draft = readDraft(read.name, read.bytes.toString("utf8"));
  if ("problems" in draft) return fail(draft.problems);
  const progress = progressOn(terminal);
  const window = { fromMs, toMs, nowMs };
  const done =
    options.store === undefined
      ? await overAdmin(terminal, options, draft, window, progress, watch)
      : await onStore(options, options.store, draft, window, progress);
  progress.end();
  if ("exit" in done) return done.text === null ? done.exit : fail(done.text, done.exit);
  const { report } = done;
  // first, so that a page that can't be written doesn't cost the report
  if (options.json) terminal.out(`${JSON.stringify(report)}\n`);
  else terminal.out(`${backtestLines(report, widthOfScreen(terminal), hasColour(terminal)).join("\n")}\n`);
  if (options.html === undefined) return EXIT.ok;
  const { backtestPage } = await import("./backtest-page.ts");
  try {
    await writeFile(options.html, backtestPage(report));
  } catch (error) {
    return fail(`zml: ${options.html} can't be written: ${messageOf(error)}`);
  }
  return EXIT.ok;
}

type Done =
  | { readonly report: BacktestReportJson }
  /** `text` null: it has been told. */
  | { readonly exit: number; readonly text: string | null };

interface Window {
  readonly fromMs: number;
  readonly toMs: number;
  readonly nowMs: number;
}

async function onStore(
  options: BacktestCommand,
  store: string,
  draft: Draft,
  { fromMs, toMs }: Window,
  progress: Progress,
): Promise<Done> {
  const given = resolve(store);
  const isFolder = existsSync(given) && statSync(given).isDirectory();
  const path = isFolder ? join(given, DECISIONS_FILE) : given;
  const { runBacktest } = await import("./run-backtest.ts");
  const { BacktestError } = await import("./recorded-window.ts");
  try {
    const report = await runBacktest(
      {
        path,
        fromMs,
        toMs,
        drafts: draft.configs,
        replaces: options.replaces ?? null,
        account: options.account ?? null,
      },
      (phase, share) => progress.note(phase, share),
    );
    return { report };
  } catch (error) {
    if (!(error instanceof BacktestError)) throw error;
    return { exit: EXIT.failed, text: problemText(draft, error.message, error.errors) };
  }
}

async function overAdmin(
  terminal: Terminal,
  options: BacktestCommand,
  draft: Draft,
  { fromMs, toMs, nowMs }: Window,
  progress: Progress,
  watch: Watch,
): Promise<Done> {
  const body = {
    policies: draft.policies,
    since_s: Math.max(1, Math.ceil((nowMs - fromMs) / 1000)),
    until_s: Math.max(0, Math.floor((nowMs - toMs) / 1000)),
    ...(options.replaces !== undefined && { replaces: options.replaces }),
    ...(options.account !== undefined && { account: options.account }),
  };
  const members = ["id", "state", "progress"];
  const started = await askAdmin(terminal, options, { method: "POST", path: "/admin/v1/backtest", body, members });
  if ("problem" in started) return { exit: tellProblem(terminal, started), text: null };
  let job = started.value as BacktestJobJson;
  const path = `/admin/v1/backtest/${job.id}`;
  while (job.state === "running" || job.state === "waiting") {
    progress.note(job.state === "waiting" ? waitingFor(job.ahead ?? 0) : job.phase, job.progress);
    await watch.wait(POLL_MS);
    if (watch.stop.aborted) {
      await askAdmin(terminal, options, { method: "DELETE", path, members });
      return { exit: EXIT.failed, text: "zml: the back-test was cancelled" };
    }
    const looked = await askAdmin(terminal, options, { path, members, timeoutMs: 30_000 });
    if ("problem" in looked) return { exit: tellProblem(terminal, looked), text: null };
    job = looked.value as BacktestJobJson;
  }
  if (job.report !== null) return { report: job.report };
  const { detail = `the back-test is ${job.state}`, errors = [] } = job.problem ?? {};
  return { exit: EXIT.failed, text: problemText(draft, detail, errors) };
}

function waitingFor(ahead: number): string {
  return `waiting: ${ahead} ${ahead === 1 ? "comes" : "come"} before it`;
}

function problemText(
  draft: Draft,
  message: string,
  errors: readonly { readonly path: string; readonly message: string }[],
): string {
  const inDraft = errors.filter(({ path }) => path.startsWith("policies"));
  if (inDraft.length === 0) return `zml: ${message}`;
  const others = errors.filter(({ path }) => !path.startsWith("policies"));
  return [
    ...inDraft.map(({ path, message: what }) => draft.locate(path, what)),
    ...others.map(({ path, message: what }) => `zml: --${path}: ${what}`),
  ].join("\n");
}

/** A duration is that long ago; a moment is itself. */
function pastMs(text: string, nowMs: number): number {
  const ago = durationMs(text);
  return Number.isNaN(ago) ? momentMs(text, nowMs) : nowMs - ago;
}

interface Progress {
  note(phase: string, share: number): void;
  end(): void;
}

const CLEAR_LINE = "\r\u001b[2K";
const BAR_CELLS = 30;

/** A bar on a window; a file or a pipe gets a line for each phase. */
function progressOn(terminal: Terminal): Progress {
  let shown = "";
  let lastPhase = "";
  const isWindow = terminal.screen() !== null;
  return {
    note: (phase, share) => {
      if (!isWindow) {
        if (phase !== lastPhase) terminal.error(`zml: ${phase}\n`);
        lastPhase = phase;
        return;
      }
      const cells = Math.round(share * BAR_CELLS);
      const line = `${"█".repeat(cells)}${"░".repeat(BAR_CELLS - cells)} ${Math.floor(share * 100)} % ${phase}`;
      if (line === shown) return;
      shown = line;
      terminal.error(`${CLEAR_LINE}${line}`);
    },
    end: () => {
      if (isWindow && shown !== "") terminal.error(CLEAR_LINE);
    },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
