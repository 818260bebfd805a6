/** `zml decisions --tail`: what is decided, a line each, as it ends. */

import type { DecisionJson, DecisionTailJson } from "@zml/protocol/admin";
import { askAdmin, tellProblem } from "./ask-admin.ts";
import { type DecisionsOptions, filterOf, tookText } from "./decisions.ts";
import { EXIT } from "./exit-codes.ts";
import { counted, UNKNOWN } from "./nodes-words.ts";
import { oneLine, painted } from "./table-text.ts";
import { hasColour, type Terminal } from "./terminal.ts";
import type { Watch } from "./watch-page.ts";

/** Between two questions, ms. */
const PACE_MS = 1_000;

/** Runs until it is stopped. @returns the exit code. */
export async function tailDecisions(terminal: Terminal, options: DecisionsOptions, watch: Watch): Promise<number> {
  let mark: string | undefined;
  let isGone = false;
  while (!watch.stop.aborted) {
    const answer = await askAdmin(terminal, options, {
      path: "/admin/v1/decisions/tail",
      query: { ...filterOf(options), mark },
      members: ["items", "mark"],
      signal: watch.stop,
    });
    if (watch.stop.aborted) break;
    if ("problem" in answer) {
      // waiting for a gateway that was never there would hide a wrong address
      if (!answer.isGone || mark === undefined) return tellProblem(terminal, answer);
      if (!isGone) terminal.error(`zml: ${answer.problem}; waiting for it\n`);
      isGone = true;
      await watch.wait(PACE_MS);
      continue;
    }
    const told = answer.value as DecisionTailJson;
    if (isGone && !told.is_restarted) terminal.error("zml: the gateway answers again\n");
    isGone = false;
    mark = told.mark;
    if (told.is_restarted) terminal.error("zml: the gateway was started anew: what it decided before is not known\n");
    for (const item of told.items) terminal.out(`${options.json ? JSON.stringify(item) : lineOf(terminal, item)}\n`);
    if (told.missed > 0) {
      const advice = "a larger evidence.ring_records keeps more";
      terminal.error(
        `zml: ${counted(told.missed, "decision")} missed: they came faster than they were read; ${advice}\n`,
      );
    }
    if (!told.is_more) await watch.wait(PACE_MS);
  }
  return EXIT.ok;
}

function lineOf(
  terminal: Terminal,
  { decision, decided_at: at, request, policy, choice, attempt, outcome }: DecisionJson,
): string {
  const end =
    choice.node === null ? "no node" : [outcome.kind, outcome.status].filter((part) => part !== null).join(" ");
  const isWell = outcome.kind === "success";
  const parts = [
    at.slice(11, 23),
    painted(end.padEnd(12), hasColour(terminal), isWell ? "green" : "red"),
    tookText(outcome.duration_ms).padStart(6),
    oneLine(choice.node === null ? UNKNOWN : `${choice.node} (${choice.family ?? UNKNOWN})`),
    oneLine(`${policy.name ?? UNKNOWN}/${request.model ?? UNKNOWN}`),
    choice.reason,
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    decision,
  ];
  return parts.join("  ");
}
