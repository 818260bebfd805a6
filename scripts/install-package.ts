// The gateway as its users get it: packed, and installed from the tarball into an empty project.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

const gateway = join(import.meta.dirname, "..", "packages", "gateway");

// npm and npx start with `#!/usr/bin/env node`: the Node that runs this comes first.
const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter) };

/** What `npm pack` made and `npm install` unpacked. */
export interface InstalledPackage {
  /** Paths in the tarball, relative to the package. */
  readonly files: readonly string[];
  /** Its folder in the project's node_modules. */
  readonly folder: string;
  /** What `npx zml` runs. */
  readonly launcher: string;
  readonly manifest: PackageManifest;
}

/** The members of a package.json that matter to who installs it. */
export interface PackageManifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/**
 * Builds and packs the gateway, and installs it into an empty folder, which becomes a project. Takes some seconds, and
 * the registry for what is in no cache.
 *
 * @throws what npm said when it failed.
 */
export function installGateway(project: string): InstalledPackage {
  const packed = JSON.parse(runIn(gateway, "npm", ["pack", "--json", "--pack-destination", project])) as unknown;
  // npm 12 gives an object by package name, older ones a list
  const [entry] = Array.isArray(packed) ? packed : Object.values(packed as object);
  const { filename, files } = entry as { filename: string; files: { path: string }[] };
  writeFileSync(join(project, "package.json"), '{ "name": "empty", "private": true }\n');
  runIn(project, "npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", join(project, filename)]);
  const folder = join(project, "node_modules", "zml");
  return {
    files: files.map((file) => file.path),
    folder,
    launcher: join(folder, "bin", "zml.mjs"),
    manifest: JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as PackageManifest,
  };
}

/** Runs npm or npx in a folder, with this Node. @returns its standard output. @throws when it fails. */
export function runIn(folder: string, command: "npm" | "npx", args: readonly string[]): string {
  return execFileSync(command, args, { cwd: folder, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}
