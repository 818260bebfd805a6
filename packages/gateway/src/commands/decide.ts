/** `zml decide`: what a running gateway would decide for a request, as it is and under changes; nothing is sent or booked. */

import { readFile } from "node:fs/promises";
import type { Endpoint } from "@zml/engine";
import type { DecisionJson } from "@zml/protocol/admin";
import { BodyScanner, type RoutableBody } from "../admission/body-scanner.ts";
import { promptTokensAtLeast, promptTokensOf } from "../admission/prompt-size.ts";
import { formatProblems, problemAt, sortProblems } from "../config/config-problem.ts";
import { readYaml } from "../config/yaml-text.ts";
import { explainText, verdictText } from "../evidence/explain.ts";
import { askAdmin, tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import type { ObjectsOptions } from "./get.ts";
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
  if ("problem" in answer) return tellProblem(terminal, answer);
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

interface Refused {
  readonly problem: string;
  readonly exit: number;
}

async function readQuestion(
  terminal: Terminal,
  options: DecideOptions,
): Promise<{ readonly question: Question } | Refused> {
  if (options.body === "-" && options.policyDraft === "-") {
    return refuse("--body and --policy-draft can't both be standard input: name a file for one", EXIT.usage);
  }
  const scanned = options.body === undefined ? null : await scanBody(terminal, options.body);
  if (scanned !== null && "problem" in scanned) return scanned;
  const model = options.model ?? scanned?.scan.model;
  if (model === undefined) return refuse("no model: name it with --model, or give a body with --body FILE", EXIT.usage);
  const prices = pricesOf(options.price);
  if ("problem" in prices) return prices;
  const draft = options.policyDraft === undefined ? null : await readDraft(terminal, options.policyDraft);
  if (draft !== null && "problem" in draft) return draft;
  const { policy, accelerator, endpoint, promptTokens, maxTokens, answers } = options;
  return {
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
        ...(draft !== null && { policy: draft.policy }),
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
  const bytes = await bytesOf(terminal, file, "--body");
  if ("problem" in bytes) return bytes;
  const scanner = new BodyScanner();
  scanner.push(bytes.bytes);
  const scan = scanner.end();
  if (!scan.ok) return refuse(`${nameOf(file)}: ${scan.message}: send what a caller would send`, EXIT.failed);
  return { scan, bytes: bytes.bytes.length };
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
    const [, name, usd] = /^([^=]+)=(\d+(?:\.\d+)?)$/.exec(text) ?? [];
    if (name === undefined) {
      return refuse(`--price ${text}: expected NAME=USD per GPU-hour, such as --price MI300X=2.50`, EXIT.usage);
    }
    if (Object.hasOwn(prices, name)) return refuse(`--price ${name} stands twice: give one`, EXIT.usage);
    prices[name] = Number(usd);
  }
  return { prices };
}

/** One policy, alone or as the only one under `policies`. */
async function readDraft(terminal: Terminal, file: string): Promise<{ readonly policy: unknown } | Refused> {
  const read = await bytesOf(terminal, file, "--policy-draft");
  if ("problem" in read) return read;
  const name = nameOf(file);
  const yaml = readYaml(read.bytes.toString("utf8"));
  if (yaml.problems.length > 0) {
    const problems = yaml.problems.map((problem) => problemAt(name, problem, problem));
    return { problem: formatProblems(sortProblems(problems)), exit: EXIT.failed };
  }
  const { value } = yaml;
  const policies = isRecord(value) && Array.isArray(value["policies"]) ? value["policies"] : [value];
  const [policy] = policies;
  if (policies.length !== 1 || !isRecord(policy)) {
    return refuse(
      `${name}: expected one policy, as it stands in zml.yaml, alone or under policies; it holds ` +
        `${policies.length === 1 ? "something else" : policies.length}`,
      EXIT.failed,
    );
  }
  return { policy };
}

async function bytesOf(
  terminal: Terminal,
  file: string,
  option: string,
): Promise<{ readonly bytes: Buffer } | Refused> {
  try {
    return { bytes: file === "-" ? Buffer.from(await terminal.input()) : await readFile(file) };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    const why = code === "ENOENT" ? "there is no such file" : `it can't be read (${code})`;
    return refuse(
      `${nameOf(file)}: ${why}: name a file with ${option} FILE, or standard input with ${option} -`,
      EXIT.failed,
    );
  }
}

function nameOf(file: string): string {
  return file === "-" ? "standard input" : file;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuse(problem: string, exit: number): Refused {
  return { problem: `zml: ${problem}`, exit };
}
