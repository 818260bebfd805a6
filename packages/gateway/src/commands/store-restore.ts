/** `zml store restore`: puts a backup in the place of the store. */

import { dirname, resolve } from "node:path";
import { formatProblems } from "../config/config-problem.ts";
import { restoreStore } from "../store/restore-store.ts";
import { StoreFault } from "../store/store-fault.ts";
import { MEMORY } from "../store/store-messages.ts";
import { readConfigFile } from "./config-file.ts";
import { EXIT } from "./exit-codes.ts";
import { counted } from "./nodes-words.ts";
import type { Terminal } from "./terminal.ts";

export interface StoreRestoreOptions {
  readonly path: string;
  /** The configuration file, which says where the store is. */
  readonly config: string;
  readonly force: boolean;
  readonly json: boolean;
}

/** @returns the exit code. */
export async function storeRestore(terminal: Terminal, options: StoreRestoreOptions): Promise<number> {
  const { config, errors } = await readConfigFile(options.config, terminal.env);
  if (config === undefined) {
    terminal.error(`${formatProblems(errors)}\n`);
    return EXIT.failed;
  }
  if (config.store.path === MEMORY) {
    terminal.error(`zml: ${options.config} keeps nothing (store.path is ${MEMORY}): name a folder there\n`);
    return EXIT.failed;
  }
  const folder = resolve(dirname(options.config), config.store.path);
  try {
    const restored = restoreStore({ backup: resolve(options.path), folder, force: options.force });
    const { version, objects, hasPepper, hasDecisions } = restored;
    const told = { folder, version, objects, has_pepper: hasPepper, has_decisions: hasDecisions };
    const also = hasDecisions ? ", with kept decisions" : "";
    if (options.json) terminal.out(`${JSON.stringify(told)}\n`);
    else terminal.out(`restored ${folder}: ${counted(objects, "object")}, version ${version}${also}\n`);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof StoreFault)) throw error;
    terminal.error(`zml: ${error.message}\n`);
    return error.kind === "locked" ? EXIT.conflict : EXIT.failed;
  }
}
