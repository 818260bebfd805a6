/** Draws a page anew each second, for `--watch`. */

import type { AdminProblem } from "./admin-problem.ts";
import { tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import { ageText } from "./nodes-words.ts";
import { painted } from "./table-text.ts";
import { hasColour, type Terminal } from "./terminal.ts";

/** How a command waits. */
export interface Watch {
  /** Aborts when it has to end. */
  readonly stop: AbortSignal;
  /** Waits; ends early on `stop`. */
  readonly wait: (ms: number) => Promise<void>;
  /** Wall clock, Unix ms. */
  readonly nowMs: () => number;
}

/** What a page shows. */
export interface WatchedPage<T> {
  ask(signal?: AbortSignal): Promise<{ readonly report: T } | AdminProblem>;
  /** For people. */
  lines(report: T): readonly string[];
  /** One object per look; null: for people. */
  readonly json: ((report: T) => unknown) | null;
  /** What chooses less, for a window that is too low. */
  readonly less: string;
}

/** Shows a page once, or until `watch` ends. @returns the exit code. */
export async function showPage<T>(terminal: Terminal, page: WatchedPage<T>, watch: Watch | null): Promise<number> {
  if (watch !== null) return watchPage(terminal, page, watch);
  const answer = await page.ask();
  if ("problem" in answer) return tellProblem(terminal, answer);
  if (page.json === null) terminal.out(`${page.lines(answer.report).join("\n")}\n`);
  else terminal.out(`${JSON.stringify(page.json(answer.report))}\n`);
  return EXIT.ok;
}

const REDRAW_MS = 1000;
/** Of the time between two looks at most this share is spent asking: a large report costs the gateway as well. */
const BUSY_SHARE = 0.2;

const HOME_AND_CLEAR = "\u001b[H\u001b[J";

/** Redraws until it is stopped. What was seen last stays while nobody answers. */
async function watchPage<T>(terminal: Terminal, page: WatchedPage<T>, { stop, wait, nowMs }: Watch): Promise<number> {
  let last: { readonly report: T } | null = null;
  let goneSinceMs = Number.NaN;
  while (!stop.aborted) {
    const askedAtMs = nowMs();
    const answer = await page.ask(stop);
    if (stop.aborted) break;
    const tookMs = nowMs() - askedAtMs;
    let note = "";
    if ("report" in answer) {
      last = answer;
      goneSinceMs = Number.NaN;
    } else if (!answer.isGone || last === null) {
      // waiting for a gateway that was never there would hide a wrong address
      return tellProblem(terminal, answer);
    } else {
      if (Number.isNaN(goneSinceMs)) goneSinceMs = askedAtMs;
      const since = new Date(goneSinceMs).toISOString().slice(11, 19);
      note = `gateway gone since ${since} UTC (${ageText(nowMs() - goneSinceMs)}): what stands here is what it said last`;
    }
    draw(terminal, page, last.report, note);
    await wait(Math.max(REDRAW_MS, tookMs / BUSY_SHARE - tookMs));
  }
  return EXIT.ok;
}

function draw<T>(terminal: Terminal, page: WatchedPage<T>, report: T, note: string): void {
  if (page.json !== null) {
    if (note === "") terminal.out(`${JSON.stringify(page.json(report))}\n`);
    else terminal.error(`${note}\n`);
    return;
  }
  const screen = terminal.screen();
  const head = note === "" ? [] : [painted(note, hasColour(terminal), "red")];
  const lines = [...head, ...page.lines(report)];
  if (screen === null) {
    terminal.out(`${lines.join("\n")}\n\n`);
    return;
  }
  // one line less than there is: the last line feed would move everything up
  const room = Math.max(2, screen.rows - 1);
  const isCut = lines.length > room;
  const kept = isCut ? [...lines.slice(0, room - 1), `… the window is too low: ${page.less}`] : lines;
  terminal.out(`${HOME_AND_CLEAR}${kept.join("\n")}\n`);
}
