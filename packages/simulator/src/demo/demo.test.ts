/** The whole demo as people start it: the real gateway in front of fake nodes, one of which dies under load. */
import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const DEADLINE_MS = 20_000;

type Run = { readonly child: ChildProcess; stdout(): string; stderr(): string; exited: Promise<unknown[]> };

const started: ChildProcess[] = [];
after(() => {
  for (const child of started) child.kill("SIGKILL");
});

function run(...args: string[]): Run {
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  const text = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    text.stdout += part;
  });
  child.stderr.setEncoding("utf8").on("data", (part: string) => {
    text.stderr += part;
  });
  return { child, stdout: () => text.stdout, stderr: () => text.stderr, exited: once(child, "close") };
}

/** Resolves with the match when the text has it. */
async function seen(text: () => string, pattern: RegExp): Promise<RegExpExecArray> {
  const deadlineMs = performance.now() + DEADLINE_MS;
  while (performance.now() < deadlineMs) {
    const match = pattern.exec(text());
    if (match !== null) return match;
    await delay(20);
  }
  throw new Error(`${pattern} did not come within ${DEADLINE_MS} ms; there is:\n${text()}`);
}

type Report = { bench: string; machine: { cores: number }; figures: { name: string; value: number; unit: string }[] };

test("a node dies under load and serves again, no call fails, and the summary is one JSON object", async () => {
  const demo = run("--once", "--json", "--seconds", "6");
  const [code] = await demo.exited;
  assert.equal(code, 0, demo.stderr());
  const { bench, machine, figures } = JSON.parse(demo.stdout()) as Report;
  assert.equal(bench, "demo");
  assert.ok(machine.cores >= 1);
  const value = (name: string): number => {
    const figure = figures.find((one) => one.name === name);
    assert.ok(figure !== undefined && typeof figure.value === "number", `${name} is a number in ${demo.stdout()}`);
    return figure.value;
  };
  assert.equal(value("failed"), 0, demo.stderr());
  assert.ok(value("requests") > 10, demo.stdout());
  assert.ok(value("redispatched") >= 1, demo.stdout());
  assert.ok(value("seconds_until_killed_node_served_again") > 0);
  assert.ok(value("first_output_s") < 2);
  for (const policy of ["interactive", "chat", "batch"]) {
    assert.ok(value(`attainment{policy=${policy}}`) > 0, policy);
    assert.ok(value(`usd_per_million_tokens{policy=${policy}}`) > 0, policy);
  }
  assert.match(demo.stderr(), / s {2}killed [a-z0-9-]+ with \d+ answers under way/);
  assert.match(demo.stderr(), / s {2}[a-z0-9-]+ serves again, [\d.]+ s after its start/);
});

test("the OpenAI SDK snippet works as printed, and an interrupt leaves no process and no file", async () => {
  const demo = run("--seed", "5");
  const [, configPath = ""] = await seen(demo.stdout, /`zml serve -c (\S+)`/);
  const [snippet] = await seen(demo.stdout, /^node --input-type=module -e '\n[^']*\n'$/m);
  const [, adminUrl = ""] = await seen(demo.stdout, /admin (http:\S+)/);
  assert.ok(existsSync(configPath));
  const node = process.execPath.replace(/\/node$/, "");
  const env = { ...process.env, PATH: `${node}:${process.env["PATH"]}` };
  const shell = spawn("sh", ["-c", snippet], { cwd: ROOT, env, stdio: ["ignore", "pipe", "inherit"] });
  started.push(shell);
  let said = "";
  shell.stdout.setEncoding("utf8").on("data", (part: string) => {
    said += part;
  });
  const [code] = await once(shell, "close");
  assert.equal(code, 0, said);
  assert.match(said, /node="[a-z0-9-]+", policy="interactive", family="/);

  const interruptedMs = performance.now();
  demo.child.kill("SIGINT");
  // "close" comes when nobody holds its output any more, children included.
  const [exitCode] = await demo.exited;
  assert.equal(exitCode, 0, demo.stderr());
  assert.ok(performance.now() - interruptedMs < 3000);
  await assert.rejects(fetch(`${adminUrl}/admin/v1/fleet`), /fetch failed/);
  assert.ok(!existsSync(configPath));
});

test("two signals, as supervisors send them, leave no folder", async () => {
  const demo = run("--seed", "6");
  const [, configPath = ""] = await seen(demo.stdout, /`zml serve -c (\S+)`/);
  assert.ok(existsSync(configPath));
  demo.child.kill("SIGTERM");
  demo.child.kill("SIGINT");
  await demo.exited;
  assert.ok(!existsSync(configPath));
});

test("an unknown flag is refused with one line", async () => {
  const demo = run("--fast");
  const [code] = await demo.exited;
  assert.equal(code, 1);
  assert.equal(demo.stderr(), "zml: demo: unknown flag --fast; npm run demo -- --help lists the flags\n");
  assert.equal(demo.stdout(), "");
});
