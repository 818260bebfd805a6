// Builds the client for publishing: packages/client/dist is the package, with a manifest of its own, ready for `npm pack`.
// The workspace's manifest points at the sources, so that the repository runs without a build; node strips no types below
// node_modules, so the package points at JavaScript and declarations. Argument: another folder to build into.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { rolldown } from "rolldown";

const root = join(import.meta.dirname, "..");
const client = join(root, "packages", "client");
const outDir = resolve(process.argv[2] ?? join(client, "dist"));

/** What the client takes from other packages of the workspace, and the folders in which its types come to lie. */
const borrowed: readonly { readonly specifier: string; readonly source: string; readonly folder: string }[] = [
  { specifier: "@zml/protocol/wire", source: "packages/protocol/src/wire/index.ts", folder: "wire" },
  { specifier: "@zml/engine/reasons", source: "packages/engine/src/reasons.ts", folder: "engine" },
];

rmSync(outDir, { recursive: true, force: true });
mkdirSync(outDir, { recursive: true });
await writeCode();
writeDeclarations();
writeManifest();
for (const name of ["README.md", "LICENSE"]) copyFileSync(join(client, name), join(outDir, name));

/** One file, which imports nothing: it runs where there is no resolution, too. */
async function writeCode(): Promise<void> {
  const bundle = await rolldown({
    input: { index: join(client, "src", "index.ts") },
    platform: "neutral",
    onLog: (level, log) => {
      if (level === "warn") throw new Error(log.message);
    },
  });
  try {
    const { output } = await bundle.write({ dir: outDir, format: "esm", entryFileNames: "[name].js" });
    for (const chunk of output) {
      if (chunk.type !== "chunk") throw new Error(`${chunk.fileName} is no code`);
      const imports = [...chunk.imports, ...chunk.dynamicImports];
      if (imports.length > 0)
        throw new Error(`${chunk.fileName} imports ${imports.join()}: the client has no dependencies`);
    }
  } finally {
    await bundle.close();
  }
}

/** A declaration per source that the public names need, with paths that hold inside the package. */
function writeDeclarations(): void {
  const scratch = mkdtempSync(join(outDir, ".types-"));
  try {
    const compilerOptions = { noEmit: false, declaration: true, emitDeclarationOnly: true, stripInternal: true };
    // Nothing is emitted for what tsc comes to by way of node_modules, and which of two ways it takes first is chance.
    const paths = Object.fromEntries(borrowed.map(({ specifier, source }) => [specifier, [join(root, source)]]));
    const config = {
      extends: join(client, "tsconfig.json"),
      compilerOptions: { ...compilerOptions, paths, rootDir: root, outDir: scratch },
      files: [join(client, "src", "index.ts")],
      include: [],
    };
    writeFileSync(join(scratch, "tsconfig.json"), JSON.stringify(config));
    execFileSync(join(root, "node_modules", ".bin", "tsc"), ["-p", scratch], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    const pending = ["packages/client/src/index.d.ts"];
    const written = new Set(pending);
    for (let file = pending.pop(); file !== undefined; file = pending.pop()) {
      const place = placeOf(file);
      const text = readFileSync(join(scratch, file), "utf8").replace(
        /(\bfrom |\bimport\()"([^"]+)"/g,
        (_match, before: string, specifier: string) => {
          const target = sourceOf(specifier, file);
          if (!written.has(target)) {
            written.add(target);
            pending.push(target);
          }
          const path = relative(dirname(place), placeOf(target)).replace(/\.d\.ts$/, ".js");
          return `${before}"${path.startsWith(".") ? path : `./${path}`}"`;
        },
      );
      mkdirSync(dirname(join(outDir, place)), { recursive: true });
      writeFileSync(join(outDir, place), text);
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The emitted declaration that a specifier in another one means, from the root of the repository. */
function sourceOf(specifier: string, importer: string): string {
  const source = specifier.startsWith(".")
    ? join(dirname(importer), specifier)
    : borrowed.find((each) => each.specifier === specifier)?.source;
  if (source === undefined)
    throw new Error(`${importer} needs the types of ${specifier}, which the package doesn't bring`);
  return source.replace(/\.ts$/, ".d.ts");
}

/** Where an emitted declaration lies in the package. */
function placeOf(file: string): string {
  const own = "packages/client/src/";
  if (file.startsWith(own)) return file.slice(own.length);
  const from = borrowed.find(({ source }) => dirname(source) === dirname(file));
  if (from === undefined) throw new Error(`${file} has no place in the package`);
  return join(from.folder, basename(file));
}

/** The workspace's manifest, without what only the workspace needs. */
function writeManifest(): void {
  const manifest = JSON.parse(readFileSync(join(client, "package.json"), "utf8")) as Record<string, unknown>;
  const { private: _private, devDependencies: _dev, scripts: _scripts, exports: _exports, ...rest } = manifest;
  const published = {
    ...rest,
    exports: { ".": { types: "./index.d.ts", default: "./index.js" }, "./package.json": "./package.json" },
    types: "./index.d.ts",
  };
  writeFileSync(join(outDir, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
}
