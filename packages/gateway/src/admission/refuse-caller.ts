/** What a caller is told whose key does not open the door. */

import { ERRORS, type ErrorCode } from "@zml/protocol/errors";
import type { Caller } from "./authenticate.ts";

/** Code and text. */
export function refusalOf(caller: Exclude<Caller, { kind: "known" }>): { code: ErrorCode; message: string } {
  switch (caller.kind) {
    case "missing":
      return { code: "missing_api_key", message: ERRORS.missing_api_key.message() };
    case "invalid":
      return { code: "invalid_api_key", message: ERRORS.invalid_api_key.message({ fault: caller.fault }) };
    case "expired":
      return { code: "expired_api_key", message: ERRORS.expired_api_key.message(caller) };
    case "forbidden":
      return { code: "key_scope", message: ERRORS.key_scope.message({ key: caller.key, scope: "infer" }) };
  }
}
