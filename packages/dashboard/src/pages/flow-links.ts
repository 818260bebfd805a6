import type { Following } from "../live.ts";
import { flowKey } from "../live-model.ts";
import { familyColours } from "../parts/family-colour.ts";
import type { FlowLink } from "../parts/flow-picture.tsx";

/** Rates of requests that ended, by policy and family. With several accounts a policy has its account's name before it. */
export function flowLinks({ now, before }: Pick<Following, "now" | "before">): FlowLink[] {
  if (now === null || before === null) return [];
  const seconds = (now.clockMs - before.clockMs) / 1000;
  const isShared = new Set(now.flows.map(({ account }) => account)).size > 1;
  const colours = familyColours(now.names.family);
  const was = new Map(before.flows.map((flow) => [flowKey(flow), flow.requests]));
  return now.flows.map((flow) => {
    const { account, policy, family, requests } = flow;
    return {
      from: isShared ? `${account} · ${policy}` : policy,
      to: family === "" ? "no node" : family,
      colour: colours.get(family) ?? "bad-key",
      rate: Math.max(0, requests - (was.get(flowKey(flow)) ?? 0)) / seconds,
    };
  });
}
