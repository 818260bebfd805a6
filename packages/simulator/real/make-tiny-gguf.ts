/**
 * Writes a tiny random-weight model file for llama.cpp (see tiny-llama.ts), as a function and as a script:
 * `node make-tiny-gguf.ts OUT.gguf [--dim 64] [--layers 2] [--heads 4] [--ctx 32768] [--name tiny-llama]
 * [--eos-bias -6] [--seed 1]`. The default is small and fast; `--dim 512 --layers 4 --heads 8` (45 MB) is slow enough
 * to make requests wait.
 */
import { open } from "node:fs/promises";
import { parseArgs } from "node:util";
import { type TinyLlamaOptions, tinyLlama } from "./tiny-llama.ts";

/** Writes the model to `path`, replacing what was there; returns the file's size in bytes. */
export async function writeTinyGguf(path: string, options: TinyLlamaOptions = {}): Promise<number> {
  const parts = tinyLlama(options);
  const file = await open(path, "w");
  try {
    for (const part of parts) await file.writeFile(part);
  } finally {
    await file.close();
  }
  return parts.reduce((sum, part) => sum + part.byteLength, 0);
}

if (import.meta.main) {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      dim: { type: "string", default: "64" },
      layers: { type: "string", default: "2" },
      heads: { type: "string", default: "4" },
      ctx: { type: "string", default: "32768" },
      name: { type: "string", default: "tiny-llama" },
      "eos-bias": { type: "string", default: "-6" },
      seed: { type: "string", default: "1" },
    },
  });
  const [path] = positionals;
  if (path === undefined || positionals.length !== 1) {
    process.stderr.write("usage: node make-tiny-gguf.ts OUT.gguf [--dim 64] [--layers 2] [--heads 4] [--ctx 32768]\n");
    process.exitCode = 2;
  } else {
    const bytes = await writeTinyGguf(path, {
      dim: Number(values.dim),
      layers: Number(values.layers),
      heads: Number(values.heads),
      contextTokens: Number(values.ctx),
      name: values.name,
      eosBias: Number(values["eos-bias"]),
      seed: Number(values.seed),
    });
    process.stdout.write(`${path}: ${bytes} bytes\n`);
  }
}
