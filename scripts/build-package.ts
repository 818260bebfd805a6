// Builds the gateway to JavaScript for publishing: packages/gateway/dist. Runs before `npm pack` (prepack).
// The workspaces' own packages are bundled; what package.json lists under dependencies, optional ones included, stays
// outside.
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type Plugin, rolldown } from "rolldown";
import { buildDashboard } from "./dashboard-pages.ts";

const root = join(import.meta.dirname, "..");
const gateway = join(root, "packages", "gateway");

// The one place that names what is started from outside. Worker threads are found by their `new URL("./x.ts", …)`.
const entries = { main: join(gateway, "src", "main.ts") };

const manifest = JSON.parse(readFileSync(join(gateway, "package.json"), "utf8")) as {
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
};
const external = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });

/** Packages, and modules of ours, that are loaded on use: by the first admin request, or by traces that are switched on. */
const LOADED_ON_USE = /^(fastify|zod-openapi|@opentelemetry\/.+)$|protocol\/src\/admin\/routes\.ts$/;

const outDir = join(gateway, "dist");
rmSync(outDir, { recursive: true, force: true });

// What `zml simulate` reads, where the built modules look for it (packages/simulator/src/data-file.ts): the node model and
// the trace of its default workload. Other traces are given by path.
const dataDir = join(gateway, "data");
rmSync(dataDir, { recursive: true, force: true });
mkdirSync(dataDir);
for (const name of ["README.md", "node-params.csv", "azure2023-conv.csv"]) {
  cpSync(join(root, "packages", "simulator", "data", name), join(dataDir, name));
}

// The pages of the admin port, where the built modules look for them (packages/gateway/src/pages-folder.ts).
await buildDashboard();

const bundle = await rolldown({
  input: entries,
  platform: "node",
  external: (id) => external.some((name) => id === name || id.startsWith(`${name}/`)),
  plugins: [workerUrls()],
  onLog: (level, log) => {
    // A package that is neither bundled nor a dependency would be missing where the tarball is installed.
    if (level === "warn") throw new Error(log.message);
  },
});
try {
  const { output } = await bundle.write({
    dir: outDir,
    format: "esm",
    entryFileNames: "[name].js",
    // Flat, so that import.meta.url means the same folder in every chunk.
    chunkFileNames: "[name]-[hash].js",
  });
  for (const chunk of output) {
    if (chunk.type !== "chunk") continue;
    for (const id of [...chunk.imports, ...chunk.dynamicImports]) {
      const isKnown = id.startsWith("node:") || external.some((name) => id === name || id.startsWith(`${name}/`));
      const isChunk = output.some((other) => other.fileName === id);
      if (!isKnown && !isChunk) throw new Error(`${chunk.fileName} imports ${id}, which the package does not bring`);
    }
  }
  const chunks = output.filter((one) => one.type === "chunk");
  for (const started of ["packages/gateway/src/control/gateway.ts", "packages/gateway/src/worker.ts"]) {
    const first = chunks.find(({ moduleIds }) => moduleIds.some((id) => id.endsWith(started)));
    if (first === undefined) throw new Error(`${started} is in no chunk`);
    for (const name of loadedWith(first.fileName, chunks)) {
      // an idle gateway has no memory for it (docs/decisions/0018-fastify-and-openapi.md, 0028-traces.md)
      if (LOADED_ON_USE.test(name)) throw new Error(`${name} is loaded with ${started}: import it on use`);
    }
  }
} finally {
  await bundle.close();
}

interface Chunk {
  readonly fileName: string;
  readonly imports: readonly string[];
  readonly moduleIds: readonly string[];
}

/** Packages, chunks and modules that are loaded with a chunk, all the way down. */
function loadedWith(start: string, chunks: readonly Chunk[]): Set<string> {
  const seen = new Set<string>();
  const visit = (name: string): void => {
    if (seen.has(name)) return;
    seen.add(name);
    const chunk = chunks.find(({ fileName }) => fileName === name);
    for (const id of chunk?.moduleIds ?? []) seen.add(id);
    for (const next of chunk?.imports ?? []) visit(next);
  };
  visit(start);
  return seen;
}

/** Makes every `new URL("./x.ts", import.meta.url)` an entry of the build, and points it at the built file. */
function workerUrls(): Plugin {
  return {
    name: "worker-urls",
    transform(code, id) {
      if (!id.startsWith(join(root, "packages"))) return undefined;
      const pattern = /new URL\(\s*"(\.[^"]*\.ts)",\s*import\.meta\.url,?\s*\)/g;
      if (!pattern.test(code)) return undefined;
      return code.replaceAll(pattern, (_match, path: string) => {
        const file = resolve(dirname(id), path);
        const name = basename(file, ".ts");
        this.emitFile({ type: "chunk", id: file, fileName: `${name}.js` });
        return `new URL("./${name}.js", import.meta.url)`;
      });
    },
  };
}
