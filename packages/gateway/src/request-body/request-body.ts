/** A request's body between admission, which read it, and dispatch, which sends it. */

import type { FieldSpan } from "./routing-fields.ts";

export interface RequestBody {
  /** The decoded bytes, as they are to be sent on. */
  readonly chunks: readonly Buffer[];
  readonly scan: {
    /** Every routing field that stands in the body, in its order. */
    readonly spans: readonly FieldSpan[];
  };
}
