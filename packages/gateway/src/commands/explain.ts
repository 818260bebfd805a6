/** `zml explain`: asks a running gateway for the story of one decision. */

import type { DecisionJson } from "@zml/protocol/admin";
import { explainText } from "../evidence/explain.ts";
import { type AdminOptions, askAdmin, tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import type { Terminal } from "./terminal.ts";

export interface ExplainOptions extends AdminOptions {
  readonly id: string;
  readonly json: boolean;
}

/** @returns the exit code. */
export async function explain(terminal: Terminal, { id, json, ...admin }: ExplainOptions): Promise<number> {
  const path = `/admin/v1/decisions/${encodeURIComponent(id)}`;
  const answer = await askAdmin(terminal, admin, { path, members: ["decision", "families"] });
  if ("problem" in answer) return tellProblem(terminal, answer);
  terminal.out(json ? answer.text : `${explainText(answer.value as DecisionJson)}\n`);
  return EXIT.ok;
}
