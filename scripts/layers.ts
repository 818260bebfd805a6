// The rules of layers.json, applied to one file.
import { isBuiltin } from "node:module";
import { posix } from "node:path";
import { type ImportFact, type ModuleFacts, readModuleFacts } from "./module-facts.ts";

/** The shape of layers.json. Paths are relative to its folder, with `/`; the first area whose path holds a file rules it. */
export interface Law {
  /** Parts of paths that are free: tests and the like may import all. */
  readonly free: readonly string[];
  readonly areas: readonly Area[];
  readonly steps: {
    /** The five words; a folder of such a name under one of `roots` is a step. */
    readonly words: readonly string[];
    readonly roots: readonly string[];
    /** Files that own the order of the steps; a step never imports them. */
    readonly parents: readonly string[];
  };
  readonly names: readonly NameRule[];
}

interface Area {
  readonly path: string;
  /** Workspace specifiers; `@zml/engine/reasons` does not allow `@zml/engine`, `@zml/engine` allows what is below it. */
  readonly workspace: readonly string[];
  /** Workspace specifiers that only `import(…)` or a type may name. */
  readonly lazy?: readonly string[];
  /** npm packages, `node:` for Node's own modules, `*` for all of both. */
  readonly external: readonly string[];
  /** True: the files that are imported by relative path are held to this area's law as well. */
  readonly transitive?: boolean;
}

interface NameRule {
  readonly path: string;
  readonly except: readonly string[];
  readonly names: readonly string[];
  readonly rule: string;
}

export interface Breach {
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  readonly message: string;
}

interface FileContext {
  readonly law: Law;
  /** Relative to the root, with `/`. */
  readonly file: string;
  /** Undefined if there is no such file. */
  readonly readSource: (file: string) => string | undefined;
}

/** Every breach of the law in one file; none for files that are free or in no area. */
export function checkFile(context: FileContext): Breach[] {
  const { law, file } = context;
  if (law.free.some((part) => file.includes(part))) return [];
  const facts = readModuleFacts(context.readSource(file) ?? "", file);
  return [...checkImports(context, facts), ...checkNames(context, facts)];
}

function checkImports({ law, file, readSource }: FileContext, facts: ModuleFacts): Breach[] {
  const area = law.areas.find(({ path }) => isBelow(file, path));
  if (area === undefined) return [{ file, line: 1, message: "is in no area of layers.json; add one" }];
  const breaches: Breach[] = [];
  for (const fact of facts.imports) {
    const report = (message: string) => breaches.push({ file, line: fact.line, message });
    if (!fact.specifier.startsWith(".")) {
      const message = judgeBare(area, fact);
      if (message !== undefined) report(message);
      continue;
    }
    const target = posix.join(posix.dirname(file), fact.specifier);
    if (packageOf(target) !== packageOf(file)) report(`imports ${target} by path; other packages are imported by name`);
    const message = judgeStep(law, file, target);
    if (message !== undefined) report(message);
    if (area.transitive !== true || fact.isTypeOnly) continue;
    const found = findBareBehind({ area, file: target, readSource, seen: new Set([file]) });
    if (found !== undefined) report(`leads to ${found.chain.join(" → ")}, which ${found.message}`);
  }
  return breaches;
}

function judgeBare(area: Area, fact: ImportFact): string | undefined {
  const { specifier } = fact;
  const isWorkspace = specifier.startsWith("@zml/") || specifier === "zml" || specifier.startsWith("zml/");
  if (!isWorkspace) {
    const name = isBuiltin(specifier) ? "node:" : packageName(specifier);
    if (area.external.includes("*") || area.external.includes(name)) return undefined;
    const allowed = area.external.length === 0 ? "no package and no Node module" : `only ${area.external.join(", ")}`;
    return `imports ${specifier}; ${area.path} may import ${allowed}`;
  }
  const matches = (allowed: string) => specifier === allowed || specifier.startsWith(`${allowed}/`);
  if (area.workspace.some(matches)) return undefined;
  if (area.lazy?.some(matches) === true) {
    return fact.isLazy || fact.isTypeOnly ? undefined : `imports ${specifier} at start; ${area.path} loads it on use`;
  }
  const allowed = area.workspace.length === 0 ? "no other package" : `only ${area.workspace.join(", ")}`;
  return `imports ${specifier}; ${area.path} may import ${allowed}`;
}

function judgeStep(law: Law, file: string, target: string): string | undefined {
  const step = stepOf(law, file);
  if (step === undefined) return undefined;
  if (law.steps.parents.includes(target)) return `step ${step} imports ${target}, which owns the order of the steps`;
  const other = stepOf(law, target);
  if (other === undefined || other === step) return undefined;
  return `step ${step} imports step ${other}; what both need belongs beside the steps`;
}

function stepOf(law: Law, file: string): string | undefined {
  const root = law.steps.roots.find((path) => isBelow(file, path));
  const folder = root === undefined ? undefined : file.slice(root.length + 1).split("/")[0];
  return folder !== undefined && law.steps.words.includes(folder) ? folder : undefined;
}

function findBareBehind(search: {
  readonly area: Area;
  readonly file: string;
  readonly readSource: (file: string) => string | undefined;
  readonly seen: Set<string>;
}): { chain: string[]; message: string } | undefined {
  const { area, file, readSource, seen } = search;
  if (seen.has(file)) return undefined;
  seen.add(file);
  const source = readSource(file);
  if (source === undefined) return undefined;
  for (const fact of readModuleFacts(source, file).imports) {
    if (fact.isTypeOnly) continue;
    if (!fact.specifier.startsWith(".")) {
      const message = judgeBare(area, fact);
      if (message !== undefined) return { chain: [file], message };
      continue;
    }
    const behind = findBareBehind({ ...search, file: posix.join(posix.dirname(file), fact.specifier) });
    if (behind !== undefined) return { chain: [file, ...behind.chain], message: behind.message };
  }
  return undefined;
}

function checkNames({ law, file }: FileContext, facts: ModuleFacts): Breach[] {
  const breaches: Breach[] = [];
  for (const { path, except, names, rule } of law.names) {
    if (!isBelow(file, path) || except.some((free) => isBelow(file, free))) continue;
    for (const fact of facts.names) {
      if (names.includes(fact.name)) breaches.push({ file, line: fact.line, message: `uses ${fact.name}; ${rule}` });
    }
    for (const fact of facts.imports) {
      // `import { env } from "node:process"` is the same thing under another name.
      if (names.some((name) => name.startsWith("process.")) && /^(node:)?process$/.test(fact.specifier)) {
        breaches.push({ file, line: fact.line, message: `imports ${fact.specifier}; ${rule}` });
      }
    }
  }
  return breaches;
}

function isBelow(file: string, path: string): boolean {
  return file === path || file.startsWith(`${path}/`);
}

function packageOf(file: string): string {
  return file.split("/").slice(0, 2).join("/");
}

function packageName(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
