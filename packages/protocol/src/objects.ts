/** The objects that people and scripts manage, as the file, the admin API and the store name them. Free of zod. */

/** Kinds of managed objects. */
export const OBJECT_KINDS = ["account", "node", "model", "policy", "key", "price_feed"] as const;
/** A kind of managed objects. */
export type ObjectKind = (typeof OBJECT_KINDS)[number];

/** How addresses of the admin API name the objects of a kind. */
export const COLLECTIONS = {
  account: "accounts",
  node: "nodes",
  model: "models",
  policy: "policies",
  key: "keys",
  price_feed: "price-feeds",
} as const satisfies Readonly<Record<ObjectKind, string>>;

/** Who may change an object: the configuration file, the admin API, or the source that found it. */
export const OBJECT_OWNERS = ["file", "api", "discovery"] as const;
/** Who may change an object. */
export type ObjectOwner = (typeof OBJECT_OWNERS)[number];

/** Whether two accounts may each have an object of this name. Accounts and price feeds belong to nobody. */
export function hasAccount(kind: ObjectKind): boolean {
  return kind !== "account" && kind !== "price_feed";
}
