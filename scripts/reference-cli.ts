/** The generated part of docs/reference/cli.md: every command of `zml` with its arguments and options, and the exit codes. */

import { EXIT, EXIT_MEANINGS } from "../packages/gateway/src/commands/exit-codes.ts";
import { createProgram } from "../packages/gateway/src/commands/program.ts";

type Command = ReturnType<typeof createProgram>;
type Option = Command["options"][number];
type Argument = Command["registeredArguments"][number];

/** Options that every command for a running gateway has; told once. */
const CONNECTION = new Set(["--admin", "--key-env"]);

/** The tables, out of the command tree. */
export function cliTables(): string {
  const program = createProgram({
    terminal: {
      env: {},
      out: () => undefined,
      error: () => undefined,
      screen: () => null,
      input: async () => "",
      ask: async () => null,
    },
    logStream: { writableLength: 0, destroyed: false, write: () => undefined },
    version: "",
    end: unused,
    endNow: unused,
    watch: unused,
    signals: unused,
    socketChannel: unused,
    startSuccessor: unused,
    onUncaught: unused,
  });
  const commands = program.commands.flatMap((command) => [command, ...command.commands]);
  return [exitCodes(), overview(commands), ...commands.map(section)].join("\n\n");
}

function unused(): never {
  throw new Error("documentation runs no command");
}

function exitCodes(): string {
  const rows = (Object.keys(EXIT) as (keyof typeof EXIT)[]).map((name) => `| ${EXIT[name]} | ${EXIT_MEANINGS[name]} |`);
  return `## Exit codes\n\n| code | meaning |\n|---|---|\n${rows.join("\n")}`;
}

function overview(commands: readonly Command[]): string {
  const rows = commands.map(
    (command) => `| [${fullName(command)}](#${anchorOf(command)}) | ${command.description()} |`,
  );
  return `## Commands\n\n| command | what it does |\n|---|---|\n${rows.join("\n")}`;
}

function section(command: Command): string {
  const options = command.options.filter(({ hidden }) => !hidden);
  const own = options.filter(({ long }) => !CONNECTION.has(long ?? "") || command.name() === "check");
  const rows = [...command.registeredArguments.map(argumentRow), ...own.map(optionRow)];
  const table =
    rows.length === 0 ? [] : [`| argument or option | default | meaning |\n|---|---|---|\n${rows.join("\n")}`];
  const isConnected = options.length > own.length ? ["Also [--admin and --key-env](#the-gateway-that-is-asked)."] : [];
  return [
    `### ${fullName(command)}`,
    `\`${usageOf(command)}\``,
    `${command.description()}.`,
    ...table,
    ...isConnected,
  ].join("\n\n");
}

function usageOf(command: Command): string {
  const parts = command.registeredArguments.map((argument) => {
    const name = argument.variadic ? `${argument.name()}...` : argument.name();
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  return [fullName(command), "[options]", ...parts].join(" ");
}

function argumentRow(argument: Argument): string {
  const { argChoices: choices, description } = argument;
  return `| \`${argument.name()}\` | | ${cell(withChoices(description, choices))} |`;
}

function optionRow({ flags, description, argChoices, defaultValue, envVar }: Option): string {
  const isShown = defaultValue !== undefined && defaultValue !== false;
  const text = envVar === undefined ? description : `${description}; also \`${envVar}\``;
  return `| \`${flags}\` | ${isShown ? `\`${String(defaultValue)}\`` : ""} | ${cell(withChoices(text, argChoices))} |`;
}

function withChoices(text: string, choices: readonly string[] | undefined): string {
  return choices === undefined ? text : `${text}: ${choices.map((choice) => `\`${choice}\``).join(", ")}`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

function fullName(command: Command): string {
  const { parent } = command;
  return parent === null || parent.name() === "zml" ? `zml ${command.name()}` : `${fullName(parent)} ${command.name()}`;
}

function anchorOf(command: Command): string {
  return fullName(command).replaceAll(" ", "-");
}
