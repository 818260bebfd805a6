import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreFault } from "../../store/store-fault.ts";
import { refuseStore } from "./refusals.ts";

test("of a store that is late it is not said that nothing was changed: it may do it yet", () => {
  const hintOf = (kind: "timeout" | "disk_full") => refuseStore(new StoreFault(kind, "x")).problems[0]?.hint;
  assert.equal(hintOf("timeout"), "it may be kept all the same: read it before you try again; traffic runs on");
  assert.equal(hintOf("disk_full"), "nothing was changed; traffic runs on");
});
