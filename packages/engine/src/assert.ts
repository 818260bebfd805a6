/** Throws when an invariant of the engine does not hold. Stays on in production: a wrong count must not travel on. */
export function assert(condition: boolean, claim: string): asserts condition {
  if (!condition) throw new Error(`engine invariant broken: ${claim}`);
}

/** Ends a `switch` over a closed list: a new member does not compile until it is handled. */
export function unreachable(value: never): never {
  throw new Error(`engine reached a value outside its closed list: ${String(value)}`);
}
