/**
 * What our clients cost an application, beside the bare HTTP library under them and beside the `openai` clients: a canned
 * server in one process, the application in another, in which the three take turns.
 */

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findInterpreters, mainOf, makeEnvironment, variables } from "../../python/test/environment.ts";
import { startScript } from "../processes.ts";
import { median } from "../report.ts";

const root = join(import.meta.dirname, "..", "..");
const source = join(root, "python", "src");

/** How much to measure. */
export interface ClientPlan {
  /** Times that each client has its turn; the first quarter warms up and is not counted. */
  readonly pythonRounds: number;
  readonly nodeRounds: number;
  /** The same with one event each millisecond. */
  readonly pacedRounds: number;
  /** Calls in one turn. */
  readonly calls: number;
  /** Events of the stream in one turn. */
  readonly events: number;
  /** Cold processes that import each module; 0: none is started. */
  readonly imports: number;
  /** Longest run of one language, ms: what takes longer hangs. */
  readonly deadlineMs: number;
}

/** CPU time (user and system, of the whole process) and wall time, µs. Medians over the turns. */
export interface ClientCost {
  readonly cpuUs: number;
  readonly wallUs: number;
  /** CPU time less that of the bare library in the same round; of the bare library itself 0. */
  readonly overheadUs: number;
}

/** What costs: a call with a whole answer; an event of a stream, many of which come in one read; one that comes alone. */
export type Unit = "call" | "event" | "paced_event";

type ClientName = "raw" | "zml" | "openai";

/** Where an application runs. */
export type Runtime = "python_sync" | "python_async" | "node";

/** What was measured. */
export interface ClientMeasures {
  readonly costs: Readonly<Record<Runtime, Readonly<Record<Unit, Readonly<Record<ClientName, ClientCost>>>>>>;
  /** CPU time of `import` in a cold process whose byte code is there, ms. NaN when it was not asked for. */
  readonly importMs: { readonly httpx: number; readonly zml: number };
}

/** `[cpu, wall]` of each turn, µs. */
type Turns = Readonly<Record<Unit, Readonly<Record<ClientName, readonly (readonly [number, number])[]>>>>;

/** Measures both languages, one after the other. @throws Error when an interpreter or package is missing, or a call fails */
export async function measureClients(plan: ClientPlan, say: (text: string) => void): Promise<ClientMeasures> {
  const scratch = mkdtempSync(join(tmpdir(), "zml-bench-"));
  const run = (command: string, args: readonly string[]) => output(command, args, plan.deadlineMs);
  const server = await startScript("clients/canned-server.ts", [String(plan.events)]);
  try {
    const url = `http://127.0.0.1:${server.port}`;
    const python = await pythonOf(say);
    const sizes = [plan.pacedRounds, plan.calls, plan.events].map(String);
    say("clients: python");
    const script = join(import.meta.dirname, "measure_python.py");
    const inPython = await run(python, [script, url, String(plan.pythonRounds), ...sizes]);
    const importMs = await measureImports((code) => run(python, ["-c", code]), plan.imports);
    say("clients: node");
    const built = join(scratch, "client");
    await run(process.execPath, [join(root, "scripts", "build-client.ts"), built]);
    const measured = [join(import.meta.dirname, "measure-node.ts"), url, join(built, "index.js")];
    const inNode = await run(process.execPath, [...measured, String(plan.nodeRounds), ...sizes]);
    const { sync, async } = JSON.parse(inPython) as { sync: Turns; async: Turns };
    const { node } = JSON.parse(inNode) as { node: Turns };
    return { costs: { python_sync: costsOf(sync), python_async: costsOf(async), node: costsOf(node) }, importMs };
  } finally {
    await server.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Path of a Python with the packages that are measured, which are installed once. @throws Error when there is none */
export async function pythonOf(say: (text: string) => void): Promise<string> {
  const interpreter = await mainOf(await findInterpreters());
  if (interpreter === undefined) throw new Error("bench:clients needs Python 3.11 or newer with venv");
  return (await makeEnvironment(interpreter, say)).python;
}

/** Cold processes in turn. `print` runs a program and tells what it printed. */
async function measureImports(
  print: (code: string) => Promise<string>,
  count: number,
): Promise<{ httpx: number; zml: number }> {
  const ms = { httpx: [] as number[], zml: [] as number[] };
  for (let round = 0; round <= count && count > 0; round++) {
    for (const name of ["httpx", "zml"] as const) {
      const code = `import time; start = time.process_time(); import ${name}; print(time.process_time() - start)`;
      const seconds = Number(await print(code));
      // the first round writes the byte code
      if (round > 0) ms[name].push(seconds * 1000);
    }
  }
  return { httpx: median(ms.httpx), zml: median(ms.zml) };
}

function costsOf(turns: Turns): Record<Unit, Record<ClientName, ClientCost>> {
  const of = (unit: Unit): Record<ClientName, ClientCost> => {
    const warm = (name: ClientName) => turns[unit][name].slice(Math.ceil(turns[unit][name].length / 4));
    const raw = warm("raw");
    const cost = (name: ClientName): ClientCost => {
      const own = warm(name);
      return {
        cpuUs: median(own.map(([cpuUs]) => cpuUs)),
        wallUs: median(own.map(([, wallUs]) => wallUs)),
        overheadUs: median(own.map(([cpuUs], round) => cpuUs - (raw[round]?.[0] ?? Number.NaN))),
      };
    };
    return { raw: cost("raw"), zml: cost("zml"), openai: cost("openai") };
  };
  return { call: of("call"), event: of("event"), paced_event: of("paced_event") };
}

async function output(command: string, args: readonly string[], timeout: number): Promise<string> {
  const limits = { timeout, killSignal: "SIGKILL", maxBuffer: 64 * 1024 * 1024 } as const;
  const { stdout } = await promisify(execFile)(command, args, { ...limits, env: variables({ PYTHONPATH: source }) });
  return stdout;
}
