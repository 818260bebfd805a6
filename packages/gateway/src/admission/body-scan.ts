/** What a scan of a body says: what routing needs of it, or why it can't be routed. */

import type { FieldSpan, RoutingField } from "../request-body/routing-fields.ts";
import type { PromptPart } from "./prompt-marks.ts";

export type BodyRefusalCode =
  | "invalid_json"
  | "body_empty"
  | "body_not_object"
  | "missing_model"
  | "invalid_model"
  | "duplicate_field"
  | "invalid_field";

/** Why a body cannot be routed. The message holds offsets and field names, never text of the body. */
export interface BodyRefusal {
  readonly ok: false;
  readonly code: BodyRefusalCode;
  readonly message: string;
  /** Byte of the body at which it was noticed. */
  readonly offset: number;
  /** The routing field at fault, where there is one. */
  readonly field: RoutingField | null;
  /** What the field, or the byte, should have been; for a message of the caller's own. */
  readonly expected: string | null;
}

/** What routing needs to know of a body that is valid JSON. */
export interface RoutableBody {
  readonly ok: true;
  readonly model: string;
  /** False when absent or null. */
  readonly stream: boolean;
  /** Smallest positive token limit of the body; NaN when there is none (a negative one means "no limit"). */
  readonly maxTokens: number;
  /** Answers asked for; 1 when absent or null. */
  readonly n: number;
  readonly policy: string | null;
  readonly accelerator: string | null;
  /** Content parts of the prompt that are images. */
  readonly images: number;
  /** Bytes of the prompt's texts (`messages`, `input`), escapes as they stand; without base64. */
  readonly textBytes: number;
  /** Bytes of base64 in nested members: images, sound, files. */
  readonly opaqueBytes: number;
  /** The members that the prompt is made of, in their order. */
  readonly promptParts: readonly PromptPart[];
  /** Every routing field that stands in the body, in its order; nulls too. */
  readonly spans: readonly FieldSpan[];
  readonly bodyBytes: number;
}

export type BodyScan = RoutableBody | BodyRefusal;

/** A refusal. `offset`: byte of the body at which it was noticed. */
export function refusal(
  code: BodyRefusalCode,
  message: string,
  offset: number,
  field: RoutingField | null = null,
  expected: string | null = null,
): BodyRefusal {
  return { ok: false, code, message, offset, field, expected };
}
