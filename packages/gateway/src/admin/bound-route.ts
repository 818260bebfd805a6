/** A route of the contract with what it does. */

import type { RouteContract, RouteInput, RouteReply } from "@zml/protocol/admin";
import type { AdminSources } from "./admin-sources.ts";
import type { Principal } from "./authorize.ts";
import { bodyTypeOf, unsupportedType } from "./body-parsers.ts";
import { parseInput, type RawInput } from "./parse-input.ts";

/** Who asks, and what can be asked. */
export interface RouteCall {
  readonly principal: Principal;
  readonly sources: AdminSources;
}

/** What goes out. */
export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What a request brought, with the media type of its body; empty: it has none. */
export interface GivenInput extends RawInput {
  readonly type: string;
}

export interface BoundRoute {
  readonly contract: RouteContract;
  run(given: GivenInput, call: RouteCall): Promise<Reply>;
}

/** Ties a route to its handler; what the handler gets is checked, and what it may answer is typed. */
export function bind<C extends RouteContract>(
  contract: C,
  handle: (
    input: RouteInput<C>,
    call: RouteCall & { readonly accept: string },
  ) => Promise<RouteReply<C>> | RouteReply<C>,
): BoundRoute {
  return {
    contract,
    run: async (given, call) => {
      const accept = String(given.headers["accept"] ?? "");
      return (await handle(parseInput(contract, given), { ...call, accept })) as Reply;
    },
  };
}

/**
 * Runs a route.
 *
 * @throws AdminProblem for whatever the caller can change.
 */
export async function runRoute(bound: BoundRoute, given: GivenInput, call: RouteCall): Promise<Reply> {
  const { body } = bound.contract;
  if (body !== null) {
    const type = bodyTypeOf(given.type);
    if (type === null || !body.types.includes(type)) {
      throw unsupportedType(given.type === "" ? undefined : given.type, body.types);
    }
  }
  return bound.run(given, call);
}
