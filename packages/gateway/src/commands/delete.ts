/** `zml delete`: takes one object that the API made away. */

import { tellUnacknowledged } from "./apply.ts";
import { askAdmin, tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import { findObject, type ObjectsOptions } from "./get.ts";
import { OBJECT_KINDS, type ObjectKind, objectTitle } from "./object-kinds.ts";
import type { Terminal } from "./terminal.ts";

export interface DeleteOptions extends ObjectsOptions {
  readonly kind: ObjectKind;
  readonly name: string;
  readonly json: boolean;
}

/** Deletes the object as it is found, and not one that somebody changes meanwhile. @returns the exit code. */
export async function deleteObject(terminal: Terminal, options: DeleteOptions): Promise<number> {
  const found = await findObject(terminal, options);
  if ("problem" in found) return tellProblem(terminal, found);
  const { object, etag } = found;
  const answer = await askAdmin(terminal, options, {
    method: "DELETE",
    path: `/admin/v1/${OBJECT_KINDS[options.kind].collection}/${encodeURIComponent(options.name)}`,
    query: object.account === "" ? {} : { account: object.account },
    ...(etag !== null && { ifMatch: etag }),
    members: ["version"],
  });
  if ("problem" in answer) return tellProblem(terminal, answer);
  const written = answer.value as { readonly version: number; readonly is_acknowledged: boolean };
  terminal.out(options.json ? answer.text : `deleted ${objectTitle(object)} (version ${written.version})\n`);
  tellUnacknowledged(terminal, written);
  return EXIT.ok;
}
