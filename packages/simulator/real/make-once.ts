/**
 * Makes a directory once, however many processes ask for it at the same time.
 *
 * The directory is made under another name and renamed when it is complete, so nobody ever sees half of it: that is
 * what makes it safe. The lock (a symbolic link, made atomically, that names its owner's process id) only keeps several
 * processes from doing the same work; a lock whose owner is dead is taken over.
 */
import { access, lstat, mkdir, mkdtemp, readdir, readlink, rename, rm, symlink, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const lockRetryMs = 100;
// Older than any sensible deadline: its owner's process id has since gone to somebody else.
const lockMaxAgeMs = 3_600_000;

export type MakeOnceOptions = {
  /** The directory to make; its parent is created. */
  directory: string;
  /** For waiting and making together. */
  deadlineMs: number;
  /** Fills `staging` and returns the directory inside it (or itself) that becomes `directory`. */
  make(staging: string, signal: AbortSignal): Promise<string>;
  /** Told once when another process is already at it. */
  onWait?(ownerPid: number): void;
};

/**
 * Returns when `directory` exists and is complete.
 * @throws what `make` throws, after removing everything that it made; Error when the deadline passes while waiting.
 */
export async function makeOnce({ directory, deadlineMs, make, onWait }: MakeOnceOptions): Promise<void> {
  if (await exists(directory)) return;
  const parent = dirname(directory);
  const lock = `${directory}.lock`;
  const signal = AbortSignal.timeout(deadlineMs);
  await mkdir(parent, { recursive: true });

  let hasWaited = false;
  while (!(await tryLock(lock))) {
    const owner = await lockOwner(lock);
    if (owner === null) {
      await breakLock(lock);
      continue;
    }
    if (!hasWaited) onWait?.(owner);
    hasWaited = true;
    if (signal.aborted) {
      throw new Error(
        `process ${owner} did not finish ${directory} within ${deadlineMs} ms: end it, or remove ${lock}`,
      );
    }
    await delay(lockRetryMs);
    if (await exists(directory)) return;
  }

  try {
    if (await exists(directory)) return;
    await removeDeadStagings(parent);
    const staging = await mkdtemp(join(parent, `staging-${process.pid}-`));
    try {
      await publish(await make(staging, signal), directory);
    } finally {
      await rm(staging, { recursive: true, force: true, maxRetries: 5 });
    }
  } finally {
    if ((await readlink(lock).catch(() => "")) === String(process.pid)) await unlink(lock).catch(() => undefined);
  }
}

async function publish(made: string, directory: string): Promise<void> {
  try {
    await rename(made, directory);
  } catch (error) {
    // Whoever took our lock over was faster; theirs is as good.
    if (!(await exists(directory))) throw error;
  }
}

async function tryLock(lock: string): Promise<boolean> {
  try {
    await symlink(String(process.pid), lock);
    return true;
  } catch (error) {
    if (isCode(error, "EEXIST")) return false;
    throw error;
  }
}

/** The live owner's process id; null when the lock is gone, or its owner is, or it is too old to be true. */
async function lockOwner(lock: string): Promise<number | null> {
  try {
    const owner = Number(await readlink(lock));
    const { mtimeMs } = await lstat(lock);
    return isAlive(owner) && Date.now() - mtimeMs <= lockMaxAgeMs ? owner : null;
  } catch (error) {
    if (isCode(error, "ENOENT")) return null;
    throw error;
  }
}

/** Renames before it removes: of several processes that find a dead lock, one gets it. */
async function breakLock(lock: string): Promise<void> {
  const grave = `${lock}.${process.pid}`;
  try {
    await rename(lock, grave);
    await unlink(grave);
  } catch (error) {
    if (!isCode(error, "ENOENT")) throw error;
  }
}

async function removeDeadStagings(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = /^staging-(\d+)-/.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) await rm(join(parent, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !isCode(error, "ESRCH");
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
