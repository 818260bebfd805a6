/** Why a change of objects is refused, in words. Pure. */

import { type ConfigIssue, type ConfigPath, DEFAULT_ACCOUNT, formatPath } from "@zml/protocol";
import { type ConfigProblem, formatProblems } from "../../config/config-problem.ts";
import type { ConfigSource } from "../../config/read-config.ts";
import type { StoreFault } from "../../store/store-fault.ts";
import type { DraftProblem } from "../configuration.ts";
import type {
  ManagedObject,
  ObjectKey,
  WriteCondition,
  WriteProblem,
  WriteRefusal,
  WriteRefusalCode,
} from "./managed-objects.ts";
import { keyText, nameField, objectsOf, objectWords } from "./object-lists.ts";

export function refusal(code: WriteRefusalCode, message: string, hint: string | null = null): WriteRefusal {
  return { kind: "refused", code, problems: [{ path: [], message, hint }] };
}

/** How other accounts hear of the file: where it is, is the operator's. */
const THE_FILE = "the configuration file";

/** The file as somebody of this account may know it. */
export function sourceFor(account: string, source: ConfigSource): ConfigSource {
  if (account === DEFAULT_ACCOUNT) return source;
  const locate = (issues: readonly ConfigIssue[]) =>
    source.locate(issues).map((problem) => ({ ...problem, file: THE_FILE }));
  return { ...source, fileName: THE_FILE, locate };
}

/** The refusal of a write to what somebody else owns, with the line of the file; null: it is the API's, or nobody's. */
export function refuseOthers(key: ObjectKey, current: ManagedObject | null, source: ConfigSource): WriteRefusal | null {
  switch (current?.owner) {
    case "file": {
      const hint = "change it there; the file is read again by itself";
      return refusal("owned_by_file", `the ${objectWords(key)} is declared in ${lineOf(key, source)}`, hint);
    }
    case "discovery": {
      const hint = "change the source's template, or the source";
      return refusal("owned_by_discovery", `the ${objectWords(key)} was found by a source of nodes`, hint);
    }
    default:
      return null;
  }
}

/** `zml.yaml:12`: where the file declares an object. */
function lineOf(key: ObjectKey, source: ConfigSource): string {
  const listed = objectsOf(source.value, key.kind).find((one) => keyText(one.key) === keyText(key));
  // a line is for those who can open the file
  if (listed === undefined || source.fileName === THE_FILE) return source.fileName;
  const [place] = source.locate([
    { path: [...listed.path, nameField(key.kind)], at: "value", message: "", hint: null },
  ]);
  return place === undefined ? source.fileName : `${source.fileName}:${place.line}`;
}

/** The refusal of a write whose condition does not hold; null: it holds. */
export function refuseCondition(
  key: ObjectKey,
  current: ManagedObject | null,
  { ifMatch, ifNoneMatch }: WriteCondition,
): WriteRefusal | null {
  const failed = (message: string) => refusal("precondition_failed", message, "read it again, then change it");
  if (ifNoneMatch !== null && current !== null) return failed(`the ${objectWords(key)} is there already`);
  if (ifMatch === null) return null;
  if (current === null) return failed(`there is no ${objectWords(key)}`);
  if (ifMatch === "*" || ifMatch.includes(current.revision)) return null;
  return failed(`the ${objectWords(key)} was changed since: its revision is ${current.revision}`);
}

/** The store can't keep it, so that it is not put in force either. One that is only late may still keep it. */
export function refuseStore(fault: StoreFault): WriteRefusal {
  const isLate = fault.kind === "timeout";
  const hint = isLate ? "it may be kept all the same: read it before you try again" : "nothing was changed";
  return refusal("store_unavailable", fault.message, `${hint}; traffic runs on`);
}

/** What is wrong with a draft, for whoever wrote `key`: problems of other objects are told with their place. */
export function problemsFor(key: ObjectKey, problems: readonly DraftProblem[], source: ConfigSource): WriteProblem[] {
  const own = problems.flatMap(({ place, issue }) =>
    place.owner === "api" && keyText(place.key) === keyText(key)
      ? [{ path: place.path, message: issue.message, hint: issue.hint }]
      : [],
  );
  if (own.length > 0) return own;
  return problemWords(problems, source).map((message) => ({ path: [], message, hint: null }));
}

/** What is wrong with a draft, for whoever gave a part of a file: problems of others are told with their place. */
export function problemsIn(
  pathOf: ReadonlyMap<string, ConfigPath>,
  problems: readonly DraftProblem[],
  source: ConfigSource,
): WriteProblem[] {
  const others: DraftProblem[] = [];
  const own = problems.flatMap((problem): WriteProblem[] => {
    const { place, issue } = problem;
    const path = place.owner === "api" ? pathOf.get(keyText(place.key)) : undefined;
    if (path !== undefined) return [{ path: [...path, ...place.path], message: issue.message, hint: issue.hint }];
    others.push(problem);
    return [];
  });
  return [...own, ...problemWords(others, source).map((message) => ({ path: [], message, hint: null }))];
}

/** Others name what is to go. */
export function inUse(key: ObjectKey, problems: readonly DraftProblem[], source: ConfigSource): WriteRefusal {
  const hint = "change what names it first";
  const users = problemWords(problems, source).map((message) => ({
    ...{ path: [], hint },
    message: `the ${objectWords(key)} is in use: ${message}`,
  }));
  return { kind: "refused", code: "in_use", problems: users };
}

/** Each problem as one line, with its place. */
export function problemWords(problems: readonly DraftProblem[], source: ConfigSource): string[] {
  const ofFile: ConfigIssue[] = problems.flatMap(({ place, issue }) => (place.owner === "file" ? [issue] : []));
  const located: readonly ConfigProblem[] = ofFile.length === 0 ? [] : source.locate(ofFile);
  return [
    ...located.map((problem) => formatProblems([problem])),
    ...problems.flatMap(({ place, issue }) =>
      place.owner === "api"
        ? [`${objectWords(place.key)} (of the API)${pathWords(formatPath(place.path))}: ${hinted(issue)}`]
        : [],
    ),
  ];
}

function pathWords(path: string): string {
  return path === "" ? "" : `, ${path}`;
}

function hinted({ message, hint }: ConfigIssue): string {
  return hint === null ? message : `${message}: ${hint}`;
}
