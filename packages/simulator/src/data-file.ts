import { fileURLToPath } from "node:url";

/** Path of a file of `data/`. It stands one folder above this module, in the sources and in the built package alike. */
export function dataFile(name: string): string {
  return fileURLToPath(new URL(`../data/${name}`, import.meta.url));
}
