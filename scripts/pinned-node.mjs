// Which Node runs the sources: the one pinned by the lock file, else the one that runs this, if it is new enough.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

/** True for versions that strip types without a flag or a warning. */
export function isNewEnough(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > 24 || (major === 24 && minor >= 12);
}

/** The name of the package that carries Node for this system, or undefined where none is published. */
export function pinnedNodePackage(platform = process.platform, arch = process.arch) {
  return platform === "linux" && (arch === "x64" || arch === "arm64") ? `node-linux-${arch}` : undefined;
}

/** The path of a Node that can run the sources, or undefined. */
export function findNode(root) {
  const name = pinnedNodePackage();
  const pinned = name === undefined ? "" : join(root, "node_modules", name, "bin", "node");
  // Running it is the only proof: the published binary needs glibc, which musl systems lack.
  if (pinned !== "" && existsSync(pinned)) {
    const probe = spawnSync(pinned, ["--version"], { encoding: "utf8" });
    if (probe.status === 0 && isNewEnough(probe.stdout.trim().slice(1))) return pinned;
  }
  return isNewEnough(process.versions.node) ? process.execPath : undefined;
}
