/** Expected values of vectors against what came: `conformance/README.md`, "Values". */

type Json = Readonly<Record<string, unknown>>;

const MATCHERS = ["$match", "$any", "$absent", "$between"] as const;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isMatcher(value: unknown): value is Json {
  return isObject(value) && MATCHERS.some((name) => Object.hasOwn(value, name));
}

/**
 * Where a value differs from what was expected, as `path: expected …, got …`; null where it does not. All members of an
 * object count, also those that were not expected.
 */
export function mismatch(expected: unknown, actual: unknown, path = "$"): string | null {
  const differs = `${path}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual) ?? "nothing"}`;
  if (isMatcher(expected)) return matches(expected, actual) ? null : differs;
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length) return differs;
    return firstOf(expected.map((each, index) => mismatch(each, actual[index], `${path}[${index}]`)));
  }
  if (isObject(expected)) {
    if (!isObject(actual)) return differs;
    const names = new Set([...Object.keys(expected), ...Object.keys(actual)]);
    return firstOf([...names].map((name) => memberMismatch(expected, actual, name, path)));
  }
  return Object.is(actual, expected) ? null : differs;
}

function memberMismatch(expected: Json, actual: Json, name: string, path: string): string | null {
  if (!Object.hasOwn(expected, name)) return `${path}.${name}: not expected, got ${JSON.stringify(actual[name])}`;
  return mismatch(expected[name], Object.hasOwn(actual, name) ? actual[name] : undefined, `${path}.${name}`);
}

function matches(matcher: Json, actual: unknown): boolean {
  const { $match, $between } = matcher;
  if (Object.hasOwn(matcher, "$absent")) return actual === undefined;
  if (Object.hasOwn(matcher, "$any")) return actual !== undefined;
  if (typeof $match === "string") return typeof actual === "string" && new RegExp($match).test(actual);
  const [least, most] = $between as [number, number];
  return typeof actual === "number" && actual >= least && actual <= most;
}

function firstOf(problems: readonly (string | null)[]): string | null {
  return problems.find((problem) => problem !== null) ?? null;
}

/** The value with the `example` of every matcher in its place; members that are to be absent are left out. */
export function exampleOf(value: unknown): unknown {
  if (isMatcher(value)) return value["example"];
  if (Array.isArray(value)) return value.map(exampleOf);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, each]) => {
      const example = exampleOf(each);
      return example === undefined ? [] : [[name, example]];
    }),
  );
}

/** Every matcher in a value, with its path. */
export function matchersIn(value: unknown, path = "$"): { path: string; matcher: Json }[] {
  if (isMatcher(value)) return [{ path, matcher: value }];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => matchersIn(each, `${path}.${name}`));
}
