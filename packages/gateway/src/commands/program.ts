/** The command tree of `zml`: what docs/reference/cli.md and the completion of shells are made from. */

import { randomUUID } from "node:crypto";
import { LOG_LEVELS, type LogLevel } from "@zml/protocol/log-levels";
import { Command, Option } from "commander";
import type { LogFormat } from "../telemetry/log-lines.ts";
import type { BacktestCommand } from "./backtest/backtest.ts";
import { checkConfig } from "./check-config.ts";
import type { CheckNodesOptions } from "./check-nodes.ts";
import { completionScript, SHELLS, type Shell } from "./completion.ts";
import { DEFAULT_CONFIG_FILE } from "./config-file.ts";
import { EXIT_HELP } from "./exit-codes.ts";
import type { InitOptions } from "./init.ts";
import { NODE_STATES, type NodesOptions, nodes } from "./nodes.ts";
import { type PricesOptions, prices } from "./prices.ts";
import type { ProgramHost } from "./program-host.ts";
import { addObjectCommands } from "./program-objects.ts";
import { addOperatorCommands } from "./program-operator.ts";
import {
  accountOption,
  adminOption,
  configOption,
  countOf,
  jsonOption,
  keyEnvOption,
  timeoutOption,
  watchOption,
  wideOption,
} from "./program-options.ts";

/** What the last lines of the log get to leave, ms. */
const LOG_FLUSH_MS = 1_000;

interface ServeCommandOptions {
  config: string;
  logLevel: LogLevel;
  logFormat: LogFormat | "auto";
  takeover: boolean;
}

/** The whole tree. Nothing runs before it parses a line. */
export function createProgram(host: ProgramHost): Command {
  const { terminal } = host;
  const program = new Command("zml")
    .description("Inference gateway and router for fleets that mix accelerator families.")
    .version(host.version, "-V, --version")
    .addHelpText("afterAll", EXIT_HELP)
    .showHelpAfterError("(zml --help lists the commands)")
    .configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.error(text) })
    .exitOverride()
    .enablePositionalOptions();

  program.commandsGroup("A gateway and its file:");
  addGatewayCommands(program, host);
  program.commandsGroup("Objects of a running gateway:");
  addObjectCommands(program, host);
  program.commandsGroup("Operating a running gateway:");
  addOperatorCommands(program, host);
  addViews(program, host);
  program.commandsGroup("Other:");
  program
    .command("simulate")
    .description(
      "run a scenario in virtual time on the engine that decides in production, and report what each policy came to",
    )
    .requiredOption("-f, --file <file>", "the scenario")
    .option("--json", "print one JSON object", false)
    .action(async (options: { file: string; json: boolean }) => {
      const { simulate } = await import("./simulate.ts");
      host.end(await simulate(terminal, options));
    });
  program
    .command("backtest")
    .description("replay recorded traffic under the policies in force and under a draft, and report what would change")
    .requiredOption("--policy <file>", "the draft: one policy, or a file with policies; - for standard input")
    .option("--since <time>", "from: 24h ago, or a moment such as 2027-01-31T00:00:00Z", "24h")
    .option("--until <time>", "to; default: now")
    .option("--replaces <policy>", "the policy that a draft of one stands for; default: its name")
    .addOption(accountOption())
    .option("--store <path>", "read the folder of a store here, without a gateway")
    .addOption(adminOption())
    .addOption(keyEnvOption())
    .option("--html <file>", "write the report as a page, with plots")
    .addOption(jsonOption())
    .action(async (options: BacktestCommand) => {
      const { backtest } = await import("./backtest/backtest.ts");
      host.end(await backtest(terminal, options, host.watch()));
    });
  program
    .command("completion")
    .description("print a script that completes commands and options in a shell")
    .addArgument(program.createArgument("<shell>", "the shell").choices(SHELLS))
    .addHelpText(
      "after",
      "\nbash: source <(zml completion bash)\nzsh:  source <(zml completion zsh)\nfish: zml completion fish | source",
    )
    .action((shell: Shell) => terminal.out(completionScript(shell, program)));
  return program;
}

function addGatewayCommands(program: Command, host: ProgramHost): void {
  const { terminal } = host;
  program
    .command("serve")
    .description("run the gateway; prints one line on standard output when it is ready, logs to standard error")
    .addOption(configOption())
    .addOption(
      new Option("--log-level <level>", "what is logged").choices(LOG_LEVELS).env("ZML_LOG_LEVEL").default("info"),
    )
    .addOption(
      new Option("--log-format <format>", "how it is logged; auto: text at a terminal, else JSON")
        .choices(["auto", "json", "text"])
        .env("ZML_LOG_FORMAT")
        .default("auto"),
    )
    .option("--takeover", "take over from the gateway that runs with this file, without losing a request", false)
    .addHelpText(
      "after",
      "\nSIGTERM and SIGINT drain and end it, a second one ends it at once; SIGHUP reads the file again;\nSIGUSR2 logs everything, and once more what was logged before.",
    )
    .action(async ({ config, logLevel, logFormat, takeover }: ServeCommandOptions) => {
      const channel = takeover ? host.socketChannel() : null;
      if (takeover && channel === null) {
        const { takeOver } = await import("./takeover.ts");
        host.endNow(
          await takeOver(terminal, {
            config,
            token: randomUUID(),
            start: (connection, token) => host.startSuccessor(connection, token),
          }),
        );
        return;
      }
      // loaded on use: the other commands start faster without the gateway
      const [{ serve }, { ProcessLog }] = await Promise.all([import("./serve.ts"), import("./log.ts")]);
      const log = new ProcessLog({ stream: host.logStream, level: logLevel, format: logFormat });
      let uncaught = 0;
      host.onUncaught((error, kind) => {
        uncaught += 1;
        log.error({ error, kind, uncaught }, "an error that nobody caught");
      });
      const { version } = host;
      const taken = channel === null ? {} : { channel };
      const signals = host.signals();
      const exitCode = await serve(terminal, { config, log, logControl: log, signals, version, ...taken });
      await log.flush(LOG_FLUSH_MS);
      host.endNow(exitCode);
    });
  program
    .command("check-config")
    .description("check a configuration file and print every problem with its line")
    .addOption(configOption())
    .option("--json", "print one JSON object", false)
    .action(async (options: { config: string; json: boolean }) => host.end(await checkConfig(terminal, options)));
  program
    .command("init")
    .description("ask nodes what they are, and write a configuration file that serves them")
    .argument("<urls...>", "addresses of nodes, as URL or FAMILY=URL")
    .option("-o, --output <file>", "the file; - for standard output", DEFAULT_CONFIG_FILE)
    .option("--family <name>", "the accelerator family of addresses that name none")
    .option("--key-env <variable>", "the environment variable that holds the nodes' own key")
    .option("--force", "overwrite the file", false)
    .addOption(timeoutOption(10_000))
    .action(async (urls: string[], options: Omit<InitOptions, "urls">) => {
      const { init } = await import("./init.ts");
      host.end(await init(terminal, { urls, ...options }));
    });
}

/** What a running gateway knows of nodes and prices. */
function addViews(program: Command, host: ProgramHost): void {
  const { terminal } = host;
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
    .addOption(wideOption())
    .addOption(watchOption())
    .option("--json", "print the report as JSON, with the chosen nodes", false)
    .action(async (id: string | undefined, { watch, ...options }: Omit<NodesOptions, "id"> & { watch: boolean }) => {
      const chosen = id === undefined ? options : { ...options, id };
      host.end(await nodes(terminal, chosen, watch ? host.watch() : null));
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
    .action(async (ids: string[], options: Omit<CheckNodesOptions, "ids">) => {
      const { checkNodes } = await import("./check-nodes.ts");
      host.end(await checkNodes(terminal, { ids, ...options }));
    });
  program
    .command("prices")
    .description("show the price feeds of a running gateway, and the prices that nodes name")
    .addOption(adminOption())
    .addOption(keyEnvOption())
    .option("--all", "also prices that no node names", false)
    .addOption(jsonOption())
    .action(async (options: PricesOptions) => host.end(await prices(terminal, options)));
}
