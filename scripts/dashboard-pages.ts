// The pages of the admin port: one script, one sheet, one document; nothing is loaded from elsewhere.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { rolldown } from "rolldown";

const root = join(import.meta.dirname, "..");
const dashboard = join(root, "packages", "dashboard");

/** What the first visit may load, gzipped bytes. */
const SCRIPT_BYTES_MAX = 200_000;

/**
 * Builds them, in some tenths of a second. Each file is replaced in one step, so that a gateway that serves them meanwhile
 * never serves half of one.
 *
 * @throws what the bundler said, or when the script is larger than a first visit may load.
 */
export async function buildDashboard(outDir = join(root, "packages", "gateway", "pages")): Promise<void> {
  const script = await bundledScript();
  const bytes = gzipSync(script).length;
  if (bytes > SCRIPT_BYTES_MAX) throw new Error(`app.js has ${bytes} bytes gzipped, more than ${SCRIPT_BYTES_MAX}`);
  const plotSheet = createRequire(join(dashboard, "package.json")).resolve("uplot/dist/uPlot.min.css");
  const sheet = readFileSync(plotSheet, "utf8") + readFileSync(join(dashboard, "src", "app.css"), "utf8");
  mkdirSync(join(outDir, "assets"), { recursive: true });
  replaceFile(join(outDir, "assets", "app.js"), script);
  replaceFile(join(outDir, "assets", "app.css"), sheet);
  replaceFile(join(outDir, "index.html"), readFileSync(join(dashboard, "src", "index.html"), "utf8"));
}

async function bundledScript(): Promise<string> {
  const { version } = JSON.parse(readFileSync(join(root, "packages", "gateway", "package.json"), "utf8")) as {
    version: string;
  };
  const bundle = await rolldown({
    input: { app: join(dashboard, "src", "main.tsx") },
    platform: "browser",
    // pages say when the gateway that answers is of another version
    transform: { define: { ZML_VERSION: JSON.stringify(version) } },
    onLog: (level, log) => {
      if (level === "warn") throw new Error(log.message);
    },
  });
  try {
    const { output } = await bundle.generate({ format: "esm", minify: true });
    const [chunk, ...others] = output;
    if (others.length > 0) throw new Error("the dashboard is one file: nothing in it may be loaded later");
    return chunk.code;
  } finally {
    await bundle.close();
  }
}

function replaceFile(path: string, text: string): void {
  const fresh = `${path}.${process.pid}`;
  writeFileSync(fresh, text);
  renameSync(fresh, path);
}
