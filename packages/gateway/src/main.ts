/** The command `zml`. The only file that touches arguments, environment, signals and the exit of the process. */

import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { DEFAULT_ADMIN } from "./commands/ask-admin.ts";
import { checkConfig } from "./commands/check-config.ts";
import type { CheckNodesOptions } from "./commands/check-nodes.ts";
import { DEFAULT_CONFIG_FILE } from "./commands/config-file.ts";
import { EXIT, EXIT_HELP } from "./commands/exit-codes.ts";
import { explain } from "./commands/explain.ts";
import type { InitOptions } from "./commands/init.ts";
import { NODE_STATES, type NodesOptions, nodes, type Watch } from "./commands/nodes.ts";
import { type PricesOptions, prices } from "./commands/prices.ts";
import type { ServeSignals } from "./commands/serve.ts";
import type { Terminal } from "./commands/terminal.ts";

const terminal: Terminal = {
  env: process.env,
  out: (text) => process.stdout.write(text),
  error: (text) => process.stderr.write(text),
  screen: () => (process.stdout.isTTY ? { columns: process.stdout.columns, rows: process.stdout.rows } : null),
};
// a reader that goes (`zml explain … | head`) is no fault of ours
process.stdout.on("error", () => undefined);
process.stderr.on("error", () => undefined);

const program = new Command("zml")
  .description("Inference gateway and router for fleets that mix accelerator families.")
  .version(version(), "-V, --version")
  .addHelpText("after", EXIT_HELP)
  .showHelpAfterError("(zml --help lists the commands)")
  .exitOverride()
  .enablePositionalOptions();

const adminOption = () => new Option("--admin <address>", "the admin port of the gateway").default(DEFAULT_ADMIN);
const keyEnvOption = () => new Option("--key-env <variable>", "the environment variable that holds an admin key");
const timeoutOption = (ms: number) =>
  new Option("--timeout-ms <ms>", "how long a node may take for everything").argParser(countOf(1, 600_000)).default(ms);
const configOption = () => new Option("-c, --config <file>", "the configuration file").default(DEFAULT_CONFIG_FILE);

program
  .command("serve")
  .description("run the gateway; prints one line on standard output when it is ready, logs to standard error")
  .addOption(configOption())
  .addOption(
    new Option("--log-level <level>", "what is logged")
      .choices(["debug", "info", "warn", "error", "silent"])
      .env("ZML_LOG_LEVEL")
      .default("info"),
  )
  .addHelpText(
    "after",
    `\nSIGTERM and SIGINT drain and end it, a second one ends it at once; SIGHUP reads the file again.\n${EXIT_HELP}`,
  )
  .action(async ({ config, logLevel }: { config: string; logLevel: string }) => {
    // loaded on use: the other commands start faster without the gateway
    const [{ serve }, { createLog }] = await Promise.all([import("./commands/serve.ts"), import("./commands/log.ts")]);
    const log = createLog(logLevel);
    let uncaught = 0;
    watchFatalErrors((error, kind) => {
      uncaught += 1;
      log.error({ error, kind, uncaught }, "an error that nobody caught");
    });
    process.exit(await serve(terminal, { config, log, signals: listenToSignals() }));
  });

program
  .command("check-config")
  .description("check a configuration file and print every problem with its line")
  .addOption(configOption())
  .option("--json", "print one JSON object", false)
  .addHelpText("after", EXIT_HELP)
  .action(async (options: { config: string; json: boolean }) => {
    process.exitCode = await checkConfig(terminal, options);
  });

program
  .command("explain")
  .description("tell why a request went where it went")
  .argument("<id>", "the decision id, from the header x-zml-routing")
  .addOption(adminOption())
  .option("--json", "print the record as JSON", false)
  .addOption(keyEnvOption())
  .addHelpText("after", EXIT_HELP)
  .action(async (id: string, options: { admin: string; json: boolean; keyEnv?: string }) => {
    process.exitCode = await explain(terminal, { id, ...options });
  });

const nodesCommand = program
  .command("nodes")
  .description("show the fleet as the router of a running gateway sees it; with an id all that is known of one node")
  .argument("[id]", "a node")
  .addOption(adminOption())
  .addOption(keyEnvOption())
  .option("--family <name>", "only nodes of this family")
  .option("--model <name>", "only nodes that serve this model")
  .addOption(new Option("--state <state>", "only nodes in this state").choices(NODE_STATES))
  .addOption(new Option("--limit <count>", "rows of the table; 0: all").argParser(countOf(0, 1_000_000)).default(200))
  .option("--wide", "all columns, whatever the window has room for", false)
  .option("--watch", "draw it anew each second, until Ctrl-C", false)
  .option("--json", "print the report as JSON, with the chosen nodes", false)
  .addHelpText("after", EXIT_HELP)
  .action(async (id: string | undefined, { watch, ...options }: NodesLine) => {
    const chosen = id === undefined ? options : { ...options, id };
    process.exitCode = await nodes(terminal, chosen, watch ? watchUntilStopped() : null);
  });

nodesCommand
  .command("check")
  .description("validate the nodes of a configuration file end to end, each model with a tiny request")
  .argument("[ids...]", "the nodes; without any, all")
  .addOption(configOption())
  .option("--admin <address>", "also compare with what this gateway sees, and check nodes that it found")
  .addOption(keyEnvOption())
  .addOption(timeoutOption(20_000))
  .option("--problems", "leave out what is green", false)
  .option("--strict", "yellow fails as well", false)
  .option("--json", "print one JSON object", false)
  .addHelpText("after", EXIT_HELP)
  .action(async (ids: string[], options: Omit<CheckNodesOptions, "ids">) => {
    const { checkNodes } = await import("./commands/check-nodes.ts");
    process.exitCode = await checkNodes(terminal, { ids, ...options });
  });

program
  .command("init")
  .description("ask nodes what they are, and write a configuration file that serves them")
  .argument("<urls...>", "addresses of nodes, as URL or FAMILY=URL")
  .option("-o, --output <file>", "the file; - for standard output", DEFAULT_CONFIG_FILE)
  .option("--family <name>", "the accelerator family of addresses that name none")
  .option("--key-env <variable>", "the environment variable that holds the nodes' own key")
  .option("--force", "overwrite the file", false)
  .addOption(timeoutOption(10_000))
  .addHelpText("after", EXIT_HELP)
  .action(async (urls: string[], options: Omit<InitOptions, "urls">) => {
    const { init } = await import("./commands/init.ts");
    process.exitCode = await init(terminal, { urls, ...options });
  });

program
  .command("prices")
  .description("show the price feeds of a running gateway, and the prices that nodes name")
  .addOption(adminOption())
  .addOption(keyEnvOption())
  .option("--all", "also prices that no node names", false)
  .option("--json", "print the report as JSON", false)
  .addHelpText("after", EXIT_HELP)
  .action(async (options: PricesOptions) => {
    process.exitCode = await prices(terminal, options);
  });

program
  .command("simulate")
  .description(
    "run a scenario in virtual time on the engine that decides in production, and report what each policy came to",
  )
  .requiredOption("-f, --file <file>", "the scenario")
  .option("--json", "print one JSON object", false)
  .addHelpText("after", EXIT_HELP)
  .action(async (options: { file: string; json: boolean }) => {
    const { simulate } = await import("./commands/simulate.ts");
    process.exitCode = await simulate(terminal, options);
  });

try {
  await program.parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  // commander has printed the help, the version, or what is wrong with the line
  const takesFile = process.argv[2] === "serve" || process.argv[2] === "check-config";
  if (error.code === "commander.excessArguments" && takesFile) terminal.error("(-c FILE names the file)\n");
  process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
}

/** What the line `zml nodes` says. */
type NodesLine = Omit<NodesOptions, "id"> & { readonly watch: boolean };

/** Reads a whole number out of an option. */
function countOf(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It has to be a whole number from ${min} to ${max}.`);
  };
}

/** Ctrl-C ends it well. */
function watchUntilStopped(): Watch {
  const ended = new AbortController();
  const stop = (): void => ended.abort();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, stop);
  // so does a reader that went (`zml nodes --watch | head`)
  process.stdout.once("error", stop);
  const { signal } = ended;
  return { stop: signal, nowMs: Date.now, wait: (ms) => delay(ms, undefined, { signal }).catch(() => undefined) };
}

function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  const isManifest = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return isManifest ? String(manifest.version) : "unknown";
}

/** The first SIGTERM or SIGINT asks for a drain, the second ends the process as the system would have. */
function listenToSignals(): ServeSignals {
  const stop = Promise.withResolvers<string>();
  let isStopping = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (isStopping) {
        process.removeAllListeners(signal);
        process.kill(process.pid, signal);
        return;
      }
      isStopping = true;
      stop.resolve(signal);
    });
  }
  let reload = (): void => undefined;
  // before the gateway runs there is nothing to reload, and without a listener the signal would end the process
  process.on("SIGHUP", () => reload());
  return {
    stop: stop.promise,
    onReload: (callback) => {
      reload = callback;
    },
  };
}

/**
 * A rejection that nobody handles is a bug in one request or poll: it is logged, and the fleet is served on. An
 * exception that nobody catches leaves the control thread in an unknown state: the process ends, and is started again
 * by whatever watches it.
 */
function watchFatalErrors(report: (error: string, kind: string) => void): void {
  const text = (error: unknown) => (error instanceof Error ? (error.stack ?? error.message) : String(error));
  process.on("unhandledRejection", (error) => report(text(error), "unhandledRejection"));
  process.on("uncaughtException", (error) => {
    report(text(error), "uncaughtException");
    process.exit(EXIT.failed);
  });
}
