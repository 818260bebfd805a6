/** What recorded attempts taught a gateway. */

import { byKin, type NodeAttempts, type RecordedAttempt } from "./attempts.ts";
import { companyOf } from "./company.ts";
import type { Lesson } from "./replay-plan.ts";

/** Attempts that a gateway learns from before a replay, at most. */
const LESSONS_MAX = 4_000;

/**
 * What the attempts taught a gateway by the time that a window begins: the last ones of each node. What came later is no
 * lesson, since a gateway that knows how the window ends decides otherwise than the one that ran; only where nothing is
 * kept of the time before it is.
 *
 * @param beginMs of the window, on the clock of the attempts.
 */
export function lessonsOf(groups: readonly NodeAttempts[], beginMs: number): Lesson[] {
  const together = byKin(groups);
  const most = Math.max(20, Math.floor(LESSONS_MAX / Math.max(1, together.length)));
  const isBefore = ({ sentAtMs, durationMs }: RecordedAttempt) => sentAtMs + durationMs <= beginMs;
  const isAnyBefore = groups.some(({ attempts }) => attempts.some(isBefore));
  const lessons = together.flatMap(({ group: { node, attempts }, modelOf }) => {
    const company = companyOf(attempts);
    const indexes = [...attempts.keys()].filter(
      (index) => !isAnyBefore || isBefore(attempts[index] as RecordedAttempt),
    );
    return indexes.slice(-most).map((index) => {
      const { sentAtMs, firstTokenMs, durationMs, promptTokens, outputTokens } = attempts[index] as RecordedAttempt;
      const endMs = sentAtMs + durationMs;
      const began = Number.isNaN(firstTokenMs) ? sentAtMs : sentAtMs + firstTokenMs;
      const during = company(began, endMs, index);
      const atFirst = company(sentAtMs - 1e-3, sentAtMs, index);
      const { predictedFirstMs = Number.NaN, predictedTokenMs = Number.NaN } = attempts[index] as RecordedAttempt;
      const lesson: Lesson = {
        ...{ atMs: endMs, predictedFirstMs, predictedTokenMs },
        row: node,
        model: modelOf[index] as number,
        ...{ promptTokens, outputTokens, firstTokenMs, durationMs },
        depth: Math.round(atFirst.sequences),
        aheadTokens: atFirst.ahead,
        meanDepth: Math.max(1, during.sequences),
        meanCachedTokens: Math.max(during.cached, promptTokens),
        prefilledTokens: during.prompts,
      };
      return { lesson, endMs };
    });
  });
  return lessons.sort((a, b) => a.endMs - b.endMs).map(({ lesson }) => lesson);
}
