/** The values of a body's routing fields: what each may be, and what is told where one is not. */

import type { JsonKind, RoutingField } from "../request-body/routing-fields.ts";
import { isModelName, isObjectName } from "../request-body/routing-fields.ts";
import { type BodyRefusal, type BodyRefusalCode, refusal } from "./body-scan.ts";

/** Answers that a body may ask for (`n`). OpenAI's bound is 128; what goes far beyond is a mistake, or an attack. */
const ANSWERS_MAX = 1024;

export class RoutingValues {
  readonly #checkHints: boolean;
  model: string | null = null;
  stream = false;
  maxTokens = Number.NaN;
  n = 1;
  policy: string | null = null;
  accelerator: string | null = null;
  /** The first thing that was wrong. */
  issue: BodyRefusal | null = null;

  constructor(checkHints: boolean) {
    this.#checkHints = checkHints;
  }

  /**
   * Takes a member whose key is a routing field's.
   *
   * @param text of a string or a number, as it is meant; null: of another kind, or longer than any field's may be.
   * @param keyStart first byte of its key.
   * @param isRepeated it stood in the body before.
   */
  read(field: RoutingField, kind: JsonKind, text: string | null, keyStart: number, isRepeated: boolean): void {
    const isHint = field === "policy" || field === "accelerator";
    const isChecked = !isHint || this.#checkHints;
    if (isChecked && isRepeated) {
      return this.#refuse(
        "duplicate_field",
        field,
        keyStart,
        `"${field}" stands more than once in the body; send it once`,
      );
    }
    if (kind === "null" && field !== "model") {
      if (isHint) this[field] = null;
      return;
    }
    switch (field) {
      case "model":
        this.model = kind === "string" ? text : null;
        if (this.model === null || !isModelName(this.model)) {
          this.#refuse(
            "invalid_model",
            field,
            keyStart,
            '"model" must be a string of 1 to 256 bytes without control characters',
          );
        }
        return;
      case "stream":
        this.stream = kind === "true";
        if (kind !== "true" && kind !== "false") this.#refuseValue(field, keyStart, "true or false");
        return;
      case "policy":
      case "accelerator": {
        const name = kind === "string" && text !== null && isObjectName(text) ? text : null;
        if (name === null && this.#checkHints) return this.#refuseValue(field, keyStart, "a string of 1 to 128 bytes");
        this[field] = name;
        return;
      }
      default: {
        const value = kind === "number" && text !== null ? Number(text) : Number.NaN;
        if (!Number.isSafeInteger(value)) return this.#refuseValue(field, keyStart, "an integer");
        if (field === "n") {
          if (value < 1 || value > ANSWERS_MAX)
            return this.#refuseValue(field, keyStart, `an integer from 1 to ${ANSWERS_MAX}`);
          this.n = value;
        } else if (value > 0 && !(value >= this.maxTokens)) {
          // 0 and negative limits mean different things to different engines: the node says what it makes of them.
          this.maxTokens = value;
        }
      }
    }
  }

  #refuse(code: BodyRefusalCode, field: RoutingField, keyStart: number, message: string): void {
    this.issue ??= refusal(code, message, keyStart, field);
  }

  #refuseValue(field: RoutingField, keyStart: number, expected: string): void {
    this.issue ??= refusal("invalid_field", `"${field}" must be ${expected}`, keyStart, field, expected);
  }
}
