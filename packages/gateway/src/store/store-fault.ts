/** Why the store did not do what it was asked, as a closed list and in words. */

const STORE_FAULTS = [
  /** The file belongs to a newer ZML. */
  "newer",
  /** The file is no SQLite database, or a damaged one. */
  "corrupt",
  /** Another process holds a lock. */
  "locked",
  "disk_full",
  "read_only",
  /** The system refused to read or write the file: a failing disk, or a limit on the size of files. */
  "disk_error",
  /** Folder or file can't be made or read. */
  "unreachable",
  /** Another gateway wrote what this one wanted to change. */
  "conflict",
  /** It was asked for more than it may keep waiting. */
  "overloaded",
  /** It did not answer in time. */
  "timeout",
  /** It ends, or its thread died. */
  "closed",
  /** A fault of ours. */
  "failed",
] as const;
/** Why the store did not do what it was asked. */
export type StoreFaultKind = (typeof STORE_FAULTS)[number];

/** What the store answers instead of a result. */
export class StoreFault extends Error {
  override readonly name = "StoreFault";
  readonly kind: StoreFaultKind;

  constructor(kind: StoreFaultKind, message: string, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
  }

  /** True when this file must not be used by this program, whatever becomes of the disk. */
  get isFinal(): boolean {
    return this.kind === "newer" || this.kind === "corrupt";
  }
}

/** SQLite's primary result codes. */
const KIND_OF_SQLITE: Readonly<Record<number, StoreFaultKind>> = {
  5: "locked",
  6: "locked",
  8: "read_only",
  10: "disk_error",
  11: "corrupt",
  13: "disk_full",
  14: "unreachable",
  23: "unreachable",
  26: "corrupt",
};

const KIND_OF_SYSTEM: Readonly<Record<string, StoreFaultKind>> = {
  ENOSPC: "disk_full",
  EDQUOT: "disk_full",
  EROFS: "read_only",
  EFBIG: "disk_error",
  EIO: "disk_error",
  EACCES: "unreachable",
  EPERM: "unreachable",
  ENOTDIR: "unreachable",
  EEXIST: "unreachable",
  ENOENT: "unreachable",
};

const HINTS: Readonly<Record<StoreFaultKind, string>> = {
  newer: "start the newer ZML",
  corrupt: "restore a backup, or move the file away to start with an empty store",
  locked: "another process holds it; end that, or give each gateway its own store.path",
  disk_full: "free some space",
  read_only: "let this user write there, or name another store.path",
  disk_error: "look at the system's log of the disk, and at the limits of this process (ulimit -f)",
  unreachable: "check that the folder exists and that this user may write there",
  conflict: "give each gateway its own store.path",
  overloaded: "try again",
  timeout: "try again; the disk may be slow",
  closed: "start the gateway again",
  failed: "report it",
};

/** Turns what SQLite or the system threw into a fault with the path and what to do. */
export function toStoreFault(error: unknown, path: string): StoreFault {
  if (error instanceof StoreFault) return error;
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  let kind: StoreFaultKind = "failed";
  // extended codes hold the primary one in their low byte
  if (typeof errcode === "number") kind = KIND_OF_SQLITE[errcode & 0xff] ?? "failed";
  else if (typeof code === "string") kind = KIND_OF_SYSTEM[code] ?? "failed";
  const text = error instanceof Error ? error.message : String(error);
  return new StoreFault(kind, `the store ${path} can't be used (${text}): ${HINTS[kind]}`, error);
}
