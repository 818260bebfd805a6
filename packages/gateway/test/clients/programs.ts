/** The clients that are played, and how one of their programs is run. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { variables } from "../../../../python/test/environment.ts";
import type { StageFacts } from "./stage.ts";

/** What a program needs: an interpreter with its packages, or only what the repository has. */
export type Setting = "repository" | "npm" | "python" | "python-llama-index" | "python-instructor";

export interface Program {
  /** Below `programs/`. */
  readonly file: string;
  readonly setting: Setting;
  /** Its package, as it is pinned; null: the system's. */
  readonly pinned: string | null;
  /** How a caller reaches the routing, for docs/clients.md. */
  readonly routing: string;
}

export const PROGRAMS: readonly Program[] = [
  {
    file: "openai_client.py",
    setting: "python",
    pinned: "openai",
    routing: "`with_raw_response` → `.headers`; `with_streaming_response` for streams; `zml.openai.with_routing`",
  },
  {
    file: "openai-client.ts",
    setting: "repository",
    pinned: "openai",
    routing: "`.withResponse()` → `response.headers`",
  },
  {
    file: "anthropic_client.py",
    setting: "python",
    pinned: "anthropic",
    routing: "`with_raw_response` → `.headers`; `messages.stream()` → `.response.headers`",
  },
  {
    file: "anthropic-client.ts",
    setting: "npm",
    pinned: "@anthropic-ai/sdk",
    routing: "`.withResponse()` → `response.headers`",
  },
  {
    file: "langchain_client.py",
    setting: "python",
    pinned: "langchain-openai",
    routing: '`include_response_headers=True` → `response_metadata["headers"]`',
  },
  {
    file: "llama_index_client.py",
    setting: "python-llama-index",
    pinned: "llama-index-llms-openai-like",
    routing: "an `http_client` with a hook on responses",
  },
  {
    file: "ai-sdk-client.ts",
    setting: "npm",
    pinned: "ai",
    routing: "`response.headers` of the result; of a stream `(await result.response).headers`",
  },
  {
    file: "litellm_client.py",
    setting: "python",
    pinned: "litellm",
    routing: '`_hidden_params["additional_headers"]["llm_provider-x-zml-routing"]`',
  },
  {
    file: "instructor_client.py",
    setting: "python-instructor",
    pinned: "instructor",
    routing: "an `http_client` of the openai client with a hook on responses",
  },
  { file: "aiohttp_client.py", setting: "python", pinned: "aiohttp", routing: "`response.headers`" },
  { file: "curl-client.ts", setting: "repository", pinned: null, routing: "`-i`" },
];

export interface CaseResult {
  readonly name: string;
  /** `fault`: the node that fails on command. */
  readonly engine: "vllm" | "llamacpp" | "real" | "fault";
  /** Null: it passed. */
  readonly problem: string | null;
  readonly ms: number;
}

export interface ProgramResult {
  readonly program: Program;
  readonly client: string;
  readonly version: string;
  readonly cases: readonly CaseResult[];
  /** What it said beside its results, when it did not end well in another way than by a failed case. */
  readonly trouble: string | null;
}

export interface Installed {
  /** Interpreter of each of the Python settings. */
  readonly python: ReadonlyMap<Setting, string>;
  /** Folder with `node_modules` of the npm setting. */
  readonly npm: string;
}

/** For a program as a whole: the slowest takes 20 s on two cores. */
const DEADLINE_MS = 110_000;
/** What is kept of what a program says beside its results. */
const NOISE_MAX = 8000;

/** Plays one client. Never rejects. */
export function play(program: Program, stage: StageFacts, installed: Installed | null): Promise<ProgramResult> {
  const command = installed?.python.get(program.setting) ?? process.execPath;
  const args = [join(import.meta.dirname, "programs", program.file)];
  const env = variables({
    ZML_CLIENTS_STAGE: JSON.stringify(stage),
    ZML_CLIENTS_NODE: installed?.npm ?? "",
    // nothing is asked of anybody but the stage
    LITELLM_LOCAL_MODEL_COST_MAP: "True",
    LANGSMITH_TRACING: "false",
    NO_PROXY: "127.0.0.1",
    PYTHONPATH: join(import.meta.dirname, "..", "..", "..", "..", "python", "src"),
  });
  const limits = { timeout: DEADLINE_MS, killSignal: "SIGKILL" } as const;
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"], ...limits });
  let noise = "";
  const keep = (text: string) => {
    noise = (noise + text).slice(-NOISE_MAX);
  };
  let [client, version] = [program.file, ""];
  const cases: CaseResult[] = [];
  child.stderr.setEncoding("utf8").on("data", keep);
  createInterface({ input: child.stdout }).on("line", (line) => {
    const value = parse(line);
    if (value === null) keep(`${line}\n`);
    else if ("client" in value) [client, version] = [String(value["client"]), String(value["version"])];
    else {
      const { case: name, engine, problem, ms } = value as { case: string } & Omit<CaseResult, "name">;
      cases.push({ name, engine, problem, ms });
    }
  });
  return new Promise((resolve) => {
    const end = (trouble: string | null) => resolve({ program, client, version, cases, trouble });
    child.on("error", (error) => end(error.message));
    child.on("close", (code, signal) => {
      const isTold = code === 0 || (code === 1 && cases.some(({ problem }) => problem !== null));
      if (isTold && cases.length > 0) end(null);
      else end(`${program.file} ended with ${signal ?? code} after ${cases.length} cases:\n${noise}`);
    });
  });
}

function parse(line: string): Record<string, unknown> | null {
  if (!/^\{"(client|case)"/.test(line)) return null;
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return null;
  }
}
