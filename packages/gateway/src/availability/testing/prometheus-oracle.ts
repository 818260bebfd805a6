/** The parser of Prometheus's own Python client, in one Python process, to compare ours with. */

import { execFile, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { makeOnce } from "../../../../simulator/real/make-once.ts";

const VERSION = "0.26.0";
const DEADLINE_MS = 90_000;
const CACHE = fileURLToPath(new URL("../../../../../.cache/prometheus-client/", import.meta.url));
const SCRIPT = fileURLToPath(new URL("./prometheus_oracle.py", import.meta.url));

/** One sample as the client reads it. */
export interface OracleSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A running process; one question is answered in some 0.1 ms. */
export interface PrometheusOracle {
  /** Samples of each line, read by itself; null: the line is refused. */
  lines(text: string): Promise<(OracleSample[] | null)[]>;
  /** Samples of a whole text; null: it is refused. */
  text(text: string, form: "text" | "openmetrics"): Promise<OracleSample[] | null>;
  stop(): Promise<void>;
}

/**
 * Starts the client's parser; installs it from PyPI into the clone's cache folder at the first call.
 *
 * @throws Error when there is no Python 3 with venv, or PyPI is out of reach.
 */
export async function startPrometheusOracle(): Promise<PrometheusOracle> {
  const directory = join(CACHE, VERSION);
  await makeOnce({ directory, deadlineMs: DEADLINE_MS, make: install });
  const python = spawn(join(directory, "bin", "python"), ["-I", SCRIPT], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => python.once("close", () => resolve()));
  const waiting: PromiseWithResolvers<unknown>[] = [];
  createInterface(python.stdout).on("line", (line) => waiting.shift()?.resolve(JSON.parse(line)));
  void ended.then(() => {
    for (const one of waiting) one.reject(new Error("the parser of prometheus_client ended before it answered"));
  });
  const ask = (form: string, text: string): Promise<unknown> => {
    const answer = Promise.withResolvers<unknown>();
    waiting.push(answer);
    python.stdin.write(`${JSON.stringify({ form, text })}\n`);
    return answer.promise;
  };
  return {
    lines: async (text) => ((await ask("lines", text)) as (Raw[] | null)[]).map(samplesOf),
    text: async (text, form) => samplesOf((await ask(form, text)) as Raw[] | null),
    async stop() {
      python.stdin.end();
      await ended;
    },
  };
}

type Raw = [string, Record<string, string>, string];

function samplesOf(raw: Raw[] | null): OracleSample[] | null {
  return raw?.map(([name, labels, value]) => ({ name, labels, value: numberOf(value) })) ?? null;
}

/** As Python prints it. */
function numberOf(text: string): number {
  return Number(text.replace("inf", "Infinity"));
}

/** Only the venv's scripts know where it was made, and none of them is used. */
async function install(staging: string, signal: AbortSignal): Promise<string> {
  const run = promisify(execFile);
  const venv = join(staging, "venv");
  await run("python3", ["-m", "venv", venv], { signal });
  const pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-input", "--disable-pip-version-check"];
  await run(join(venv, "bin", "python"), [...pip, `prometheus_client==${VERSION}`], { signal, cwd: dirname(venv) });
  return venv;
}
