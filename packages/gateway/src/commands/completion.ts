/**
 * Completion for shells, written out of the command tree. Our own, since the libraries for commander write scripts that
 * ask the program for each word, which waits for Node to start at every key.
 */

import type { Command, Option } from "commander";

export const SHELLS = ["bash", "zsh", "fish"] as const;
/** A shell that a completion can be written for. */
export type Shell = (typeof SHELLS)[number];

/** A command as completion sees it. */
interface Line {
  /** Words that lead to it: `["keys", "create"]`. */
  readonly words: readonly string[];
  readonly description: string;
  readonly commands: readonly string[];
  readonly options: readonly Option[];
  /** What its first argument may be. */
  readonly choices: readonly string[];
  readonly takesFile: boolean;
}

/** The script for a shell. @param program the whole tree. */
export function completionScript(shell: Shell, program: Command): string {
  const lines = linesOf(program, []);
  switch (shell) {
    case "bash":
      return bashScript(lines);
    case "zsh":
      // zsh runs bash's completions; one script is one thing to keep right
      return `#compdef zml\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(lines)}`;
    case "fish":
      return fishScript(lines);
  }
}

function linesOf(command: Command, words: readonly string[]): Line[] {
  const commands = command.commands.filter((one) => one.name() !== "help");
  const [first] = command.registeredArguments;
  return [
    {
      words,
      description: command.description(),
      commands: commands.map((one) => one.name()),
      options: command.options.filter(({ hidden }) => !hidden),
      choices: first?.argChoices ?? [],
      takesFile: first !== undefined && /file|path/.test(first.name()),
    },
    ...commands.flatMap((one) => linesOf(one, [...words, one.name()])),
  ];
}

/** Options whose value is a file. */
function isFile(option: Option): boolean {
  return ["config", "file", "output"].includes(option.attributeName());
}

function flagsOf({ short, long }: Option): string[] {
  return [long, short].filter((flag): flag is string => typeof flag === "string");
}

function bashScript(lines: readonly Line[]): string {
  const words = lines.map(
    ({ words: path, commands, choices, options }) =>
      `    ${quoted(path.join(" "))}) words=${quoted([...commands, ...choices, ...options.flatMap(flagsOf), "--help"].join(" "))} ;;`,
  );
  const valued = lines.flatMap(({ words: path, options }) =>
    options
      .filter((option) => option.required || option.optional)
      .flatMap((option) => flagsOf(option).map((flag) => ({ key: `${path.join(" ")} ${flag}`.trim(), option }))),
  );
  const values = valued.map(({ key, option }) => {
    if (isFile(option)) return `    ${quoted(key)}) COMPREPLY=($(compgen -f -- "$current")); return ;;`;
    const choices = (option.argChoices ?? []).join(" ");
    return `    ${quoted(key)}) COMPREPLY=($(compgen -W ${quoted(choices)} -- "$current")); return ;;`;
  });
  const paths = lines.filter(({ words: path }) => path.length > 0).map(({ words: path }) => quoted(path.join(" ")));
  const files = lines.filter(({ takesFile }) => takesFile).map(({ words: path }) => quoted(path.join(" ")));
  const withFiles =
    files.length === 0
      ? ""
      : `  case "$command" in\n    ${files.join("|")}) COMPREPLY+=($(compgen -f -- "$current")) ;;\n  esac\n`;
  return `# completion of zml; for this shell: source <(zml completion bash)
_zml() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="" longer word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    longer="\${command:+$command }$word"
    case "$longer" in
      ${paths.join("|")}) command="$longer" ;;
    esac
  done
  case "\${command:+$command }$previous" in
${values.join("\n")}
  esac
  case "$command" in
${words.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
${withFiles}}
complete -F _zml zml
`;
}

function fishScript(lines: readonly Line[]): string {
  const out = ["# completion of zml; for this shell: zml completion fish | source", "complete -c zml -f"];
  for (const { words, commands, options, choices, takesFile } of lines) {
    const [first, ...rest] = words;
    const seen = first === undefined ? "__fish_use_subcommand" : ["__fish_seen_subcommand_from", first].join(" ");
    const deeper = rest.map((word) => `; and __fish_seen_subcommand_from ${word}`).join("");
    const without =
      commands.length === 0 || first === undefined ? "" : `; and not __fish_seen_subcommand_from ${commands.join(" ")}`;
    const when = `-n ${quoted(`${seen}${deeper}${without}`)}`;
    for (const name of commands) {
      const description = lines.find((line) => line.words.join(" ") === [...words, name].join(" "))?.description ?? "";
      out.push(`complete -c zml ${when} -a ${quoted(name)} -d ${quoted(description)}`);
    }
    if (choices.length > 0) out.push(`complete -c zml ${when} -a ${quoted(choices.join(" "))}`);
    if (takesFile) out.push(`complete -c zml ${when} -F`);
    for (const option of options) {
      const { short, long, description, argChoices } = option;
      const flags = [short && `-s ${short.slice(1)}`, long && `-l ${long.slice(2)}`].filter(Boolean).join(" ");
      const takesValue = option.required || option.optional;
      const kind = isFile(option) ? "-r -F" : "-x";
      const values = argChoices === undefined ? "" : ` -a ${quoted(argChoices.join(" "))}`;
      out.push(`complete -c zml ${when} ${flags}${takesValue ? ` ${kind}${values}` : ""} -d ${quoted(description)}`);
    }
  }
  return `${out.join("\n")}\n`;
}

/** As one word for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
