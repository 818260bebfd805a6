/** What an operator does to a node. Each is in the audit. */

import { DEFAULT_ACCOUNT } from "@zml/protocol";
import { NODE_ROUTES, type NodeActionJson } from "@zml/protocol/admin";
import { type BoundRoute, bind, type RouteCall } from "./bound-route.ts";
import { noSuch, refusedProblem } from "./write-results.ts";

export function nodeHandlers(): BoundRoute[] {
  return [
    bind(NODE_ROUTES.drain, ({ params, query }, call) => setDraining(call, query.account, params.id, true)),
    bind(NODE_ROUTES.undrain, ({ params, query }, call) => setDraining(call, query.account, params.id, false)),
    bind(NODE_ROUTES.cooldown, async ({ params, query, body }, { principal, sources }) => {
      const { account = DEFAULT_ACCOUNT } = query;
      const before = found(sources.nodes.state(account, params.id), params.id, account);
      const after = found(sources.nodes.cooldown(account, params.id, body.seconds * 1000), params.id, account);
      const change = { kind: "node", account, name: params.id, action: "cooldown" };
      await sources.objects.note({ ...change, ...remaining(before, after) }, principal.actor);
      return { status: 200, body: after };
    }),
    bind(NODE_ROUTES.clearCooldown, async ({ params, query }, { principal, sources }) => {
      const { account = DEFAULT_ACCOUNT } = query;
      const before = found(sources.nodes.state(account, params.id), params.id, account);
      const after = found(sources.nodes.clearCooldown(account, params.id), params.id, account);
      const change = { kind: "node", account, name: params.id, action: "clear_cooldown" };
      await sources.objects.note({ ...change, ...remaining(before, after) }, principal.actor);
      return { status: 200, body: after };
    }),
  ];
}

async function setDraining(
  { principal, sources }: RouteCall,
  account = DEFAULT_ACCOUNT,
  id: string,
  isDraining: boolean,
) {
  found(sources.nodes.state(account, id), id, account);
  const result = await sources.objects.setDraining(account, id, isDraining, principal.actor);
  if (result.kind === "refused") throw refusedProblem(result, null);
  return { status: 200, body: found(sources.nodes.state(account, id), id, account) } as const;
}

function found<T>(state: T | null, id: string, account: string): T {
  if (state === null) throw noSuch("a node", id, account);
  return state;
}

function remaining(before: NodeActionJson, after: NodeActionJson) {
  return {
    before: { cooldown_remaining_ms: before.cooldown_remaining_ms },
    after: { cooldown_remaining_ms: after.cooldown_remaining_ms },
  };
}
