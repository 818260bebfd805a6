// What the layers check needs to know of one module: what it imports and which globals it names. Read from the syntax
// tree, so that comments and strings never count.
import { parseAst } from "rolldown/parseAst";

/** One import, export-from or import type; `isLazy` marks `import(…)` used as an expression. */
export interface ImportFact {
  readonly specifier: string;
  readonly line: number;
  readonly isLazy: boolean;
  readonly isTypeOnly: boolean;
}

/** One use of a name that is no property: `process.env`, `Promise`, `new Date`, `await`, `async`. */
export interface NameFact {
  readonly name: string;
  readonly line: number;
}

export interface ModuleFacts {
  readonly imports: readonly ImportFact[];
  readonly names: readonly NameFact[];
}

interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly [key: string]: unknown;
}

/** Throws what the parser says if the source is no TypeScript. Only a `.tsx` may hold JSX. */
export function readModuleFacts(source: string, file: string): ModuleFacts {
  const imports: ImportFact[] = [];
  const names: NameFact[] = [];
  const lineAt = lineCounter(source);

  const visit = (node: SyntaxNode): void => {
    const line = lineAt(node.start);
    const specifier = importedSpecifier(node);
    if (specifier !== undefined) {
      const isTypeOnly = node.type === "TSImportType" || hasOnlyTypes(node);
      imports.push({ specifier, line, isLazy: node.type === "ImportExpression", isTypeOnly });
    }
    for (const name of namesOf(node)) names.push({ name, line });
    for (const [key, value] of Object.entries(node)) {
      if (isPropertyName(node, key)) continue;
      for (const item of Array.isArray(value) ? value : [value]) if (isNode(item)) visit(item);
    }
  };
  const tree: unknown = parseAst(source, { lang: file.endsWith(".tsx") ? "tsx" : "ts" });
  if (isNode(tree)) visit(tree);
  return { imports, names };
}

function importedSpecifier(node: SyntaxNode): string | undefined {
  return /Import|Export/.test(node.type) ? literalOf(node["source"]) : undefined;
}

function namesOf(node: SyntaxNode): string[] {
  const names: string[] = [];
  if (node["async"] === true) names.push("async");
  if (node.type === "AwaitExpression") names.push("await");
  if (node.type === "NewExpression" && dottedName(node["callee"]) === "Date") {
    // `new Date(ms)` is arithmetic, `new Date()` reads the clock.
    if (Array.isArray(node["arguments"]) && node["arguments"].length === 0) names.push("new Date()");
  }
  const name = dottedName(node);
  if (name !== undefined) names.push(name);
  return names;
}

function hasOnlyTypes(node: SyntaxNode): boolean {
  if (node["importKind"] === "type" || node["exportKind"] === "type") return true;
  const specifiers = node["specifiers"];
  if (!Array.isArray(specifiers) || specifiers.length === 0) return false;
  return specifiers.every((item) => isNode(item) && (item["importKind"] === "type" || item["exportKind"] === "type"));
}

/** `a`, `a.b`, `a["b"]`, without a leading `globalThis`; undefined for anything else. */
function dottedName(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value.type === "Identifier") return String(value["name"]);
  if (value.type !== "MemberExpression") return undefined;
  const owner = dottedName(value["object"]);
  const property = value["property"];
  const key = value["computed"] === true ? literalOf(property) : isNode(property) ? property["name"] : undefined;
  if (owner === undefined || typeof key !== "string") return undefined;
  return owner === "globalThis" ? key : `${owner}.${key}`;
}

function isPropertyName(node: SyntaxNode, key: string): boolean {
  if (node["computed"] === true) return false;
  return (key === "property" && node.type === "MemberExpression") || (key === "key" && node["shorthand"] !== true);
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

function literalOf(value: unknown): string | undefined {
  return isNode(value) && value.type === "Literal" && typeof value["value"] === "string" ? value["value"] : undefined;
}

function lineCounter(source: string): (offset: number) => number {
  const starts = [0];
  for (let at = source.indexOf("\n"); at !== -1; at = source.indexOf("\n", at + 1)) starts.push(at + 1);
  return (offset) => starts.findLastIndex((start) => start <= offset) + 1;
}
