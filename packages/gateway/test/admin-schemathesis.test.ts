/**
 * Schemathesis makes requests out of docs/reference/openapi.json, good ones and bad ones, and holds every answer of a
 * running gateway to it. Installed from PyPI into the clone's cache folder at the first run.
 */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { findInterpreters, mainOf, variables } from "../../../python/test/environment.ts";
import { makeOnce } from "../../simulator/real/make-once.ts";
import { fakeNode, folder, PORTS, startOn } from "./control-fixture.ts";

const here = join(import.meta.dirname, "schemathesis");
const root = join(import.meta.dirname, "..", "..", "..");
const REQUIREMENTS = join(here, "requirements.txt");

/** Takes a quarter of a minute on two cores (94 MB on disk); the rest is for a slow network. */
const INSTALL_DEADLINE_MS = 90_000;
/** Requests are made for this long: thousands, and on a machine with other work as many as there is time for. */
const RUN_S = 25;
/** What the start, the first requests and the report may take beside that. */
const RUN_DEADLINE_MS = (RUN_S + 60) * 1000;

/** Everything but `positive_data_acceptance`: what an object may name is more than a schema says. */
const CHECKS = [
  "not_a_server_error",
  "status_code_conformance",
  "content_type_conformance",
  "response_headers_conformance",
  "response_schema_conformance",
  "negative_data_rejection",
  "missing_required_header",
  "unsupported_method",
  "allow_header_conformance",
  "ignored_auth",
];

/** @returns the program, or why it is not there. */
async function install(): Promise<{ path: string } | { missing: string }> {
  const main = await mainOf(await findInterpreters());
  if (main === undefined) return { missing: "Python 3.11 or newer with venv is missing (apt install python3-venv)" };
  const hash = createHash("sha256").update(readFileSync(REQUIREMENTS)).digest("hex").slice(0, 12);
  const directory = join(root, ".cache", "schemathesis", `3.${main.minor}-${hash}`);
  const make = async (staging: string, signal: AbortSignal): Promise<string> => {
    const made = join(staging, "made");
    mkdirSync(made);
    const run = (command: string, args: readonly string[]) =>
      promisify(execFile)(command, args, { signal, killSignal: "SIGKILL", env: variables({}) });
    await run(main.path, ["-m", "venv", made]);
    const quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-compile", "--no-deps"];
    await run(join(made, "bin", "python"), ["-m", "pip", "install", ...quiet, "-r", REQUIREMENTS]);
    return made;
  };
  try {
    await makeOnce({ directory, deadlineMs: INSTALL_DEADLINE_MS, make });
  } catch (error) {
    const [line = ""] = String(error).split("\n");
    return { missing: `schemathesis can't be installed from PyPI: ${line}` };
  }
  return { path: join(directory, "bin", "python") };
}

/** The interpreter of the environment; null: the test is left out, which CI does not take. */
async function interpreter(t: TestContext): Promise<string | null> {
  const installed = await install();
  if ("path" in installed) return installed.path;
  assert.equal(process.env["CI"], undefined, installed.missing);
  t.skip(`left out: ${installed.missing}`);
  return null;
}

test("generated requests, good and bad, get no 5xx and nothing that the OpenAPI document does not say", async (t) => {
  const python = await interpreter(t);
  if (python === null) return;
  const fake = await fakeNode(t);
  const place = folder(t);
  const text = `${PORTS}workers: 1
keys: [{ name: ops, value_env: OPS, scopes: [admin] }]
policies: [{ name: a, cost_priority: cost }]
nodes: [{ id: a, url: "${fake.url}", family: H100 }]
`;
  const { gateway, log } = await startOn(t, text, { env: { OPS: "ops-secret" }, storeFolder: join(place, "store") });
  const args = [
    ...["--config-file", join(here, "schemathesis.toml"), "run", join(root, "docs", "reference", "openapi.json")],
    ...["--url", gateway.adminUrl, "--checks", CHECKS.join(","), "--phases", "coverage,fuzzing"],
    ...["--seed", "1", "--max-examples", "2", "--max-time", String(RUN_S), "--no-color"],
    // two would race for the caches of the generator: it then fails with a KeyError of its own now and then
    ...["--workers", "1"],
    ...["--suppress-health-check", "all", "--continue-on-failure", "--warnings", "off"],
  ];
  // its own folder for what it keeps between runs, so that each run is a first one
  const options = { cwd: place, timeout: RUN_DEADLINE_MS, env: variables({ ADMIN_KEY: "ops-secret", HOME: place }) };
  const { stdout } = await promisify(execFile)(python, ["-m", "schemathesis.cli", ...args], options).catch(
    (error: { stdout?: string; stderr?: string }) => {
      const failed = log.lines.filter(({ level }) => level === "error").map((line) => JSON.stringify(line));
      assert.fail(`${error.stdout ?? ""}${error.stderr ?? String(error)}\n${failed.slice(0, 5).join("\n")}`);
    },
  );
  const [, count = "0"] = /(\d+) generated/.exec(stdout) ?? [];
  assert.ok(Number(count) >= 46, `only ${count} requests were made:\n${stdout}`);
  t.diagnostic(`${count} requests`);
  assert.ok(!log.has("error", /an admin route failed/));
});
