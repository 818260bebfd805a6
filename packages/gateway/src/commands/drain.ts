/** `zml drain`, `undrain` and `cooldown`: takes a node out of routing and back in, without touching what runs there. */

import { askAdmin, askFleet, tellProblem } from "./ask-admin.ts";
import { durationMs } from "./duration.ts";
import { EXIT } from "./exit-codes.ts";
import type { ObjectsOptions } from "./get.ts";
import { unknownNode } from "./nodes.ts";
import { ageText, counted } from "./nodes-words.ts";
import { objectTitle } from "./object-kinds.ts";
import type { Terminal } from "./terminal.ts";
import type { Watch } from "./watch-page.ts";

export interface NodeOptions extends ObjectsOptions {
  readonly id: string;
  readonly json: boolean;
}

export interface DrainOptions extends NodeOptions {
  /** Until nothing runs on it. */
  readonly wait: boolean;
  /** A duration: how long `wait` waits. */
  readonly timeout: string;
}

export interface CooldownOptions extends NodeOptions {
  readonly clear: boolean;
  /** A duration. */
  readonly for: string;
}

interface NodeState {
  readonly id: string;
  readonly account: string;
  readonly is_draining: boolean;
  readonly cooldown_remaining_ms: number | null;
  readonly in_flight: number;
}

/** @returns the exit code: 8 when requests still run there after `timeout`. */
export async function drain(terminal: Terminal, options: DrainOptions, watch: Watch): Promise<number> {
  const timeoutMs = durationMs(options.timeout);
  if (Number.isNaN(timeoutMs)) return wrong(terminal, `--timeout ${options.timeout}`);
  const acted = await act(terminal, options, { action: "drain", body: {} });
  if (typeof acted === "number") return acted;
  const title = objectTitle({ kind: "node", account: acted.account, name: acted.id });
  if (!options.wait) {
    const rest =
      acted.in_flight === 0 ? "nothing runs there" : `${counted(acted.in_flight, "request")} still run there`;
    tell(terminal, options, acted, `${title} gets no new request; ${rest}`);
    return EXIT.ok;
  }
  const left = await waitUntilEmpty(terminal, { options, first: acted, timeoutMs, watch });
  if (typeof left !== "number") return tellProblem(terminal, left);
  tell(terminal, options, { ...acted, in_flight: left }, left === 0 ? `${title} is drained` : "");
  if (left === 0) return EXIT.ok;
  const hint = watch.stop.aborted ? "stopped waiting" : `--timeout ${options.timeout} is over`;
  terminal.error(`zml: ${hint}: ${counted(left, "request")} still run on ${title}; it gets no new ones\n`);
  return EXIT.timedOut;
}

/** @returns the exit code. */
export async function undrain(terminal: Terminal, options: NodeOptions): Promise<number> {
  const acted = await act(terminal, options, { action: "undrain", body: {} });
  if (typeof acted === "number") return acted;
  tell(terminal, options, acted, `node ${acted.id} takes requests again`);
  return EXIT.ok;
}

/** @returns the exit code. */
export async function cooldown(terminal: Terminal, options: CooldownOptions): Promise<number> {
  const forMs = durationMs(options.for);
  if (Number.isNaN(forMs)) return wrong(terminal, `--for ${options.for}`);
  const asked = options.clear
    ? { action: "clear-cooldown", body: {} }
    : { action: "cooldown", body: { seconds: forMs / 1000 } };
  const acted = await act(terminal, options, asked);
  if (typeof acted === "number") return acted;
  const { cooldown_remaining_ms: leftMs } = acted;
  const state = leftMs === null ? "does not cool down" : `gets no traffic for ${ageText(leftMs)}, then one trial`;
  tell(terminal, options, acted, `node ${acted.id} ${state}`);
  return EXIT.ok;
}

async function act(
  terminal: Terminal,
  options: NodeOptions,
  { action, body }: { action: string; body: unknown },
): Promise<NodeState | number> {
  const { id, account } = options;
  const answer = await askAdmin(terminal, options, {
    method: "POST",
    path: `/admin/v1/nodes/${encodeURIComponent(id)}/${action}`,
    query: account === undefined ? {} : { account },
    body,
    members: ["id", "in_flight"],
  });
  // the other end is this product
  if (!("problem" in answer)) return answer.value as NodeState;
  if (answer.exit !== EXIT.notFound) return tellProblem(terminal, answer);
  const fleet = await askFleet(terminal, options);
  const problem = "problem" in fleet ? answer.problem : unknownNode(id, fleet.report);
  return tellProblem(terminal, { ...answer, problem });
}

/** Between two looks at the node, ms. */
const LOOK_MS = 500;

/** Says how many requests still run there each time that this changes. @returns how many run there at the end. */
async function waitUntilEmpty(
  terminal: Terminal,
  {
    options,
    first,
    timeoutMs,
    watch: { stop, wait, nowMs },
  }: { options: DrainOptions; first: NodeState; timeoutMs: number; watch: Watch },
) {
  const startMs = nowMs();
  let inFlight = first.in_flight;
  let told = Number.NaN;
  for (;;) {
    if (inFlight > 0 && inFlight !== told) {
      terminal.error(`${first.id}: ${counted(inFlight, "request")} left after ${ageText(nowMs() - startMs)}\n`);
      told = inFlight;
    }
    const leftMs = startMs + timeoutMs - nowMs();
    if (inFlight === 0 || leftMs <= 0 || stop.aborted) return inFlight;
    await wait(Math.min(LOOK_MS, leftMs));
    const answer = await askFleet(terminal, options);
    if ("problem" in answer) return answer;
    // another url under the same id is another row: the old one empties as well
    inFlight = answer.report.nodes
      .filter(({ id, account }) => id === first.id && account === first.account)
      .reduce((sum, { in_flight: count }) => sum + count, 0);
  }
}

function tell(terminal: Terminal, { json }: NodeOptions, state: NodeState, text: string): void {
  if (json) terminal.out(`${JSON.stringify(state)}\n`);
  else if (text !== "") terminal.out(`${text}\n`);
}

function wrong(terminal: Terminal, option: string): number {
  terminal.error(`zml: ${option} is no duration: give 30s, 15m, 1h or 2d\n`);
  return EXIT.usage;
}
