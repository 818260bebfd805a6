/** The whole configuration as the text of a file that says the same. */

import { OBJECT_KINDS, type ObjectKind } from "@zml/protocol";
import { Document } from "yaml";
import type { Draft } from "../configuration.ts";
import { entryOf, type FileValues, listOf, withLists } from "./object-lists.ts";

/**
 * What the file says and what the API made beside it, in one file. Keys that the gateway made are in it as comments: only
 * their digests are known. O(objects): 10,000 nodes take a second.
 */
export function exportYaml({ source, api }: Pick<Draft, "source" | "api">): string {
  const lists = new Map<ObjectKind, readonly unknown[]>();
  for (const kind of OBJECT_KINDS) {
    const made = [...api.values()].filter(({ key }) => key.kind === kind && kind !== "key");
    if (made.length === 0) continue;
    lists.set(kind, [...listOf(source.value, kind), ...made.map(({ key, spec }) => entryOf(key, spec))]);
  }
  const values: FileValues = withLists(source.value, lists);
  const document = new Document(values, { aliasDuplicateObjects: false });
  const keys = [...api.values()].filter(({ key }) => key.kind === "key");
  if (keys.length > 0) {
    const lines = keys.map(({ key, spec }) => ` ${JSON.stringify(entryOf(key, spec))}`);
    document.comment = [" keys that the gateway made; their values are in no file:", ...lines].join("\n");
  }
  return document.toString({ lineWidth: 0 });
}
