import assert from "node:assert/strict";
import { test } from "node:test";
import { TotalsLast } from "./totals-last.ts";

const names = ["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo", "duration_ms"];
const totals = names.map((name) => `ℹ ${name} 3\n`).join("");

/** What is printed when the text arrives in pieces of the given size. */
function pass(text: string, pieceSize: number, remarks: readonly string[] = []): string {
  let printed = "";
  const output = new TotalsLast((line) => {
    printed += line;
  });
  for (let at = 0; at < text.length; at += pieceSize) output.write(text.slice(at, at + pieceSize));
  output.end(remarks);
  return printed;
}

test("the totals stand after the details of what failed, and remarks between them", () => {
  for (const pieceSize of [1, 7, 10_000]) {
    const printed = pass(`✔ a\n✖ b\n${totals}\n✖ failing tests:\ndetail\n`, pieceSize, ["✖ check failed: knip"]);
    assert.equal(printed, `✔ a\n✖ b\n\n✖ failing tests:\ndetail\n✖ check failed: knip\n${totals}`);
  }
});

test("totals in colour are totals", () => {
  const coloured = totals.replaceAll(/^(.*)$/gm, (line) => (line === "" ? line : `\u001b[34m${line}\u001b[39m`));
  assert.equal(pass(`${coloured}tail\n`, 5), `tail\n${coloured}`);
});

test("a test that prints something like the totals loses nothing and hides nothing", () => {
  assert.equal(pass(`ℹ tests 9\nother\n${totals}`, 4), `ℹ tests 9\nother\n${totals}`);
  assert.equal(pass(`${totals}between\n${totals}`, 4), `between\n${totals}${totals}`);
});

test("a run that ends without totals prints everything", () => {
  assert.equal(pass("✔ a\nℹ tests 1\ncut off", 3), "✔ a\nℹ tests 1\ncut off\n");
});
