// The door of every npm script: installs what is missing, picks a Node that can run the sources, runs the task.
// Plain JavaScript without dependencies, because it runs on the system's Node (>= 20) before anything is installed.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ensureDependencies } from "./install.mjs";
import { findNode } from "./pinned-node.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

const tasks = {
  demo: "packages/simulator/src/demo/main.ts",
  test: "scripts/test.ts",
  "test:field": "scripts/test-field.ts",
  "test:clients": "packages/gateway/test/clients/main.ts",
  soak: "packages/gateway/test/survival/soak-main.ts",
  fuzz: "packages/gateway/test/survival/fuzz-main.ts",
  check: "scripts/check.ts",
  "build:dashboard": "scripts/build-dashboard.ts",
  "bench:decide": "bench/decide.ts",
  "bench:overhead": "bench/overhead.ts",
  "bench:peers": "bench/peers.ts",
  "bench:memory": "bench/memory.ts",
  "bench:stall": "bench/stall.ts",
  "bench:fleet": "bench/fleet.ts",
  "bench:clients": "bench/clients.ts",
  "bench:routing": "bench/routing.ts",
  "bench:fidelity": "bench/fidelity.ts",
  "bench:reload": "bench/reload.ts",
  "bench:backtest": "bench/backtest.ts",
  "bench:dashboard": "bench/dashboard.ts",
};

const [task = "", ...taskArgs] = process.argv.slice(2);

function refuse(message) {
  process.stderr.write(`zml: ${message}\n`);
  process.exit(1);
}

// Status goes to standard error: a task with --json owns standard output.
function say(message) {
  process.stderr.write(`zml: ${message}\n`);
}

if (!Object.hasOwn(tasks, task)) refuse(`unknown task "${task}"; known: ${Object.keys(tasks).join(", ")}`);
const entry = tasks[task];
if (!existsSync(join(root, entry))) refuse(`cannot run ${task}: ${entry} does not exist in this checkout`);
say(`${task}: checking dependencies`);

try {
  await ensureDependencies({ root, say });
} catch (error) {
  refuse(error.message);
}

const node = findNode(root);
if (node === undefined) {
  refuse(
    `needs Node 24.12 or newer, this is ${process.versions.node} and no pinned Node exists for ` +
      `${process.platform}-${process.arch}; install Node 24 and run the same command again`,
  );
}

const pathWithNode = [dirname(node), join(root, "node_modules", ".bin"), process.env.PATH ?? ""].join(delimiter);
const child = spawn(node, [join(root, entry), ...taskArgs], {
  cwd: root,
  stdio: "inherit",
  env: { ...process.env, PATH: pathWithNode },
});

// A terminal sends Ctrl-C to the whole foreground group, so the child has it already; a second copy would read as
// "stop at once". Without a terminal the signal reached this process alone.
const hasTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal === "SIGINT" && hasTerminal) return;
    child.kill(signal);
  });
}
child.on("error", (error) => refuse(`cannot start ${node}: ${error.message}`));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
