/** Commands of whoever runs the gateway. */

import { ENDPOINTS } from "@zml/engine/reasons";
import { LOG_LEVELS, type LogLevel } from "@zml/protocol/log-levels";
import { type Command, Option } from "commander";
import type { AdminOptions } from "./ask-admin.ts";
import type { AuditOptions } from "./audit.ts";
import type { DecideOptions } from "./decide.ts";
import type { DecisionsOptions } from "./decisions.ts";
import type { CooldownOptions, DrainOptions, NodeOptions } from "./drain.ts";
import { explain } from "./explain.ts";
import type { ExportOptions } from "./gateway-commands.ts";
import type { MoneyOptions } from "./money.ts";
import { KIND_WORDS, type ObjectKind } from "./object-kinds.ts";
import type { ProgramHost } from "./program-host.ts";
import {
  accountOption,
  adminOption,
  configOption,
  countOf,
  jsonOption,
  keyEnvOption,
  kindArgument,
  listOf,
  repeated,
  watchOption,
  wideOption,
} from "./program-options.ts";
import type { StatusOptions } from "./status.ts";
import type { StoreRestoreOptions } from "./store-restore.ts";

export function addOperatorCommands(program: Command, host: ProgramHost): void {
  addWhole(program, host);
  addNodeActions(program, host);
  addEvidence(program, host);
}

const connection = (command: Command): Command => command.addOption(adminOption()).addOption(keyEnvOption());

function addWhole(program: Command, host: ProgramHost): void {
  const { terminal } = host;
  connection(
    program
      .command("status")
      .description("show whether the gateway is well: version, threads, store, reloads")
      .addOption(jsonOption())
      .addOption(watchOption())
      .action(async ({ watch, ...options }: StatusOptions & { watch: boolean }) => {
        const { status } = await import("./status.ts");
        host.end(await status(terminal, options, watch ? host.watch() : null));
      }),
  );
  connection(
    program
      .command("money")
      .description("show what requests cost, per hour and per million tokens, and what other families would have cost")
      .addOption(new Option("--by <group>", "what sums are told apart by").choices(GROUPS).default("account"))
      .addOption(new Option("--window <time>", "how far back").choices(WINDOWS).default("hour"))
      .addOption(new Option("--account <name>", "only requests of this account; default: all that the key may see"))
      .addOption(new Option("--limit <count>", "rows, the dearest").argParser(countOf(1, 1_000)).default(50))
      .addOption(jsonOption())
      .addOption(wideOption())
      .addOption(watchOption())
      .action(async ({ watch, ...options }: MoneyOptions & { watch: boolean }) => {
        const { money } = await import("./money.ts");
        host.end(await money(terminal, options, watch ? host.watch() : null));
      }),
  );
  connection(
    program
      .command("reload")
      .description("read the configuration file again, and tell what is wrong with it")
      .addOption(jsonOption())
      .action(async (options: AdminOptions & { json: boolean }) => {
        const { reload } = await import("./gateway-commands.ts");
        host.end(await reload(terminal, options));
      }),
  );
  connection(
    program
      .command("export")
      .description("print the configuration that is in force, file and API together, as one zml.yaml without secrets")
      .option("-o, --output <file>", "the file; - for standard output", "-")
      .option("--force", "overwrite the file", false)
      .addOption(jsonOption())
      .action(async (options: ExportOptions) => {
        const { exportConfiguration } = await import("./gateway-commands.ts");
        host.end(await exportConfiguration(terminal, options));
      }),
  );
  connection(
    program
      .command("log-level")
      .description("show what a running gateway logs, or have it log more or less")
      .addArgument(program.createArgument("[level]", "from now on").choices(LOG_LEVELS))
      .addOption(jsonOption())
      .action(async (level: LogLevel | undefined, options: AdminOptions & { json: boolean }) => {
        const { logLevel } = await import("./gateway-commands.ts");
        host.end(await logLevel(terminal, { ...options, level }));
      }),
  );
  const store = program.command("store").description("copies of what the admin API made and of what was learned");
  connection(
    store
      .command("backup")
      .description("copy the store while it is in use, on the gateway's machine")
      .argument("<path>", "the copy: a file that is not there yet")
      .option("--decisions", "copy kept decisions too, into a file beside it", false)
      .addOption(jsonOption())
      .action(async (path: string, options: AdminOptions & { decisions: boolean; json: boolean }) => {
        const { backupStore } = await import("./gateway-commands.ts");
        host.end(await backupStore(terminal, { ...options, path }));
      }),
  );
  store
    .command("restore")
    .description("put a copy in the place of the store, while no gateway runs on it")
    .argument("<path>", "the copy that zml store backup made")
    .addOption(configOption())
    .option("--force", "replace the store that is there", false)
    .addOption(jsonOption())
    .action(async (path: string, options: Omit<StoreRestoreOptions, "path">) => {
      const { storeRestore } = await import("./store-restore.ts");
      host.end(await storeRestore(terminal, { ...options, path }));
    });
}

function addNodeActions(program: Command, host: ProgramHost): void {
  const { terminal } = host;
  const ofNode = (command: Command): Command =>
    connection(command.argument("<node>", "the node's id").addOption(accountOption()).addOption(jsonOption()));
  ofNode(
    program
      .command("drain")
      .description("give a node no new request; what runs there ends there")
      .option("--wait", "until nothing of ours runs there", false)
      .option("--timeout <duration>", "how long --wait waits: 30s, 15m, 1h", "10m")
      .action(async (id: string, options: Omit<DrainOptions, "id">) => {
        const { drain } = await import("./drain.ts");
        host.end(await drain(terminal, { ...options, id }, host.watch()));
      }),
  );
  ofNode(
    program
      .command("undrain")
      .description("let a drained node take requests again")
      .action(async (id: string, options: Omit<NodeOptions, "id">) => {
        const { undrain } = await import("./drain.ts");
        host.end(await undrain(terminal, { ...options, id }));
      }),
  );
  ofNode(
    program
      .command("cooldown")
      .description("give a node no traffic for a while, then one trial")
      .option("--for <duration>", "how long: 30s, 15m, 1h", "30s")
      .option("--clear", "end its cooldown now, without a trial", false)
      .action(async (id: string, options: Omit<CooldownOptions, "id">) => {
        const { cooldown } = await import("./drain.ts");
        host.end(await cooldown(terminal, { ...options, id }));
      }),
  );
}

function addEvidence(program: Command, host: ProgramHost): void {
  const { terminal } = host;
  connection(
    program
      .command("explain")
      .description("tell why a request went where it went")
      .argument("<id>", "the decision id, from the header x-zml-routing")
      .option("--json", "print the record as JSON", false)
      .action(async (id: string, options: AdminOptions & { json: boolean }) => {
        host.end(await explain(terminal, { id, ...options }));
      }),
  );
  connection(
    program
      .command("decide")
      .description(
        "say what would be decided for a request now, and under other prices, nodes or policies; nothing is sent",
      )
      .option("-b, --body <file>", "a request's body, as callers send it; - for standard input. Its text stays here")
      .option("--model <name>", "the model, in place of the body's")
      .option("--policy <name>", "the policy, as in x-zml-policy")
      .option("--accelerator <family>", "the hint, as in x-zml-accelerator")
      .addOption(new Option("--endpoint <name>", "where it is sent to").choices(ENDPOINTS).default("chat_completions"))
      .option("--stream", "the answer is streamed", false)
      .addOption(new Option("--prompt-tokens <count>", "size of the prompt").argParser(countOf(0, TOKENS_MAX)))
      .addOption(new Option("--max-tokens <count>", "the caller's limit").argParser(countOf(1, TOKENS_MAX)))
      .addOption(new Option("-n, --answers <count>", "answers asked for").argParser(countOf(1, 1_024)))
      .option("--images", "the prompt holds images", false)
      .addOption(
        new Option("--price <name=usd>", "a node or family at this price per GPU-hour").argParser(repeated).default([]),
      )
      .addOption(new Option("--down <ids>", "nodes that take nothing").argParser(listOf).default([]))
      .option(
        "--policy-draft <file>",
        "a policy that decides in place of the one that would be found; - for standard input",
      )
      .addOption(accountOption())
      .addOption(jsonOption())
      .action(async (options: DecideOptions) => {
        const { decide } = await import("./decide.ts");
        host.end(await decide(terminal, options));
      }),
  );
  const slower = new Option("--slower-than-ms <ms>", "only attempts that took longer");
  connection(
    program
      .command("decisions")
      .description("show the last decisions, newest first")
      .option("--model <name>", "only requests for this model")
      .option("--node <id>", "only those that this node was chosen for")
      .option("--family <name>", "only those that a node of this family was chosen for")
      .option("--policy <name>", "only requests under this policy")
      .option("--reason <word>", "only those that were decided for this reason, as in x-zml-routing")
      .addOption(slower.argParser(countOf(0, 86_400_000)))
      .option("--redispatched", "only second and later attempts", false)
      .addOption(new Option("--limit <count>", "how many").argParser(countOf(1, 500)).default(20))
      .addOption(accountOption())
      .addOption(jsonOption())
      .addOption(wideOption())
      .addOption(watchOption())
      .addOption(
        new Option("--tail", "print each one as it ends, until Ctrl-C; with --json one object a line")
          .conflicts(["watch", "limit", "wide"])
          .default(false),
      )
      .action(async ({ watch, tail, ...options }: DecisionsOptions & { watch: boolean; tail: boolean }) => {
        if (tail) {
          const { tailDecisions } = await import("./decisions-tail.ts");
          host.end(await tailDecisions(terminal, options, host.watch()));
          return;
        }
        const { decisions } = await import("./decisions.ts");
        host.end(await decisions(terminal, options, watch ? host.watch() : null));
      }),
  );
  connection(
    program
      .command("audit")
      .description("show who changed what, newest first")
      .addArgument(
        program.createArgument("[kind]", "only objects of this kind").choices(KIND_WORDS).argParser(kindArgument),
      )
      .argument("[name]", "only this object")
      .addOption(new Option("--limit <count>", "how many").argParser(countOf(1, 1000)).default(20))
      .addOption(accountOption())
      .addOption(jsonOption())
      .addOption(watchOption())
      .action(async (kind: ObjectKind | undefined, name: string | undefined, { watch, ...options }: AuditLine) => {
        const { audit } = await import("./audit.ts");
        const chosen = { ...options, ...(kind !== undefined && { kind }), ...(name !== undefined && { name }) };
        host.end(await audit(terminal, chosen, watch ? host.watch() : null));
      }),
  );
}

const TOKENS_MAX = 1_000_000_000;

const GROUPS = ["account", "model", "family", "policy"] as const satisfies readonly MoneyOptions["by"][];
const WINDOWS = ["minute", "hour", "day", "start"] as const satisfies readonly MoneyOptions["window"][];

type AuditLine = Omit<AuditOptions, "kind" | "name"> & { readonly watch: boolean };
