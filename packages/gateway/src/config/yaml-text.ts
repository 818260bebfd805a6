import type { ConfigIssue, ConfigPath } from "@zml/protocol";
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type ParsedNode,
  parseDocument,
  visit,
  type YAMLError,
} from "yaml";
import { bothPlaces, type TextPlace } from "./config-problem.ts";

/** A YAML text with the place of every value. */
export interface YamlText {
  /** What the text says as plain values; `undefined` when the syntax is too broken to tell. */
  readonly value: unknown;
  readonly problems: readonly (TextPlace & ConfigIssue)[];
  /** Where a path stands; of a path that isn't there, where its nearest parent stands. */
  place(path: ConfigPath, at: ConfigIssue["at"]): TextPlace;
}

/** Sixteen thousand nodes with every key set are 12 MiB. */
const MAX_CHARACTERS = 16 * 2 ** 20;

/** Enough for one shared block in each of the 16,384 nodes, too little to make a bomb of nested aliases. */
const MAX_ALIASES = 20_000;

const START: TextPlace = { line: 1, column: 1 };

/** Parses one YAML document. Never throws. */
export function readYaml(text: string): YamlText {
  const broken = (message: string, hint: string | null, place = START): YamlText => ({
    value: undefined,
    problems: [{ ...place, path: [], at: "value", message, hint }],
    place: () => START,
  });
  if (text.length > MAX_CHARACTERS) {
    return broken(`the file has ${text.length} characters`, `at most ${MAX_CHARACTERS} are read`);
  }
  const lines = new LineCounter();
  try {
    // `uniqueKeys` is off because our own check names both lines and goes on.
    const document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      stringKeys: true,
      strict: true,
      version: "1.2",
    });
    return readDocument(document, lines);
  } catch (error) {
    if (error instanceof RangeError) return broken("the file is nested too deeply", "take some levels out");
    if (error instanceof ReferenceError) {
      // Their text may repeat the name of an anchor, which is no secret, but it speaks to programmers.
      return /alias count/i.test(error.message)
        ? broken(
            "the file uses aliases (*name) too often",
            `at most ${MAX_ALIASES} are followed, nested ones multiplied`,
          )
        : broken("an alias (*name) has no anchor (&name) before it", "name an anchor that stands above it");
    }
    return broken("the file can't be read as YAML", error instanceof Error ? withoutExcerpt(error.message) : null);
  }
}

function readDocument(document: Document.Parsed, lines: LineCounter): YamlText {
  const placeOf = (offset: number): TextPlace => {
    const { line, col } = lines.linePos(offset);
    return line === 0 ? START : { line, column: col };
  };
  const problems = syntaxProblems([...document.errors, ...document.warnings], placeOf);
  const place = (path: ConfigPath, at: ConfigIssue["at"]) => placeOf(offsetOf(document, path, at));
  if (problems.length > 0) return { value: undefined, problems, place };
  problems.push(...duplicateKeys(document, placeOf));
  return { value: document.toJS({ maxAliasCount: MAX_ALIASES }), problems, place };
}

/** One slip makes many of the parser's errors: each text once per line, and not more than anybody reads. */
function syntaxProblems(
  errors: readonly YAMLError[],
  placeOf: (offset: number) => TextPlace,
): (TextPlace & ConfigIssue)[] {
  const unique = new Map<string, TextPlace & ConfigIssue>();
  for (const error of errors) {
    const here = placeOf(error.pos[0]);
    const text = syntaxMessage(error.code, error.message);
    const key = `${here.line} ${text.message}`;
    if (!unique.has(key)) unique.set(key, { ...here, path: [], at: "value", ...text });
    if (unique.size === MAX_SYNTAX_PROBLEMS) break;
  }
  return [...unique.values()];
}

const MAX_SYNTAX_PROBLEMS = 20;

function syntaxMessage(code: string, message: string): { message: string; hint: string | null } {
  switch (code) {
    case "MULTIPLE_DOCS":
      return { message: "the file holds more than one document", hint: "take the second --- and what follows it out" };
    case "TAB_AS_INDENT":
      return { message: "a tab indents this line", hint: "indent with spaces" };
    case "BAD_ALIAS":
      return { message: "this alias has no anchor before it", hint: "name an anchor (&name) that stands above it" };
    case "NON_STRING_KEY":
      return { message: "this key is no text", hint: "keys are plain words" };
    case "TAG_RESOLVE_FAILED":
      return { message: "this tag (!name) is not known", hint: "leave tags out" };
    case "MISSING_CHAR":
      if (message.startsWith("Missing closing"))
        return { message: "a quote before this place is not closed", hint: null };
      break;
    case "BAD_SCALAR_START":
      return { message: "a plain value can't start with this character", hint: "put the value into quotes" };
  }
  // The parser gives up on a stack overflow with an error of its own.
  if (message.includes("call stack")) return { message: "the file is nested too deeply", hint: "take some levels out" };
  return { message: `this is no valid YAML: ${withoutExcerpt(message)}`, hint: null };
}

/** The parser's text without the piece of the file that it quotes: that piece may be a secret in the wrong place. */
function withoutExcerpt(message: string): string {
  const cut = message.replace(/[:\s]*["'`\n][\s\S]*$/, "");
  return cut.charAt(0).toLowerCase() + cut.slice(1);
}

function duplicateKeys(document: Document.Parsed, placeOf: (offset: number) => TextPlace): (TextPlace & ConfigIssue)[] {
  const found: (TextPlace & ConfigIssue)[] = [];
  visit(document, {
    Map(_, map, ancestors) {
      const firstPlaces = new Map<string, TextPlace>();
      for (const { key } of map.items) {
        if (!isScalar(key)) continue;
        const name = String(key.value);
        const here = placeOf(key.range?.[0] ?? 0);
        const first = firstPlaces.get(name);
        if (first === undefined) {
          firstPlaces.set(name, here);
          continue;
        }
        found.push({
          ...here,
          path: [...pathOf([...ancestors, map]), name],
          at: "key",
          message: `${bothPlaces(first.line, here.line)} set ${JSON.stringify(name.slice(0, 64))}`,
          hint: "keep one of them",
        });
      }
    },
  });
  return found;
}

/** The path of the last of a chain of nodes, each the parent of the next. */
function pathOf(chain: readonly unknown[]): (string | number)[] {
  const path: (string | number)[] = [];
  for (const [index, node] of chain.entries()) {
    const child = chain[index + 1];
    if (isSeq(node)) path.push(node.items.indexOf(child));
    else if (isMap(node)) {
      const pair = node.items.find((item) => item === child);
      if (pair !== undefined && isScalar(pair.key)) path.push(String(pair.key.value));
    }
  }
  return path;
}

/** Where in the text the path stands, as an offset. */
function offsetOf(document: Document.Parsed, path: ConfigPath, at: ConfigIssue["at"]): number {
  let node: unknown = document.contents;
  let offset = startOf(node) ?? 0;
  for (const [depth, part] of path.entries()) {
    if (isAlias(node)) node = node.resolve(document);
    const isLast = depth === path.length - 1;
    if (isSeq<ParsedNode>(node) && typeof part === "number") node = node.items[part];
    else if (isMap(node)) {
      // Of keys that stand twice, the later one counts.
      const pair = node.items.findLast(({ key }) => isScalar(key) && String(key.value) === part);
      if (pair === undefined) return offset;
      node = pair.value;
      offset = startOf(pair.key) ?? offset;
      // A value that is a block begins on a later line than the reader looks for it.
      if (isLast && (at === "key" || !isScalar(node) || node.value === null)) return offset;
    } else return offset;
    offset = startOf(node) ?? offset;
  }
  return offset;
}

function startOf(node: unknown): number | undefined {
  return isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range?.[0] : undefined;
}
