/**
 * A round of a node that is out and gave no sign at all last time: one path is asked, and the others only when that one
 * brings an answer, so that a black hole costs one connection and not one for each path.
 */

import type { PollResponse } from "./adapters/adapter.ts";
import type { PollFetch, PollRequest } from "./poll-fetch.ts";
import type { RoundResult } from "./poll-round.ts";

/** True for a round in which nothing came, and nothing said that nobody is there. */
export function isMute({ responses, healthFault }: RoundResult): boolean {
  const { health, metrics, models } = responses;
  const isSilent = healthFault === "timeout" || healthFault === "unreachable";
  return isSilent && health === null && metrics === null && models === null;
}

interface Asked {
  readonly request: PollRequest;
  readonly resolve: (response: PollResponse | Promise<PollResponse>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A fetch for one round, whose requests have to be made in one go.
 *
 * @param turn which of the requests is tried, modulo their number: another each time, since a path may hang for ever on
 *   a node that is well.
 */
export function oneFirst(fetch: PollFetch, turn: number): PollFetch {
  const asked: Asked[] = [];
  let answer: Promise<PollResponse> | null = null;
  const begin = (): void => {
    const tried = asked[turn % asked.length] as Asked;
    answer = fetch(tried.request);
    for (const { request, resolve, reject } of asked) {
      if (request === tried.request) answer.then(resolve, reject);
      else answer.then(() => resolve(fetch(request)), reject);
    }
  };
  return (request) => {
    // what is asked later follows from an answer
    if (answer !== null) return fetch(request);
    return new Promise((resolve, reject) => {
      asked.push({ request, resolve, reject });
      if (asked.length === 1) queueMicrotask(begin);
    });
  };
}
