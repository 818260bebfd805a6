/** What another file would change, object by object, with nothing put in force. */

import { isDeepStrictEqual } from "node:util";
import { problemAt } from "../../config/config-problem.ts";
import { diffConfig } from "../../config/diff-config.ts";
import type { ReadConfigResult } from "../../config/read-config.ts";
import { type Configuration, type DraftProblem, isReadFile } from "../configuration.ts";
import { fieldChanges } from "./field-changes.ts";
import type { FileDiff, ObjectChange, ObjectKey, Spec } from "./managed-objects.ts";
import { actionOf } from "./object-changes.ts";
import { allObjectsOf, type FileValues, keyText, objectWords, specOf } from "./object-lists.ts";

export function fileDiff(read: ReadConfigResult, configuration: Configuration): FileDiff {
  const { errors, warnings } = read;
  const nothing = { errors, warnings, needsRestart: [], sections: [], changes: [] };
  if (!isReadFile(read)) return nothing;
  const { inForce } = configuration;
  const drafted = configuration.draft({ read });
  if ("problems" in drafted) {
    const { source } = read;
    const ofFile = drafted.problems.flatMap(({ place, issue }) => (place.owner === "file" ? [issue] : []));
    const others = drafted.problems.flatMap((problem) => ofObject(problem, source.fileName));
    return { ...nothing, errors: [...source.locate(ofFile), ...others] };
  }
  const { needsRestart, sections } = diffConfig(inForce.config, drafted.draft.config);
  const changes = fileChanges(inForce.source.value, read.source.value).map(({ before, after, key }): ObjectChange => {
    return { ...key, action: actionOf({ before, after }), fields: fieldChanges(before, after) };
  });
  return { errors, warnings, needsRestart, sections, changes };
}

/** An object of the API that would be wrong has no line. */
function ofObject({ place, issue }: DraftProblem, fileName: string) {
  if (place.owner === "file") return [];
  const message = `the ${objectWords(place.key)} of the API: ${issue.message}`;
  return [problemAt(fileName, { line: 1, column: 1 }, { ...issue, path: place.path, message })];
}

/** An object of the file, before and after. Null: it is not there. */
export interface FileChange {
  readonly key: ObjectKey;
  readonly before: Spec | null;
  readonly after: Spec | null;
}

/** The objects that differ between two files. */
export function fileChanges(before: FileValues, after: FileValues): FileChange[] {
  const old = new Map(allObjectsOf(before).map((object) => [keyText(object.key), object]));
  const changes: FileChange[] = [];
  for (const { key, entry } of allObjectsOf(after)) {
    const text = keyText(key);
    const twin = old.get(text);
    old.delete(text);
    if (twin !== undefined && isDeepStrictEqual(twin.entry, entry)) continue;
    const spec = specOf(key.kind, entry);
    changes.push({ key, before: twin === undefined ? null : specOf(key.kind, twin.entry), after: spec });
  }
  const gone = [...old.values()].map(({ key, entry }) => ({ key, before: specOf(key.kind, entry), after: null }));
  return [...changes, ...gone];
}
