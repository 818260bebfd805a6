import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

interface LockedPackage {
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly engines?: { readonly node?: string };
}

// The first install runs on the system's Node; the root package asks for 20 or newer.
const OLDEST_MAJOR = 20;

test("npm of the oldest system Node leaves no optional package out", () => {
  const path = join(import.meta.dirname, "..", "package-lock.json");
  const { packages } = JSON.parse(readFileSync(path, "utf8")) as { packages: Record<string, LockedPackage> };
  const leftOut = Object.entries(packages).filter(([, locked]) => {
    if (locked.optional !== true || locked.os !== undefined || locked.cpu !== undefined) return false;
    const [, least] = /^\s*>=?\s*(\d+)/.exec(locked.engines?.node ?? "") ?? [];
    return least !== undefined && Number(least) > OLDEST_MAJOR;
  });
  assert.deepEqual(
    leftOut.map(([name]) => name),
    [],
  );
});
