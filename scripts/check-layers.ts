// The import law: which part of the tree may import what, and what only one file may touch. The law is layers.json.
// Run as `node scripts/check-layers.ts [ROOT]`; prints file:line and the broken rule, exits with 1 if there is one.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { checkFile, type Law } from "./layers.ts";

const root = process.argv[2] ?? join(import.meta.dirname, "..");
const law = JSON.parse(readFileSync(join(root, "layers.json"), "utf8")) as Law;

const files = globSync(["packages/*/src/**/*.ts", "packages/*/src/**/*.tsx"], { cwd: root }).sort();
const readSource = (file: string): string | undefined => {
  try {
    return readFileSync(join(root, file), "utf8");
  } catch {
    return undefined;
  }
};

const breaches = files.flatMap((file) => checkFile({ law, file, readSource }));
for (const { file, line, message } of breaches) process.stdout.write(`${file}:${line} ${message}\n`);
process.stdout.write(`${files.length} files, ${breaches.length} breaches of layers.json\n`);
process.exitCode = breaches.length === 0 ? 0 : 1;
