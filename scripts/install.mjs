// Installs the locked dependencies when node_modules does not match package-lock.json.
// Plain JavaScript without dependencies: it runs before anything is installed.
import { spawn } from "node:child_process";
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pinnedNodePackage } from "./pinned-node.mjs";

const lockPollMs = 200;

/** Returns when node_modules holds what package-lock.json says; throws an Error with one line that says what to do. */
export async function ensureDependencies({ root, say }) {
  if (isInstalled(root)) return;
  const release = await takeLock({ path: join(root, ".cache", "install.lock"), say });
  try {
    if (isInstalled(root)) return;
    say("installing dependencies (about 20 s)…");
    await runNpmCi(root);
  } finally {
    release();
  }
}

/**
 * Compares the lock file with node_modules/.package-lock.json. npm writes the latter as the last act of an install, so
 * it is a stamp that a broken install never carries and that a plain `npm install` renews.
 */
export function isInstalled(root) {
  let locked;
  let installed;
  try {
    locked = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
    installed = JSON.parse(readFileSync(join(root, "node_modules", ".package-lock.json"), "utf8")).packages;
  } catch {
    return false;
  }
  const pinned = pinnedNodePackage();
  for (const [path, wanted] of Object.entries(locked)) {
    if (path === "") continue;
    const present = installed[path];
    if (present === undefined) {
      // npm leaves out what is optional and made for another platform.
      if (wanted.optional && path !== `node_modules/${pinned}`) continue;
      return false;
    }
    if (present.version !== wanted.version || present.integrity !== wanted.integrity) return false;
  }
  return true;
}

function runNpmCi(root) {
  const npmArgs = ["ci", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=2"];
  // A missing registry should say so in seconds; npm's own first pause is 10 s.
  npmArgs.push("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=8000");
  const npmScript = process.env.npm_execpath;
  const isNpm = npmScript?.endsWith("npm-cli.js") ?? false;
  const [command, args] = isNpm ? [process.execPath, [npmScript, ...npmArgs]] : ["npm", npmArgs];

  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const keep = (chunk) => {
      output += chunk;
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    const stop = (signal) => child.kill(signal);
    process.on("SIGINT", stop).on("SIGTERM", stop);
    child.on("error", (error) => {
      const isMissing = error.code === "ENOENT";
      reject(new Error(isMissing ? "npm is not in the PATH; install npm 10 or newer" : `npm: ${error.message}`));
    });
    child.on("close", (code, signal) => {
      process.off("SIGINT", stop).off("SIGTERM", stop);
      if (code === 0) return resolve();
      if (signal !== null) return reject(new Error(`npm ci was stopped by ${signal}`));
      process.stderr.write(output);
      reject(new Error(explain(output, code)));
    });
  });
}

function explain(output, code) {
  const cause = /ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ECONNRESET|ERR_SOCKET/.exec(
    output,
  );
  if (cause !== null) {
    return `cannot reach the npm registry (${cause[0]}); check the network, or name a mirror in npm_config_registry`;
  }
  return `npm ci failed with code ${code}, its output is above; repair that and run the same command again`;
}

/** Takes a lock file that names its owner's process id, and returns what gives it back. */
async function takeLock({ path, say }) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, String(process.pid));
  let hasSaid = false;
  try {
    for (;;) {
      try {
        // A link appears with its content, so no reader ever sees a lock without an owner.
        linkSync(mine, path);
        return () => rmSync(path, { force: true });
      } catch (error) {
        if (error.code !== "EEXIST") throw error;
      }
      const owner = readOwner(path);
      if (owner !== undefined && !isAlive(owner)) dropStaleLock({ path, owner });
      else if (!hasSaid) {
        say("another run is installing dependencies, waiting for it");
        hasSaid = true;
      }
      await delay(lockPollMs);
    }
  } finally {
    rmSync(mine, { force: true });
  }
}

function dropStaleLock({ path, owner }) {
  const aside = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, aside);
    // Another waiter may have replaced the dead lock in between: then what was moved is alive, and goes back.
    if (readOwner(aside) !== owner) linkSync(aside, path);
  } catch {
    // Somebody else was first; the next round sees what they left.
  }
  rmSync(aside, { force: true });
}

function readOwner(path) {
  try {
    return Number(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
