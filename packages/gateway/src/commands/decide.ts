/** `zml decide`: what a running gateway would decide for a request, as it is and under changes; nothing is sent or booked. */

import type { Endpoint } from "@zml/engine";
import { MAX_GPU_HOUR_USD } from "@zml/protocol";
import type { DecisionJson } from "@zml/protocol/admin";
import type { RoutableBody } from "../admission/body-scan.ts";
import { BodyScanner } from "../admission/body-scanner.ts";
import { promptTokensAtLeast, promptTokensOf } from "../admission/prompt-size.ts";
import { explainText, verdictText } from "../evidence/explain.ts";
import { type AdminProblem, errorLine } from "./admin-problem.ts";
import { askAdmin, tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import type { ObjectsOptions } from "./get.ts";
import { readInput } from "./input-file.ts";
import { type Draft, readDraft } from "./read-draft.ts";
import type { Terminal } from "./terminal.ts";

export interface DecideOptions extends ObjectsOptions {
  /** A request's body, as callers send it; `-`: standard input. */
  readonly body?: string;
  readonly model?: string;
  readonly policy?: string;
  readonly accelerator?: string;
  readonly endpoint: Endpoint;
  readonly stream: boolean;
  readonly promptTokens?: number;
  readonly maxTokens?: number;
  readonly answers?: number;
  readonly images: boolean;
  /** `NAME=USD` per GPU-hour, of a node or a family. */
  readonly price: readonly string[];
  readonly down: readonly string[];
  /** A file with one policy; `-`: standard input. */
  readonly policyDraft?: string;
  readonly json: boolean;
}

interface WhatIfJson {
  readonly decision: DecisionJson;
  readonly as_it_is: DecisionJson;
}

/** @returns the exit code. */
export async function decide(terminal: Terminal, options: DecideOptions): Promise<number> {
  const read = await readQuestion(terminal, options);
  if ("problem" in read) {
    terminal.error(`${read.problem}\n`);
    return read.exit;
  }
  const answer = await askAdmin(terminal, options, {
    method: "POST",
    path: "/admin/v1/decide",
    body: read.question,
    members: ["decision", "as_it_is"],
  });
  if ("problem" in answer) return tellDraftProblem(terminal, answer, read.draft) ?? tellProblem(terminal, answer);
  if (options.json) terminal.out(answer.text);
  else
    terminal.out(`${lines(answer.value as WhatIfJson, Object.keys(read.question.overrides).length > 0).join("\n")}\n`);
  return EXIT.ok;
}

function lines({ decision, as_it_is: asItIs }: WhatIfJson, isChanged: boolean): string[] {
  const told = explainText(decision, { isHypothetical: true });
  if (!isChanged) return [told];
  return [
    told,
    `as it is  ${verdictText(asItIs)}`,
    ...(isSame(decision, asItIs) ? ["          so nothing would change"] : []),
  ];
}

function isSame({ choice: a }: DecisionJson, { choice: b }: DecisionJson): boolean {
  return a.node === b.node && a.reason === b.reason;
}

/** What is asked, as the route takes it. */
interface Question {
  readonly account: string | undefined;
  readonly request: Readonly<Record<string, unknown>>;
  readonly overrides: Readonly<Record<string, unknown>>;
}

const DRAFT_PATH = "overrides.policy";

/** Prints what is wrong with the draft where it stands there. @returns the exit code; null: nothing is wrong with it. */
function tellDraftProblem(terminal: Terminal, { errors, exit }: AdminProblem, draft: Draft | null): number | null {
  if (draft === null || !errors.some(({ path }) => path.startsWith(DRAFT_PATH))) return null;
  const said = errors.map((error) =>
    error.path.startsWith(DRAFT_PATH)
      ? draft.locate(`policies[0]${error.path.slice(DRAFT_PATH.length)}`, error.message)
      : `zml: ${errorLine(error)}`,
  );
  terminal.error(`${said.join("\n")}\n`);
  return exit;
}

interface Refused {
  readonly problem: string;
  readonly exit: number;
}

async function readQuestion(
  terminal: Terminal,
  options: DecideOptions,
): Promise<{ readonly question: Question; readonly draft: Draft | null } | Refused> {
  if (options.body === "-" && options.policyDraft === "-") {
    return refuse("--body and --policy-draft can't both be standard input: name a file for one", EXIT.usage);
  }
  const scanned = options.body === undefined ? null : await scanBody(terminal, options.body);
  if (scanned !== null && "problem" in scanned) return scanned;
  const model = options.model ?? scanned?.scan.model;
  if (model === undefined) return refuse("no model: name it with --model, or give a body with --body FILE", EXIT.usage);
  const prices = pricesOf(options.price);
  if ("problem" in prices) return prices;
  const draft = options.policyDraft === undefined ? null : await draftOf(terminal, options.policyDraft);
  if (draft !== null && "problem" in draft) return draft;
  const { policy, accelerator, endpoint, promptTokens, maxTokens, answers } = options;
  return {
    draft,
    question: {
      account: options.account,
      // the body's text stays here: its numbers and names are all that a decision reads
      request: {
        ...(scanned === null ? {} : numbersOf(scanned)),
        model,
        endpoint,
        ...(policy !== undefined && { policy }),
        ...(accelerator !== undefined && { accelerator }),
        ...(options.stream && { stream: true }),
        ...(promptTokens !== undefined && { prompt_tokens: promptTokens, prompt_tokens_at_least: 0 }),
        ...(maxTokens !== undefined && { max_tokens: maxTokens }),
        ...(answers !== undefined && { n: answers }),
        ...(options.images && { images: true }),
      },
      overrides: {
        ...(Object.keys(prices.prices).length > 0 && { prices: prices.prices }),
        ...(options.down.length > 0 && { down: options.down }),
        ...(draft !== null && { policy: draft.policies[0] }),
      },
    },
  };
}

interface Scanned {
  readonly scan: RoutableBody;
  readonly bytes: number;
}

/** Reads a body as the data port does. */
async function scanBody(terminal: Terminal, file: string): Promise<Scanned | Refused> {
  const read = await readInput(terminal, file, "--body");
  if ("problem" in read) return { ...read, exit: EXIT.failed };
  const scanner = new BodyScanner();
  scanner.push(read.bytes);
  const scan = scanner.end();
  if (!scan.ok) return refuse(`${read.name}: ${scan.message}: send what a caller would send`, EXIT.failed);
  return { scan, bytes: read.bytes.length };
}

function numbersOf({ scan, bytes }: Scanned): Readonly<Record<string, unknown>> {
  const { policy, accelerator, stream, maxTokens, n, images } = scan;
  return {
    ...(policy !== null && { policy }),
    ...(accelerator !== null && { accelerator }),
    stream,
    prompt_tokens: promptTokensOf(scan, bytes),
    prompt_tokens_at_least: promptTokensAtLeast(scan),
    ...(Number.isFinite(maxTokens) && { max_tokens: maxTokens }),
    n,
    images: images > 0,
  };
}

function pricesOf(texts: readonly string[]): { readonly prices: Readonly<Record<string, number>> } | Refused {
  const prices: Record<string, number> = {};
  for (const text of texts) {
    const [, name, usd = ""] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
    if (name === undefined || !/^\d+(?:\.\d+)?$/.test(usd) || Number(usd) > MAX_GPU_HOUR_USD) {
      const bounds = `USD per GPU-hour from 0 to ${MAX_GPU_HOUR_USD}`;
      return refuse(`--price ${text}: expected NAME=${bounds}, such as --price MI300X=2.50`, EXIT.usage);
    }
    if (Object.hasOwn(prices, name)) return refuse(`--price ${name} stands twice: give one`, EXIT.usage);
    prices[name] = Number(usd);
  }
  return { prices };
}

/** One policy, alone or as the only one under `policies`. */
async function draftOf(terminal: Terminal, file: string): Promise<Draft | Refused> {
  const read = await readInput(terminal, file, "--policy-draft");
  if ("problem" in read) return { ...read, exit: EXIT.failed };
  const draft = readDraft(read.name, read.bytes.toString("utf8"));
  if ("problems" in draft) return { problem: draft.problems, exit: EXIT.failed };
  const { length } = draft.policies;
  if (length === 1) return draft;
  return refuse(
    `${read.name}: expected one policy, as it stands in zml.yaml, alone or under policies; it holds ${length}`,
    EXIT.failed,
  );
}

function refuse(problem: string, exit: number): Refused {
  return { problem: `zml: ${problem}`, exit };
}
