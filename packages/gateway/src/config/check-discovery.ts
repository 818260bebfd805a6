import {
  type ConfigIssue,
  SOURCE_KEYS_OF_KINDS,
  SOURCE_KINDS,
  type SourceKind,
  type SourceRules,
  type TARGET_FIELDS,
} from "@zml/protocol";
import { checkKeysOfKind } from "./keys-of-kind.ts";
import { entries, own, type RawEntry, type RawFile, section, textOf } from "./raw-file.ts";

/** The rules about sources of nodes. Duplicate names are found with the other duplicates. */
export function checkDiscovery(file: RawFile): ConfigIssue[] {
  return rawSources(file).flatMap((source) => [...checkKeys(source), ...checkAddressesOfTemplate(source)]);
}

/** The sources as far as they are mappings. */
export function rawSources(file: RawFile): RawEntry[] {
  return entries(section(file.top, "discovery"), "sources");
}

/** The templates of nodes: entries like those of `nodes`, without id and url. */
export function rawTemplates(file: RawFile): RawEntry[] {
  return rawSources(file).map((source) => section(source, "node"));
}

/** Whether its targets may name this themselves, by a label. */
export function isLabelled(source: RawEntry, field: (typeof TARGET_FIELDS)[number]): boolean {
  const labels = own(source, "labels");
  if (labels === undefined) return textOf(source, "kind") === "file_sd";
  return own(section(source, "labels"), field) !== undefined;
}

function rulesOf(source: RawEntry): (SourceRules & { readonly kind: SourceKind }) | undefined {
  const kind = textOf(source, "kind");
  if (kind === undefined || !Object.hasOwn(SOURCE_KINDS, kind)) return undefined;
  const known = kind as SourceKind;
  return { ...SOURCE_KINDS[known], kind: known };
}

/** Which keys a kind needs and takes. */
function checkKeys(source: RawEntry): ConfigIssue[] {
  const rules = rulesOf(source);
  if (rules === undefined) return [];
  const { kind } = rules;
  const issues = checkKeysOfKind(source, { ...rules, keys: SOURCE_KEYS_OF_KINDS, what: "a source" });
  const has = (key: string) => own(source, key) !== undefined;
  const wrong = (path: ConfigIssue["path"], message: string, hint: string | null = null): void => {
    issues.push({ path: [...source.path, ...path], at: path.length === 0 ? "value" : "key", message, hint });
  };
  if (kind === "dns" && textOf(source, "record") === "srv" && has("port")) {
    wrong(["port"], "SRV records name the ports themselves", "take port out");
  }
  if (kind === "dns" && textOf(source, "record") !== "srv" && !has("port")) {
    wrong([], "addresses of a name have no port: the source needs port", "or record: srv");
  }
  if (kind === "kubernetes" && has("service") === has("pod_selector")) {
    wrong([], `expected service or pod_selector, got ${has("service") ? "both" : "neither"}`);
  }
  if (kind === "kubernetes" && has("port") && has("port_name")) {
    wrong(["port_name"], "port and port_name both choose the port", "keep one of them");
  }
  if (kind === "kubernetes" && has("context") && !has("kubeconfig")) {
    wrong(["context"], "context belongs to a kubeconfig", "name the file in kubeconfig");
  }
  const isFamilyKnown = own(section(source, "node"), "family") !== undefined || isLabelled(source, "family");
  if (!isFamilyKnown) {
    const hint =
      kind === "dns" ? "name it in node.family" : "name it in node.family, or the label that holds it in labels.family";
    wrong(["node"], "nobody says the family of its nodes", hint);
  }
  return issues;
}

/** A page of one host would count for every node of the source. */
function checkAddressesOfTemplate(source: RawEntry): ConfigIssue[] {
  const template = section(source, "node");
  const addresses: [ConfigIssue["path"], string | undefined][] = [
    [[...template.path, "metrics_url"], textOf(template, "metrics_url")],
    [[...template.path, "gpu_exporter", "url"], textOf(section(template, "gpu_exporter"), "url")],
  ];
  return addresses.flatMap(([path, url]): ConfigIssue[] => {
    if (url === undefined || url.includes("{host}")) return [];
    const message = "the nodes of a source are on several hosts, and this names one";
    return [{ path, at: "value", message, hint: "write {host} for the node's own, as in http://{host}:8002/metrics" }];
  });
}
