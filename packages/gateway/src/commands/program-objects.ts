/** Commands on accounts, nodes, models, policies, keys and price feeds. */

import { type Command, Option } from "commander";
import type { ApplyOptions, DiffOptions } from "./apply.ts";
import type { DeleteOptions } from "./delete.ts";
import type { GetOptions } from "./get.ts";
import type { CreateKeyOptions, RotateKeyOptions } from "./keys.ts";
import type { ModelsOptions } from "./models.ts";
import { KIND_WORDS, type ObjectKind } from "./object-kinds.ts";
import type { ProgramHost } from "./program-host.ts";
import {
  accountOption,
  adminOption,
  jsonOption,
  keyEnvOption,
  kindArgument,
  listOf,
  repeated,
  watchOption,
  wideOption,
} from "./program-options.ts";

type ListLine = Omit<GetOptions, "kind" | "name"> & { readonly watch: boolean };

export function addObjectCommands(program: Command, host: ProgramHost): void {
  addGet(program, host);
  addApply(program, host);
  addKeys(program, host);
}

function kindOfObjects(program: Command) {
  const argument = program.createArgument("<kind>", "the kind of objects").choices(KIND_WORDS);
  return argument.argParser(kindArgument);
}

function addGet(program: Command, host: ProgramHost): void {
  const { terminal } = host;
  const list = (command: Command): Command =>
    command
      .addOption(accountOption())
      .addOption(new Option("--owner <owner>", "only those of this owner").choices(["file", "api", "discovery"]))
      .option("--yaml", "print them as they stand in zml.yaml", false)
      .addOption(jsonOption())
      .addOption(wideOption())
      .addOption(watchOption())
      .addOption(adminOption())
      .addOption(keyEnvOption());
  const show = async (kind: ObjectKind, name: string | undefined, { watch, ...options }: ListLine) => {
    const { getObjects } = await import("./get.ts");
    const chosen = { ...options, kind, ...(name !== undefined && { name }) };
    host.end(await getObjects(terminal, chosen, watch ? host.watch() : null));
  };
  list(
    program
      .command("get")
      .description("show objects, whether the file, the API or discovery owns them; with a name all of one")
      .addArgument(kindOfObjects(program))
      .argument("[name]", "one object"),
  ).action((kind: ObjectKind, name: string | undefined, options: ListLine) => show(kind, name, options));
  for (const [word, kind] of [
    ["policies", "policy"],
    ["accounts", "account"],
  ] as const) {
    list(program.command(word).description(`the same as get ${word}`).argument("[name]", `one ${kind}`)).action(
      (name: string | undefined, options: ListLine) => show(kind, name, options),
    );
  }
  program
    .command("models")
    .description("show what callers can ask for, registered or reported by nodes")
    .addOption(accountOption())
    .addOption(jsonOption())
    .addOption(wideOption())
    .addOption(watchOption())
    .addOption(adminOption())
    .addOption(keyEnvOption())
    .action(async ({ watch, ...options }: ModelsOptions & { watch: boolean }) => {
      const { models } = await import("./models.ts");
      host.end(await models(terminal, options, watch ? host.watch() : null));
    });
}

function addApply(program: Command, host: ProgramHost): void {
  const { terminal } = host;
  const file = (command: Command): Command =>
    command
      .requiredOption("-f, --file <file>", "objects as in zml.yaml; - for standard input")
      .option("--prune", "delete what the API made and the file lacks, of the kinds that the file has", false)
      .option("--full", "show every change, however many there are", false)
      .addOption(jsonOption())
      .addOption(adminOption())
      .addOption(keyEnvOption());
  file(
    program
      .command("apply")
      .description("make and change objects as a file says, all or none of them, after showing what would change"),
  )
    .option("--dry-run", "only show it", false)
    .option("-y, --yes", "don't ask", false)
    .action(async (options: ApplyOptions) => {
      const { apply } = await import("./apply.ts");
      host.end(await apply(terminal, options));
    });
  file(program.command("diff").description("show what apply would change; ends with 7 when that is something")).action(
    async (options: DiffOptions) => {
      const { diff } = await import("./apply.ts");
      host.end(await diff(terminal, options));
    },
  );
  program
    .command("delete")
    .description("delete an object that the API made")
    .addArgument(kindOfObjects(program))
    .argument("<name>", "the object")
    .addOption(accountOption())
    .addOption(jsonOption())
    .addOption(adminOption())
    .addOption(keyEnvOption())
    .action(async (kind: ObjectKind, name: string, options: Omit<DeleteOptions, "kind" | "name">) => {
      const { deleteObject } = await import("./delete.ts");
      host.end(await deleteObject(terminal, { ...options, kind, name }));
    });
}

function addKeys(program: Command, host: ProgramHost): void {
  const { terminal } = host;
  const common = (command: Command): Command =>
    command.addOption(accountOption()).addOption(jsonOption()).addOption(adminOption()).addOption(keyEnvOption());
  const keys = common(
    program
      .command("keys")
      .description("show the keys, without their values")
      .addOption(wideOption())
      .action(async (options: Omit<GetOptions, "kind" | "name">) => {
        const { getObjects } = await import("./get.ts");
        host.end(await getObjects(terminal, { ...options, kind: "key", yaml: false }, null));
      }),
  );
  common(
    keys
      .command("create")
      .description("make a key and print its value, which is shown this once")
      .argument("<name>", "how logs and metrics call the key")
      .option("--scope <scope>", "what it may do: infer, read, admin; several times, or with commas", listOf)
      .option("--model <name>", "only this model; several times", repeated)
      .option("--policy <name>", "only this policy; several times", repeated)
      .option("--expires <moment>", "until when it opens: 90d, 2027-01-31, 2027-01-31T12:00:00Z")
      .option("--limit <name=number>", "a limit, such as requests_per_minute=600; several times", listOf)
      .option("--quiet", "print the value alone", false)
      .action(async (name: string, options: Omit<CreateKeyOptions, "name">) => {
        const { createKey } = await import("./keys.ts");
        host.end(await createKey(terminal, { ...options, name }, Date.now()));
      }),
  );
  common(
    keys
      .command("rotate")
      .description("give a key a new value and print it; the old one opens for a while")
      .argument("<name>", "the key")
      .option("--overlap <duration>", "how long the old value opens: 0s, 15m, 1h, 2d", "1h")
      .option("--quiet", "print the value alone", false)
      .action(async (name: string, options: Omit<RotateKeyOptions, "name">) => {
        const { rotateKey } = await import("./keys.ts");
        host.end(await rotateKey(terminal, { ...options, name }));
      }),
  );
  common(
    keys
      .command("delete")
      .description("delete a key: its value opens nothing any more")
      .argument("<name>", "the key")
      .action(async (name: string, options: Omit<DeleteOptions, "kind" | "name">) => {
        const { deleteObject } = await import("./delete.ts");
        host.end(await deleteObject(terminal, { ...options, kind: "key", name }));
      }),
  );
}
