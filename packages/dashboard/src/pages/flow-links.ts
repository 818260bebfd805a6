import type { Following } from "../live.ts";
import type { FlowLink } from "../parts/flow-picture.tsx";

/** Rates of requests that ended, by policy and family. With several accounts a policy has its account's name before it. */
export function flowLinks({ now, before }: Following): FlowLink[] {
  if (now === null || before === null) return [];
  const seconds = (now.clock_ms - before.clock_ms) / 1000;
  const isShared = new Set(now.flows.map(({ account }) => account)).size > 1;
  return now.flows.map((flow) => {
    const { account, policy, family } = flow;
    const was = before.flows.find((one) => one.account === account && one.policy === policy && one.family === family);
    return {
      from: isShared ? `${account} · ${policy}` : policy,
      to: family === "" ? "no node" : family,
      rate: Math.max(0, flow.requests - (was?.requests ?? 0)) / seconds,
    };
  });
}
