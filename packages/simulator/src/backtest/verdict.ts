/** How far a replay of what is in force is from what really happened, figure by figure, and what that makes of the rest. */

import { FIGURES, type FigureName, type Figures } from "./summary.ts";

/** Figures that the grade stands on. */
const JUDGED: readonly FigureName[] = ["usd", "attainment", "ttft_p50_ms", "token_p50_ms", "response_p50_ms"];
/** Off by at most this much is close, by at most that much is rough. */
const CLOSE = 0.1;
const ROUGH = 0.25;
/** Shares differ in points, everything else as a part of what happened. */
const SHARES: readonly FigureName[] = ["attainment", "refused_share", "queued_share", "failed_share"];

export interface Deviation {
  readonly figure: FigureName;
  readonly happened: number | null;
  readonly replayed: number | null;
  /** As a part of what happened; of shares in points (0.01 is one point). Null: one of them is not known. */
  readonly off: number | null;
}

export interface Verdict {
  readonly grade: "close" | "rough" | "far";
  readonly text: string;
  readonly deviations: readonly Deviation[];
}

export function verdictOf(happened: Figures, replayed: Figures): Verdict {
  const deviations = FIGURES.map(({ name, of }): Deviation => {
    const [real, replay] = [of(happened), of(replayed)];
    return { figure: name, happened: real, replayed: replay, off: offBy(name, real, replay) };
  });
  const judged = deviations.filter(({ figure, off }) => JUDGED.includes(figure) && off !== null);
  const worst = judged.reduce<Deviation | null>(
    (most, one) => (most === null || Math.abs(one.off as number) > Math.abs(most.off as number) ? one : most),
    null,
  );
  if (worst === null) {
    return { grade: "far", text: "nothing can be compared: no request of the window was served", deviations };
  }
  const most = Math.abs(worst.off as number);
  const grade = most <= CLOSE ? "close" : most <= ROUGH ? "rough" : "far";
  const points = SHARES.includes(worst.figure) ? "points" : "%";
  const what = `${worst.figure} is off by ${(most * 100).toFixed(1)} ${points}, the others by less`;
  const advice = {
    close: "differences larger than that can be trusted",
    rough: "trust directions and large differences only",
    far: "do not decide by it",
  } as const;
  const like = { close: "close to", rough: "roughly like", far: "far from" } as const;
  const text = `the replay of what is in force is ${like[grade]} what happened (${what}): ${advice[grade]}`;
  return { grade, text, deviations };
}

function offBy(name: FigureName, happened: number | null, replayed: number | null): number | null {
  if (happened === null || replayed === null) return null;
  if (SHARES.includes(name)) return replayed - happened;
  return happened === 0 ? (replayed === 0 ? 0 : null) : replayed / happened - 1;
}
