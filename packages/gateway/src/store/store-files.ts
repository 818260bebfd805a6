/** Names of the files of a store and of its backups. */

/** The database, inside `store.path`. */
export const STORE_FILE = "zml.sqlite";
/** The pepper of the keys that the gateway makes, beside it. */
export const PEPPER_FILE = "pepper";

/** Where the pepper of a backup is. */
export function pepperOfBackup(path: string): string {
  return `${path}.pepper`;
}
