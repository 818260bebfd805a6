/** The command `zml`. The only file that touches arguments, environment, signals and the exit of the process. */

import { readFileSync } from "node:fs";
import { Command, CommanderError, Option } from "commander";
import { checkConfig } from "./commands/check-config.ts";
import { DEFAULT_CONFIG_FILE } from "./commands/config-file.ts";
import { EXIT, EXIT_HELP } from "./commands/exit-codes.ts";
import { explain } from "./commands/explain.ts";
import type { ServeSignals } from "./commands/serve.ts";
import type { Terminal } from "./commands/terminal.ts";

const terminal: Terminal = {
  env: process.env,
  out: (text) => process.stdout.write(text),
  error: (text) => process.stderr.write(text),
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
  .option("--admin <address>", "the admin port of the gateway", "http://127.0.0.1:8081")
  .option("--json", "print the record as JSON", false)
  .option("--key-env <variable>", "the environment variable that holds an admin key")
  .addHelpText("after", EXIT_HELP)
  .action(async (id: string, options: { admin: string; json: boolean; keyEnv?: string }) => {
    process.exitCode = await explain(terminal, { id, ...options });
  });

try {
  await program.parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  // commander has printed the help, the version, or what is wrong with the line
  process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
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
