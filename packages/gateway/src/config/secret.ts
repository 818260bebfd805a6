import { inspect } from "node:util";

const REDACTED = "[secret]";

/**
 * A value that must not reach a log, an error text or a wire by accident: every automatic conversion shows a
 * placeholder, and copying it to another thread loses it. `reveal()` is the one way to the value, easy to search for.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself. Hand it to what needs it; keep it in no field. */
  reveal(): string {
    return this.#value;
  }

  /** Whether both hold the same value. For configuration checks, not for callers' keys: the time depends on the value. */
  equals(other: Secret): boolean {
    return this.#value === other.#value;
  }

  toString(): string {
    return REDACTED;
  }

  toJSON(): string {
    return REDACTED;
  }

  [Symbol.toPrimitive](): string {
    return REDACTED;
  }

  [inspect.custom](): string {
    return REDACTED;
  }
}
