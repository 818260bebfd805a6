import {
  ALL_ACCOUNTS,
  BUILT_IN_POLICY,
  type ConfigIssue,
  type ConfigPath,
  DEFAULT_ACCOUNT,
  nearestName,
  PLACEHOLDER_FAMILY,
} from "@zml/protocol";
import { checkDiscovery, isLabelled, rawSources, rawTemplates } from "./check-discovery.ts";
import { checkKeys, textsOf } from "./check-keys.ts";
import { checkPrices, rawFeeds } from "./check-prices.ts";
import { bothPlaces, inWords, type PlaceName } from "./config-problem.ts";
import { entries, own, type RawEntry, type RawFile, section, textOf } from "./raw-file.ts";

/** What the rules found. */
export interface Findings {
  readonly errors: ConfigIssue[];
  readonly warnings: ConfigIssue[];
}

/** Where a path stands. */
export type PlaceOf = (path: ConfigPath) => PlaceName;

/** The rules about names: each is there once, and what names another object names one that exists. */
export function checkReferences(file: RawFile, placeOf: PlaceOf, nowMs: number): Findings {
  const prices = checkPrices(file);
  const policies = policyNames(file);
  const models = servedByAccount(file);
  const registered = byAccount(file.models);
  const keys = checkKeys(file, {
    nowMs,
    namesOf: (key) => {
      const served = models.get(accountOf(key)) ?? new Set<string>();
      const named = (registered.get(accountOf(key)) ?? []).flatMap((model) => textOf(model, "name") ?? []);
      return {
        models: served === "open" ? served : new Set([...served, ...named]),
        policies: policies.get(accountOf(key)) ?? new Set(),
      };
    },
  });
  const errors = [
    ...duplicates(file.accounts, { what: "account", key: "name", isPerAccount: false }, placeOf),
    ...duplicates(file.keys, { what: "key", key: "name", isPerAccount: true }, placeOf),
    ...duplicates(file.nodes, { what: "node", key: "id", isPerAccount: false }, placeOf),
    ...duplicates(file.policies, { what: "policy", key: "name", isPerAccount: true }, placeOf),
    ...duplicates(file.models, { what: "model", key: "name", isPerAccount: true }, placeOf),
    ...duplicates(rawFeeds(file), { what: "price feed", key: "name", isPerAccount: false }, placeOf),
    ...duplicates(rawSources(file), { what: "source", key: "name", isPerAccount: false }, placeOf),
    ...prices.errors,
    ...checkDiscovery(file),
    ...file.policies.flatMap((policy) =>
      duplicates(
        entries(policy, "accelerator_preference"),
        { what: "family", key: "family", isPerAccount: false },
        placeOf,
      ),
    ),
    ...nodeShapes(file).flatMap((node) => duplicateServedModels(node, placeOf)),
    ...unknownAccounts(file),
    ...keys.errors,
    ...unknownPolicies(file),
    ...reservedPolicies(file),
    ...customWithoutEngine(file),
    ...adaptersOfThemselves(file),
  ];
  return {
    errors,
    warnings: [
      ...unnamedFamilies(file),
      ...familiesWithoutNodes(file),
      ...modelsWithoutNodes(file),
      ...adaptersWithoutBase(file),
      ...sharedUrls(file, placeOf),
      ...prices.warnings,
      ...keys.warnings,
    ],
  };
}

/** What says something about nodes: themselves, and the templates of those that are found. */
function nodeShapes(file: RawFile): RawEntry[] {
  return [...file.nodes, ...rawTemplates(file)];
}

/** `zml init` writes a placeholder where nobody named the family. */
function unnamedFamilies(file: RawFile): ConfigIssue[] {
  return nodeShapes(file)
    .filter((node) => textOf(node, "family") === PLACEHOLDER_FAMILY)
    .map((node) => ({
      path: [...node.path, "family"],
      at: "value",
      message: `the family is still the placeholder ${JSON.stringify(PLACEHOLDER_FAMILY)}`,
      hint: "name the accelerator family, here and in the policies",
    }));
}

/** Accounts whose nodes may be anything, since labels say it. */
function openAccounts(file: RawFile, field: "family" | "models"): Set<string> {
  const open = rawSources(file).filter((source) => isLabelled(source, field));
  return new Set(open.map((source) => accountOf(section(source, "node"))));
}

interface Identity {
  readonly what: string;
  readonly key: string;
  /** Whether two accounts may use the same name. */
  readonly isPerAccount: boolean;
}

function duplicates(list: readonly RawEntry[], { what, key, isPerAccount }: Identity, placeOf: PlaceOf): ConfigIssue[] {
  const firsts = new Map<string, RawEntry>();
  const issues: ConfigIssue[] = [];
  for (const entry of list) {
    const name = textOf(entry, key);
    if (name === undefined) continue;
    const identity = JSON.stringify([isPerAccount ? accountOf(entry) : "", name]);
    const first = firsts.get(identity);
    if (first === undefined) {
      firsts.set(identity, entry);
      continue;
    }
    const path = [...entry.path, key];
    const within = isPerAccount ? ` of the account ${quoted(accountOf(entry))}` : "";
    issues.push({
      path,
      at: "value",
      message: `${bothPlaces(placeOf([...first.path, key]), placeOf(path))} declare the ${what} ${quoted(name)}${within}`,
      hint: "rename one or take it out",
    });
  }
  return issues;
}

function duplicateServedModels(node: RawEntry, placeOf: PlaceOf): ConfigIssue[] {
  const firsts = new Map<string, ConfigPath>();
  const issues: ConfigIssue[] = [];
  for (const { name, path } of servedModels(node)) {
    const first = firsts.get(name);
    if (first === undefined) {
      firsts.set(name, path);
      continue;
    }
    issues.push({
      path,
      at: "value",
      message: `${bothPlaces(placeOf(first), placeOf(path))} give this node the model ${quoted(name)}`,
      hint: "keep one of them",
    });
  }
  return issues;
}

function servedModels(node: RawEntry): { name: string; path: ConfigPath }[] {
  const models = own(node, "models");
  if (!Array.isArray(models)) return [];
  const path = [...node.path, "models"];
  const mappings = new Map(entries(node, "models").map((entry) => [entry.path.at(-1), textOf(entry, "name")]));
  return models.flatMap((model: unknown, index) => {
    const name = typeof model === "string" ? model : mappings.get(index);
    return name === undefined ? [] : [{ name, path: [...path, index] }];
  });
}

function unknownAccounts(file: RawFile): ConfigIssue[] {
  const known = new Set([DEFAULT_ACCOUNT, ...file.accounts.flatMap((account) => textOf(account, "name") ?? [])]);
  const owned = [...file.keys, ...nodeShapes(file), ...file.policies, ...file.models];
  const owners = owned.flatMap((entry) => {
    const text = textOf(entry, "account");
    return text === undefined ? [] : [{ text, path: [...entry.path, "account"] }];
  });
  const shared = nodeShapes(file).flatMap((node) => textsOf(node, "shared_with"));
  return [...owners, ...shared.filter(({ text }) => text !== ALL_ACCOUNTS)]
    .filter(({ text }) => !known.has(text))
    .map(({ text, path }) => unknownName(path, { what: "account", section: "accounts", name: text, known }));
}

function unknownPolicies(file: RawFile): ConfigIssue[] {
  const uses = [
    ...file.models.map((model) => ({ entry: model, key: "policy", account: accountOf(model) })),
    ...file.accounts.map((account) => ({ entry: account, key: "default_policy", account: textOf(account, "name") })),
  ];
  const namesOf = policyNames(file);
  return uses.flatMap(({ entry, key, account }) => {
    const name = textOf(entry, key);
    if (name === undefined || name === BUILT_IN_POLICY) return [];
    const known = namesOf.get(account ?? "") ?? new Set<string>();
    if (known.has(name)) return [];
    return [unknownName([...entry.path, key], { what: "policy", section: "policies", name, known, account })];
  });
}

function policyNames(file: RawFile): Map<string, Set<string>> {
  const namesOf = new Map<string, Set<string>>();
  for (const [account, policies] of byAccount(file.policies)) {
    namesOf.set(account, new Set(policies.flatMap((policy) => textOf(policy, "name") ?? [])));
  }
  return namesOf;
}

interface UnknownName {
  readonly what: string;
  readonly section: string;
  readonly name: string;
  readonly known: ReadonlySet<string>;
  readonly account?: string | undefined;
}

function unknownName(path: ConfigPath, { what, section, name, known, account }: UnknownName): ConfigIssue {
  const within = account === undefined || account === DEFAULT_ACCOUNT ? "" : ` in the account ${quoted(account)}`;
  const nearest = nearestName(name, [...known]);
  return {
    path,
    at: "value",
    message: `there is no ${what} ${quoted(name)}${within}`,
    hint: nearest === null ? `declare it under ${section}` : `did you mean ${nearest}?`,
  };
}

function reservedPolicies(file: RawFile): ConfigIssue[] {
  return file.policies
    .filter((policy) => textOf(policy, "name") === BUILT_IN_POLICY)
    .map((policy) => ({
      path: [...policy.path, "name"],
      at: "value",
      message: `${BUILT_IN_POLICY} is the name of the built-in policy`,
      hint: "choose another name and make it the account's default_policy",
    }));
}

function customWithoutEngine(file: RawFile): ConfigIssue[] {
  return nodeShapes(file)
    .filter((node) => own(node, "custom") !== undefined && textOf(node, "engine") !== "custom")
    .map((node) => ({
      path: [...node.path, "custom"],
      at: "key",
      message: "the section custom belongs to nodes with engine: custom",
      hint: "add engine: custom or take the section out",
    }));
}

/** Its nodes may come later, so it is no error. */
function familiesWithoutNodes(file: RawFile): ConfigIssue[] {
  const nodesOf = nodesByAccount(file);
  const open = openAccounts(file, "family");
  return file.policies.flatMap((policy) => {
    if (open.has(accountOf(policy))) return [];
    const nodes = nodesOf.get(accountOf(policy)) ?? [];
    const families = new Set(nodes.flatMap((node) => textOf(node, "family") ?? []));
    return entries(policy, "accelerator_preference").flatMap((preference) => {
      const family = textOf(preference, "family");
      if (family === undefined || families.has(family)) return [];
      const nearest = nearestName(family, [...families]);
      return [
        {
          path: [...preference.path, "family"],
          at: "value" as const,
          message: `no node has the family ${quoted(family)}`,
          hint: nearest === null ? "it is skipped until a node has it" : `did you mean ${nearest}?`,
        },
      ];
    });
  });
}

/** Only when every node of the account says what it serves; otherwise a poll may still find the model. */
function modelsWithoutNodes(file: RawFile): ConfigIssue[] {
  const served = servedByAccount(file);
  return file.models.flatMap((model) => {
    const name = textOf(model, "name");
    const known = served.get(accountOf(model)) ?? new Set<string>();
    if (name === undefined || known === "open" || known.has(name)) return [];
    const nearest = nearestName(name, [...known]);
    return [
      {
        path: [...model.path, "name"],
        at: "value" as const,
        message: `no node serves the model ${quoted(name)}`,
        hint: nearest === null ? "requests for it get a 503: add it to a node's models" : `did you mean ${nearest}?`,
      },
    ];
  });
}

/** Names that the nodes of each account list; "open": one of them lists none. */
function servedByAccount(file: RawFile): Map<string, Set<string> | "open"> {
  const served = new Map<string, Set<string> | "open">();
  const open = openAccounts(file, "models");
  for (const [account, nodes] of nodesByAccount(file)) {
    const isOpen = open.has(account) || nodes.some((node) => !Array.isArray(own(node, "models")));
    served.set(account, isOpen ? "open" : new Set(nodes.flatMap((node) => servedModels(node).map((one) => one.name))));
  }
  return served;
}

/** What the entries of `nodes[].models` state to be an adapter (LoRA). */
function adapters(file: RawFile): { entry: RawEntry; base: string; account: string }[] {
  return file.nodes.flatMap((node) =>
    entries(node, "models").flatMap((entry) => {
      const base = textOf(entry, "adapter_of");
      return base === undefined ? [] : [{ entry, base, account: accountOf(node) }];
    }),
  );
}

function adaptersOfThemselves(file: RawFile): ConfigIssue[] {
  return adapters(file)
    .filter(({ entry, base }) => textOf(entry, "name") === base)
    .map(({ entry, base }) => ({
      path: [...entry.path, "adapter_of"],
      at: "value",
      message: `the model ${quoted(base)} is no adapter of itself`,
      hint: "name the model that it is loaded on, or take adapter_of out",
    }));
}

/** The base may come with another node, and is then known to lack the adapter: a slip in its name would hide that. */
function adaptersWithoutBase(file: RawFile): ConfigIssue[] {
  const served = servedByAccount(file);
  return adapters(file).flatMap(({ entry, base, account }) => {
    const known = served.get(account) ?? "open";
    if (known === "open" || known.has(base)) return [];
    const nearest = nearestName(base, [...known]);
    return [
      {
        path: [...entry.path, "adapter_of"],
        at: "value" as const,
        message: `no node serves the model ${quoted(base)} that this is an adapter of`,
        hint: nearest === null ? "name it as callers do" : `did you mean ${nearest}?`,
      },
    ];
  });
}

/** Several nodes at one address: what each takes is counted apart, so that the server gets more than its limit. */
function sharedUrls(file: RawFile, placeOf: PlaceOf): ConfigIssue[] {
  const firsts = new Map<string, RawEntry>();
  return file.nodes.flatMap((node) => {
    const url = textOf(node, "url");
    if (url === undefined || !URL.canParse(url)) return [];
    const { origin, pathname } = new URL(url);
    const identity = `${origin}${pathname.replace(/\/+$/, "")}`;
    const first = firsts.get(identity);
    if (first === undefined) {
      firsts.set(identity, node);
      return [];
    }
    return [
      {
        path: [...node.path, "url"],
        at: "value" as const,
        message: `the node at ${inWords(placeOf([...first.path, "url"]))} has the same url`,
        hint: "one server is one node: list its models in one entry",
      },
    ];
  });
}

function byAccount(list: readonly RawEntry[]): Map<string, RawEntry[]> {
  return Map.groupBy(list, accountOf);
}

/** The nodes that serve each account: its own, and those that are shared with it. */
function nodesByAccount(file: RawFile): Map<string, RawEntry[]> {
  const all = [DEFAULT_ACCOUNT, ...file.accounts.flatMap((account) => textOf(account, "name") ?? [])];
  const served = new Map<string, RawEntry[]>();
  for (const node of nodeShapes(file)) {
    const shared = textsOf(node, "shared_with").map(({ text }) => text);
    for (const account of new Set([accountOf(node), ...(shared.includes(ALL_ACCOUNTS) ? all : shared)])) {
      const nodes = served.get(account);
      if (nodes === undefined) served.set(account, [node]);
      else nodes.push(node);
    }
  }
  return served;
}

function accountOf(entry: RawEntry): string {
  return textOf(entry, "account") ?? DEFAULT_ACCOUNT;
}

function quoted(name: string): string {
  return JSON.stringify(name.length > 128 ? `${name.slice(0, 128)}…` : name);
}
