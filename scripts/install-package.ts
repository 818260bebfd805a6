// The packages as their users get them: packed, and installed from the tarball into an empty project.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

const root = join(import.meta.dirname, "..");
const gateway = join(root, "packages", "gateway");

// npm and npx start with `#!/usr/bin/env node`: the Node that runs this comes first.
const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter) };

/** What `npm pack` made and `npm install` unpacked. */
export interface InstalledPackage {
  /** Paths in the tarball, relative to the package. */
  readonly files: readonly string[];
  /** Its folder in the project's node_modules. */
  readonly folder: string;
  readonly manifest: PackageManifest;
}

/** The gateway, installed. */
export interface InstalledGateway extends InstalledPackage {
  /** What `npx zml` runs. */
  readonly launcher: string;
}

/** The members of a package.json that matter to who installs it. */
export interface PackageManifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/**
 * Builds and packs the gateway, and installs it into an empty folder, which becomes a project. Takes some seconds, and
 * the registry for what is in no cache.
 *
 * @throws what npm said when it failed.
 */
export function installGateway(project: string): InstalledGateway {
  const installed = install(project, gateway);
  return { ...installed, launcher: join(installed.folder, "bin", "zml.mjs") };
}

/**
 * Builds and packs the client (`@zml/client`), and installs it into an empty folder, which becomes a project. It builds
 * into that folder too, so that several may do so at once. Needs no registry.
 *
 * @throws what npm or the build said when it failed.
 */
export function installClient(project: string): InstalledPackage {
  const built = join(project, "built");
  execFileSync(process.execPath, [join(root, "scripts", "build-client.ts"), built], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  return install(project, built);
}

function install(project: string, packed: string): InstalledPackage {
  const told = JSON.parse(runIn(packed, "npm", ["pack", "--json", "--pack-destination", project])) as unknown;
  // npm 12 gives an object by package name, older ones a list
  const [entry] = Array.isArray(told) ? told : Object.values(told as object);
  const { name, filename, files } = entry as { name: string; filename: string; files: { path: string }[] };
  writeFileSync(join(project, "package.json"), '{ "name": "empty", "private": true }\n');
  runIn(project, "npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", join(project, filename)]);
  const folder = join(project, "node_modules", name);
  return {
    files: files.map((file) => file.path),
    folder,
    manifest: JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as PackageManifest,
  };
}

/** Runs npm or npx in a folder, with this Node. @returns its standard output. @throws when it fails. */
export function runIn(folder: string, command: "npm" | "npx", args: readonly string[]): string {
  return execFileSync(command, args, { cwd: folder, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}
