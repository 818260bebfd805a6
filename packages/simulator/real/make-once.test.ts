import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { makeOnce } from "./make-once.ts";

const limits = { timeout: 20_000 };

test("of several processes at once one makes the directory, and all return when it is complete", limits, async (t) => {
  const root = await temporaryDirectory(t);
  const script = `
    import { appendFile, readFile, writeFile } from "node:fs/promises";
    import { setTimeout as delay } from "node:timers/promises";
    import { makeOnce } from ${JSON.stringify(new URL("./make-once.ts", import.meta.url).href)};
    const root = process.argv[1];
    await makeOnce({ directory: root + "/made", deadlineMs: 15000, make: async (staging) => {
      await appendFile(root + "/calls", "x");
      await writeFile(staging + "/first", "1");
      await delay(300);
      await writeFile(staging + "/last", "2");
      return staging;
    } });
    process.stdout.write(await readFile(root + "/made/last", "utf8"));
  `;
  const answers = await Promise.all(
    [1, 2, 3].map(async () => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", script, root], { stdio: "pipe" });
      t.after(() => child.kill("SIGKILL"));
      let output = "";
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)));
      await once(child, "close");
      return output;
    }),
  );
  assert.deepEqual(answers, ["2", "2", "2"]);
  assert.equal(await readFile(join(root, "calls"), "utf8"), "x");
  assert.deepEqual((await readdir(root)).sort(), ["calls", "made"], "neither lock nor staging is left");
});

test("a second call makes nothing", limits, async (t) => {
  const directory = join(await temporaryDirectory(t), "made");
  let calls = 0;
  const make = async (staging: string) => {
    calls += 1;
    return staging;
  };
  await makeOnce({ directory, deadlineMs: 5_000, make });
  await makeOnce({ directory, deadlineMs: 5_000, make });
  assert.equal(calls, 1);
});

test("what fails leaves no directory, no staging and no lock, and the next call tries again", limits, async (t) => {
  const root = await temporaryDirectory(t);
  const directory = join(root, "made");
  const failing = makeOnce({
    directory,
    deadlineMs: 5_000,
    make: async (staging) => {
      await writeFile(join(staging, "half"), "");
      throw new Error("no network");
    },
  });
  await assert.rejects(failing, /no network/);
  assert.deepEqual(await readdir(root), []);
  await makeOnce({ directory, deadlineMs: 5_000, make: async (staging) => staging });
  assert.deepEqual(await readdir(root), ["made"]);
});

test("the lock and the staging of a dead process are taken away", limits, async (t) => {
  const root = await temporaryDirectory(t);
  const pid = await deadPid();
  await symlink(String(pid), join(root, "made.lock"));
  await mkdir(join(root, `staging-${pid}-abc`));
  await makeOnce({ directory: join(root, "made"), deadlineMs: 5_000, make: async (staging) => staging });
  assert.deepEqual(await readdir(root), ["made"]);
});

test("waiting for a living owner ends at the deadline and names the owner", limits, async (t) => {
  const root = await temporaryDirectory(t);
  const owner = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
  t.after(() => owner.kill("SIGKILL"));
  await once(owner, "spawn");
  const lock = join(root, "made.lock");
  await symlink(String(owner.pid), lock);
  const told: number[] = [];
  const waiting = makeOnce({
    directory: join(root, "made"),
    deadlineMs: 300,
    make: async () => assert.fail("the lock is held"),
    onWait: (pid) => {
      told.push(pid);
    },
  });
  await assert.rejects(waiting, new RegExp(`process ${owner.pid} did not finish`));
  assert.deepEqual(told, [owner.pid]);
});

async function temporaryDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "make-once-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ["-e", ""]);
  await once(child, "close");
  assert(child.pid !== undefined);
  return child.pid;
}
