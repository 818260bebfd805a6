/** The kinds of objects that `zml get`, `apply` and `delete` speak of, and how a table shows each. */

import { POLICY_DEFAULTS } from "@zml/protocol";
import { counted, UNKNOWN } from "./nodes-words.ts";
import type { Column } from "./table.ts";

/** An object as the admin port tells it. */
export interface ObjectJson {
  readonly kind: ObjectKind;
  /** Empty: it belongs to no account. */
  readonly account: string;
  readonly name: string;
  /** `file`, `api`, `discovery`. */
  readonly owner: string;
  readonly revision: string | number;
  readonly created_at: string | null;
  readonly updated_at: string | null;
  /** As it would stand in zml.yaml. */
  readonly spec: Readonly<Record<string, unknown>>;
}

interface KindRow {
  /** In paths of the admin port; the words of `zml get`. */
  readonly collection: string;
  /** Where it stands in zml.yaml. */
  readonly section: readonly [string, ...string[]];
  /** What its entry there is named by. */
  readonly nameKey: string;
  readonly columns: readonly Column<ObjectJson>[];
}

/** What stands in a column that says nothing. */
const NONE = UNKNOWN;

const spec = (title: string, rank: number, key: string): Column<ObjectJson> => ({
  title,
  rank,
  cell: (object) => textOf(object.spec[key]),
});

const wide = (title: string, rank: number, key: string): Column<ObjectJson> => ({
  ...spec(title, rank, key),
  least: 12,
});

export const OBJECT_KINDS = {
  account: {
    collection: "accounts",
    section: ["accounts"],
    nameKey: "name",
    columns: [
      wide("DISPLAY NAME", 3, "display_name"),
      spec("DEFAULT POLICY", 0, "default_policy"),
      wide("LIMITS", 2, "limits"),
    ],
  },
  node: {
    collection: "nodes",
    section: ["nodes"],
    nameKey: "id",
    columns: [
      spec("FAMILY", 0, "family"),
      wide("URL", 0, "url"),
      spec("ENGINE", 4, "engine"),
      wide("MODELS", 3, "models"),
      wide("COST", 2, "cost"),
    ],
  },
  model: { collection: "models", section: ["models"], nameKey: "name", columns: [spec("POLICY", 0, "policy")] },
  policy: {
    collection: "policies",
    section: ["policies"],
    nameKey: "name",
    columns: [
      { title: "CHAIN", rank: 0, least: 12, cell: ({ spec: { accelerator_preference: chain } }) => chainText(chain) },
      { title: "COST PRIORITY", rank: 1, cell: costPriorityText },
      { title: "TARGET", rank: 2, isRight: true, cell: ({ spec: { latency_target_ms: ms } }) => millisecondsText(ms) },
      { title: "QUEUE", rank: 3, cell: queueText },
    ],
  },
  key: {
    collection: "keys",
    section: ["keys"],
    nameKey: "name",
    columns: [
      spec("SCOPES", 0, "scopes"),
      { title: "MODELS", rank: 3, least: 12, cell: ({ spec: { models } }) => anyText(models) },
      { title: "POLICIES", rank: 4, least: 12, cell: ({ spec: { policies } }) => anyText(policies) },
      { title: "EXPIRES", rank: 1, cell: ({ spec: { expires_at: at } }) => (typeof at === "string" ? at : "never") },
    ],
  },
  price_feed: {
    collection: "price-feeds",
    section: ["prices", "feeds"],
    nameKey: "name",
    columns: [spec("PROVIDER", 0, "provider")],
  },
} as const satisfies Readonly<Record<string, KindRow>>;

/** A kind of objects. */
export type ObjectKind = keyof typeof OBJECT_KINDS;

const KINDS = Object.keys(OBJECT_KINDS) as ObjectKind[];

/** What `zml get` takes, one word for each kind. */
export const KIND_WORDS: readonly string[] = KINDS.map((kind) => OBJECT_KINDS[kind].collection);

/** The kind that somebody means by a word: `node`, `nodes`, `price-feed`, `price_feeds`; null: none. */
export function kindOf(word: string): ObjectKind | null {
  const asked = word.toLowerCase().replaceAll("_", "-");
  const isMeant = (kind: ObjectKind) => OBJECT_KINDS[kind].collection === asked || kind.replaceAll("_", "-") === asked;
  return KINDS.find(isMeant) ?? null;
}

/** Whether objects of a kind belong to an account. */
function hasAccount(kind: ObjectKind): boolean {
  return kind !== "account" && kind !== "price_feed";
}

/** `policy chat`, with the account where it is not the default one: `policy acme/chat`. */
export function objectTitle({ kind, account, name }: { kind: string; account: string; name: string }): string {
  const owner = account === "" || account === "default" ? "" : `${account}/`;
  return `${kind.replaceAll("_", " ")} ${owner}${name}`;
}

/** The columns of a table of one kind. */
export function columnsOf(kind: ObjectKind): readonly Column<ObjectJson>[] {
  const account: Column<ObjectJson> = { title: "ACCOUNT", rank: 5, cell: ({ account: owner }) => owner };
  return [
    { title: "NAME", rank: 0, cell: ({ name }) => name },
    ...(hasAccount(kind) ? [account] : []),
    ...OBJECT_KINDS[kind].columns,
    { title: "OWNER", rank: 1, cell: ({ owner }) => owner },
    { title: "CHANGED", rank: 6, cell: ({ updated_at: at }) => at ?? NONE },
  ];
}

/** `MI300X, then H100 or L40S`: tiers in their order. */
function chainText(chain: unknown): string {
  if (!Array.isArray(chain) || chain.length === 0) return "all, as registered";
  const tiers = new Map<number, string[]>();
  for (const entry of chain as readonly { family?: unknown; priority?: unknown }[]) {
    const priority = Number(entry.priority);
    tiers.set(priority, [...(tiers.get(priority) ?? []), String(entry.family)]);
  }
  const sorted = [...tiers].sort(([a], [b]) => a - b);
  return sorted.map(([, families]) => families.join(" or ")).join(", then ");
}

// a spec has no defaults; what is in force is told all the same
function costPriorityText({ spec: { cost_priority: priority = POLICY_DEFAULTS.costPriority } }: ObjectJson): string {
  return textOf(priority);
}

function queueText({
  spec: { queue_on_saturation: isQueued, max_queue_ms: ms = POLICY_DEFAULTS.maxQueueMs },
}: ObjectJson) {
  return isQueued === true ? `up to ${millisecondsText(ms)}` : "no";
}

function millisecondsText(ms: unknown): string {
  return typeof ms === "number" ? `${ms} ms` : NONE;
}

function anyText(list: unknown): string {
  return Array.isArray(list) ? textOf(list) || "none" : "any";
}

/** A value of a spec in one cell. */
function textOf(value: unknown): string {
  if (value === undefined || value === null) return NONE;
  if (Array.isArray(value)) {
    return value.length > LIST_MAX ? counted(value.length, "entry") : value.map(nameOrText).join(", ");
  }
  if (typeof value !== "object") return String(value);
  const entries = Object.entries(value).filter(([, part]) => part !== null);
  return entries.map(([key, part]) => `${key} ${textOf(part)}`).join(", ") || NONE;
}

/** More don't fit a line. */
const LIST_MAX = 8;

function nameOrText(value: unknown): string {
  const isNamed = typeof value === "object" && value !== null && "name" in value;
  return isNamed ? String(value.name) : textOf(value);
}
