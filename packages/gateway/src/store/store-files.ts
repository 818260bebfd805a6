/** Names of the files of a store and of its backups. */

/** The database, inside `store.path`. */
export const STORE_FILE = "zml.sqlite";
/** The pepper of the keys that the gateway makes, beside it. */
export const PEPPER_FILE = "pepper";

/** Kept decisions, beside it: a file of its own, so that gigabytes of records are no burden to what the API made. */
export const DECISIONS_FILE = "decisions.sqlite";

/** Where the kept decisions of a backup are. */
export function decisionsOfBackup(path: string): string {
  return `${path}.decisions`;
}

/** Where the pepper of a backup is. */
export function pepperOfBackup(path: string): string {
  return `${path}.pepper`;
}
