// Renews the generated parts of the documentation: npx node scripts/write-reference.ts
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GENERATED, GENERATED_FILES, withGenerated } from "./reference.ts";

const root = join(import.meta.dirname, "..");

for (const { page, make } of GENERATED) {
  const path = join(root, page);
  writeFileSync(path, withGenerated(readFileSync(path, "utf8"), make()));
  process.stdout.write(`${page} is fresh\n`);
}
for (const { file, make } of GENERATED_FILES) {
  writeFileSync(join(root, file), make());
  process.stdout.write(`${file} is fresh\n`);
}
