/** `zml keys create` and `rotate`: the only commands that ever show a key. */

import { tellUnacknowledged } from "./apply.ts";
import { askAdmin, tellProblem } from "./ask-admin.ts";
import { durationMs, momentMs } from "./duration.ts";
import { EXIT } from "./exit-codes.ts";
import type { ObjectsOptions } from "./get.ts";
import type { ObjectJson } from "./object-kinds.ts";
import { objectTitle } from "./object-kinds.ts";
import type { Terminal } from "./terminal.ts";

interface KeyOptions extends ObjectsOptions {
  readonly name: string;
  readonly json: boolean;
  /** The key alone. */
  readonly quiet: boolean;
}

export interface CreateKeyOptions extends KeyOptions {
  readonly scope?: readonly string[];
  readonly model?: readonly string[];
  readonly policy?: readonly string[];
  /** A moment, or a duration from now. */
  readonly expires?: string;
  /** `requests_per_minute=60`. */
  readonly limit?: readonly string[];
}

export interface RotateKeyOptions extends KeyOptions {
  /** A duration. */
  readonly overlap: string;
}

/** @returns the exit code. @param nowMs wall clock, Unix ms. */
export async function createKey(terminal: Terminal, options: CreateKeyOptions, nowMs: number): Promise<number> {
  const { name, account, scope, model, policy, expires, limit = [] } = options;
  const expiresAtMs = expires === undefined ? null : momentMs(expires, nowMs);
  if (Number.isNaN(expiresAtMs)) {
    return wrong(terminal, `--expires ${expires} is no moment: give 90d, 2027-01-31 or 2027-01-31T12:00:00Z`);
  }
  if (expiresAtMs !== null && expiresAtMs <= nowMs) {
    return wrong(terminal, `--expires ${expires} is over already: the key would open nothing`);
  }
  const limits = limitsOf(limit);
  if (typeof limits === "string") return wrong(terminal, limits);
  const spec = {
    ...(scope !== undefined && { scopes: scope }),
    ...(model !== undefined && { models: model }),
    ...(policy !== undefined && { policies: policy }),
    ...(expiresAtMs !== null && { expires_at: new Date(expiresAtMs).toISOString() }),
    ...(limit.length > 0 && { limits }),
  };
  const body = { name, ...(account !== undefined && { account }), spec };
  return mint(terminal, options, { path: "/admin/v1/keys", query: {}, body, did: "made" });
}

/** @returns the exit code. */
export async function rotateKey(terminal: Terminal, options: RotateKeyOptions): Promise<number> {
  const overlapMs = durationMs(options.overlap);
  if (Number.isNaN(overlapMs)) {
    return wrong(terminal, `--overlap ${options.overlap} is no duration: give 30s, 15m, 1h or 2d`);
  }
  const { account } = options;
  return mint(terminal, options, {
    path: `/admin/v1/keys/${encodeURIComponent(options.name)}/rotate`,
    query: account === undefined ? {} : { account },
    body: { overlap_seconds: Math.round(overlapMs / 1000) },
    did:
      overlapMs === 0 ? "rotated: the old value is void" : `rotated: the old value opens for ${options.overlap} more`,
  });
}

async function mint(
  terminal: Terminal,
  options: KeyOptions,
  { path, query, body, did }: { path: string; query: Record<string, string>; body: unknown; did: string },
): Promise<number> {
  const answer = await askAdmin(terminal, options, {
    method: "POST",
    path,
    query,
    body,
    members: ["object", "secret"],
  });
  if ("problem" in answer) return tellProblem(terminal, answer);
  const { object, secret, ...written } = answer.value as { readonly object: ObjectJson; readonly secret: string };
  if (options.json) terminal.out(answer.text);
  else if (options.quiet) terminal.out(`${secret}\n`);
  else terminal.out(`${objectTitle(object)} ${did}; its value, which is shown this once:\n\n${secret}\n`);
  tellUnacknowledged(terminal, written);
  return EXIT.ok;
}

/** `{ requests_per_minute: 60 }`, or what is wrong. The gateway knows which limits there are. */
function limitsOf(texts: readonly string[]): Record<string, number> | string {
  const limits: Record<string, number> = {};
  for (const text of texts) {
    const [, name, value] = /^([a-z_]+)=(\d+(?:\.\d+)?)$/.exec(text) ?? [];
    if (name === undefined) return `--limit ${text} is no limit: give NAME=NUMBER, such as requests_per_minute=600`;
    limits[name] = Number(value);
  }
  return limits;
}

function wrong(terminal: Terminal, problem: string): number {
  terminal.error(`zml: ${problem}\n`);
  return EXIT.usage;
}
