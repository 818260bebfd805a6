/** Back-tests over the admin API: start, look at, cancel. */

import { unreachable } from "@zml/engine";
import { camelize } from "@zml/protocol";
import { BACKTEST_ROUTES, type BacktestJobJson } from "@zml/protocol/admin";
import { AdminProblem, shown } from "./admin-problem.ts";
import { accountOf, type Principal } from "./authorize.ts";
import { type BoundRoute, bind } from "./bound-route.ts";
import { refuseStoreFault } from "./configuration-handlers.ts";

const SINCE_S = 86_400;
/** Told where too many wait: a back-test of a tenant takes minutes, s. */
const RETRY_AFTER_S = 60;

export function backtestHandlers(): BoundRoute[] {
  return [
    bind(BACKTEST_ROUTES.start, async ({ body }, { principal, sources }) => {
      const isAll = body.account === undefined && principal.isOperator;
      const account = isAll ? null : accountOf(principal, body.account);
      const { since_s: sinceS = SINCE_S, until_s: untilS = 0 } = body;
      if (untilS >= sinceS) {
        const errors = [{ path: "until_s", message: `it is not less than since_s (${sinceS})`, hint: "lower it" }];
        throw new AdminProblem("invalid_body", "until_s: the window is empty", { errors });
      }
      const nowMs = Date.now();
      // a tenant's draft has no other account
      const drafts = body.policies.map((policy) => ({
        ...camelize(policy),
        ...(principal.isOperator && account === null ? {} : { account: account ?? policy.account }),
      }));
      const started = await sources.backtests
        .start(principal.isOperator ? "" : principal.account, {
          fromMs: nowMs - sinceS * 1000,
          toMs: nowMs - untilS * 1000,
          drafts,
          replaces: body.replaces ?? null,
          account,
        })
        .catch(refuseStoreFault);
      switch (started.kind) {
        case "started":
          return { status: 202, body: started.job };
        case "not_kept":
          throw new AdminProblem(
            "not_kept",
            "no decisions are kept: set evidence.keep (and store.path), and let traffic come",
          );
        case "already_running":
          throw new AdminProblem(
            "already_running",
            `the back-test ${started.id} runs or waits already: wait for it, or cancel it (DELETE /admin/v1/backtest/${started.id})`,
          );
        case "too_many":
          throw new AdminProblem(
            "too_many_backtests",
            `${started.waiting} back-tests of other accounts wait already (evidence.backtests.tenants_waiting): try again in some minutes`,
            { headers: { "retry-after": String(RETRY_AFTER_S) } },
          );
        default:
          return unreachable(started);
      }
    }),
    bind(BACKTEST_ROUTES.list, (_input, { principal, sources }) => ({
      status: 200,
      body: { items: sources.backtests.list(scopeOf(principal)).map((job) => ({ ...job, report: null })) },
    })),
    bind(BACKTEST_ROUTES.get, ({ params }, { principal, sources }) => ({
      status: 200,
      body: found(sources.backtests.find(params.id, scopeOf(principal)), params.id),
    })),
    bind(BACKTEST_ROUTES.cancel, ({ params }, { principal, sources }) => ({
      status: 200,
      body: found(sources.backtests.cancel(params.id, scopeOf(principal)), params.id),
    })),
  ];
}

/** Null: everybody's. */
function scopeOf({ isOperator, account }: Principal): string | null {
  return isOperator ? null : account;
}

function found(job: BacktestJobJson | null, id: string): BacktestJobJson {
  if (job === null) {
    throw new AdminProblem(
      "not_found",
      `there is no back-test ${shown(id)}: the last eight of an account since the start are remembered`,
    );
  }
  return job;
}
