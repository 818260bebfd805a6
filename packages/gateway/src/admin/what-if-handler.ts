/** What would be decided: from the body of the route to a call and to what is otherwise, and back. */

import { ALL_RIGHTS, ENDPOINTS, type RoutingCall } from "@zml/engine";
import { camelize } from "@zml/protocol";
import { DECISION_ROUTES, type DecisionJson, type RouteInput } from "@zml/protocol/admin";
import type { WhatIf, WhatIfAnswer } from "../evidence/what-if.ts";
import { AdminProblem, shown } from "./admin-problem.ts";
import { accountOf } from "./authorize.ts";
import { type BoundRoute, bind } from "./bound-route.ts";

type Body = RouteInput<typeof DECISION_ROUTES.whatIf>["body"];

/** A prompt of a page of text. */
const PROMPT_TOKENS = 500;

export function whatIfHandler(): BoundRoute {
  return bind(DECISION_ROUTES.whatIf, ({ body }, { principal, sources }) => {
    const account = accountOf(principal, body.account);
    const call = callOf(body, account);
    const { decision, asItIs } = decided(sources.whatIf(call, changesOf(body, account)), body);
    return { status: 200, body: { decision: withoutUrl(decision), as_it_is: withoutUrl(asItIs) } };
  });
}

function callOf({ request }: Body, account: string): RoutingCall {
  return {
    account,
    rights: ALL_RIGHTS,
    model: request.model,
    policy: request.policy ?? null,
    accelerator: request.accelerator ?? null,
    endpoint: ENDPOINTS.indexOf(request.endpoint ?? "chat_completions"),
    isStream: request.stream ?? false,
    promptTokens: request.prompt_tokens ?? PROMPT_TOKENS,
    maxTokens: request.max_tokens ?? Number.NaN,
    answers: request.n ?? 1,
    promptTokensAtLeast: request.prompt_tokens_at_least ?? 0,
    hasImages: request.images ?? false,
  };
}

function changesOf({ overrides = {} }: Body, account: string): WhatIf {
  const { prices = {}, down = [], policy } = overrides;
  return {
    prices: new Map(Object.entries(prices)),
    down: new Set(down),
    // the account of the call is meant: a draft has no other
    policy: policy === undefined ? null : { ...camelize(policy), account },
  };
}

/** @throws AdminProblem for what a caller of the data port would be refused for, and for names that nothing has. */
function decided(answer: WhatIfAnswer, body: Body): Extract<WhatIfAnswer, { kind: "decided" }> {
  switch (answer.kind) {
    case "decided":
      return answer;
    case "refused": {
      const { code, name, known } = answer.refusal;
      const path = PATHS[code] ?? "request.model";
      throw invalid(path, `it is ${code}: ${shown(name)}`, known);
    }
    case "unknown": {
      const path = answer.what === "node" ? "overrides.down" : "overrides.prices";
      throw invalid(
        answer.what === "family" ? pathOfFamily(body, answer.name) : path,
        `there is no ${answer.what} ${shown(answer.name)}`,
        answer.known,
      );
    }
  }
}

/** Where the draft names it. */
function pathOfFamily({ overrides }: Body, family: string): string {
  const chain = overrides?.policy?.accelerator_preference ?? [];
  return `overrides.policy.accelerator_preference[${chain.findIndex((entry) => entry.family === family)}].family`;
}

/** Where a node is, is the operator's. */
function withoutUrl(decision: DecisionJson): DecisionJson {
  return { ...decision, choice: { ...decision.choice, url: null } };
}

const PATHS: Readonly<Record<string, string>> = {
  policy_not_found: "request.policy",
  family_not_found: "request.accelerator",
};

/** Names that a hint lists. */
const KNOWN_MAX = 20;

function invalid(path: string, message: string, known: readonly string[]): AdminProblem {
  const more = known.length > KNOWN_MAX ? ` and ${known.length - KNOWN_MAX} more` : "";
  const hint = known.length === 0 ? "there is none" : `known: ${known.slice(0, KNOWN_MAX).join(", ")}${more}`;
  return new AdminProblem("invalid_body", `${path}: ${message}: ${hint}`, { errors: [{ path, message, hint }] });
}
