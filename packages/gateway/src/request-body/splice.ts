import { strict as assert } from "node:assert";
import type { FieldSpan } from "./routing-fields.ts";

/** A change to one member of the top-level object. */
export type BodyEdit =
  /** Puts `json` (valid JSON text, e.g. `JSON.stringify(name)`) where the member's value stands. */
  | { readonly kind: "replace_value"; readonly span: FieldSpan; readonly json: string }
  /** Takes the member out, with one comma where there is one. */
  | { readonly kind: "cut_member"; readonly span: FieldSpan };

interface Patch {
  readonly start: number;
  readonly end: number;
  readonly bytes: Buffer | null;
}

/**
 * The body with these edits and every other byte as it was, white space included. The spans are those that the scanner
 * gave for exactly this body; a member may be edited once. Nothing is copied: the result shares memory with `chunks`.
 * Without edits the result is `chunks` itself.
 */
export function spliceBody(chunks: readonly Buffer[], edits: readonly BodyEdit[]): readonly Buffer[] {
  if (edits.length === 0) return chunks;
  const patches = patchesOf(edits);
  const result: Buffer[] = [];
  let chunkStart = 0;
  let position = 0;
  let next = 0;
  for (const chunk of chunks) {
    const chunkEnd = chunkStart + chunk.length;
    while (position < chunkEnd) {
      const patch = patches[next];
      const keepUntil = patch === undefined ? chunkEnd : Math.min(patch.start, chunkEnd);
      if (keepUntil > position) result.push(chunk.subarray(position - chunkStart, keepUntil - chunkStart));
      position = Math.max(position, keepUntil);
      if (patch === undefined || patch.start >= chunkEnd) break;
      // A patch that spans chunks is written where it starts and skipped until it ends.
      if (patch.bytes !== null && patch.start >= chunkStart) result.push(patch.bytes);
      position = Math.min(patch.end, chunkEnd);
      if (patch.end > chunkEnd) break;
      next++;
    }
    chunkStart = chunkEnd;
  }
  assert(next === patches.length, "an edit lies outside of the body");
  return result;
}

/** The edits as byte ranges, in order, none touching another's bytes. */
function patchesOf(edits: readonly BodyEdit[]): Patch[] {
  const ordered = edits.toSorted((a, b) => a.span.memberIndex - b.span.memberIndex);
  const patches: Patch[] = [];
  // Members cut from the front take the comma after them, all others the comma before: so what is left neither
  // begins nor ends with a comma, whichever members go.
  let leadingCuts = 0;
  let position = 0;
  for (const edit of ordered) {
    const { span } = edit;
    let patch: Patch;
    if (edit.kind === "replace_value") {
      patch = { start: span.valueStart, end: span.valueEnd, bytes: Buffer.from(edit.json) };
    } else if (span.memberIndex === leadingCuts) {
      leadingCuts++;
      patch = { start: span.keyStart, end: span.commaAfter < 0 ? span.valueEnd : span.commaAfter + 1, bytes: null };
    } else {
      patch = { start: span.commaBefore, end: span.valueEnd, bytes: null };
    }
    assert(patch.start >= position, "a member is edited twice");
    position = patch.end;
    patches.push(patch);
  }
  return patches;
}
