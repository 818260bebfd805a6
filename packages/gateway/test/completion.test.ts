/** The completion of shells, in the shells that are here. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");

function script(shell: string): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [zml, "completion", shell], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return stdout;
}

/** What bash offers for the last word of a line. */
function offered(source: string, words: readonly string[]): string[] {
  const line = words.map((word) => `'${word}'`).join(" ");
  const probe = `${source}\nCOMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _zml; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync("bash", ["--norc", "-c", probe], { encoding: "utf8", cwd: "/" });
  assert.equal(status, 0, stderr);
  return stdout.split("\n").filter((word) => word !== "");
}

test("bash completes commands, subcommands, options, and what an argument or an option may say", (t) => {
  if (spawnSync("bash", ["--version"]).status !== 0) return t.skip("there is no bash here");
  const source = script("bash");
  assert.deepEqual(offered(source, ["zml", "dr"]), ["drain"]);
  assert.deepEqual(offered(source, ["zml", "keys", "c"]), ["create"]);
  assert.deepEqual(offered(source, ["zml", "get", "p"]), ["policies", "price-feeds"]);
  assert.deepEqual(offered(source, ["zml", "get", "policies", "--ow"]), ["--owner"]);
  assert.deepEqual(offered(source, ["zml", "get", "policies", "--owner", ""]), ["file", "api", "discovery"]);
  assert.deepEqual(offered(source, ["zml", "keys", "create", "app", "--sc"]), ["--scope"]);
  assert.ok(offered(source, ["zml", "serve", "-c", "t"]).includes("tmp"), "files of the folder");
});

test("the scripts for zsh and fish name the command, and those shells read them where they are installed", () => {
  assert.match(script("zsh"), /^#compdef zml\n[\s\S]*\ncomplete -F _zml zml\n$/);
  const fish = script("fish");
  assert.match(fish, /^complete -c zml -n '__fish_seen_subcommand_from get' -a 'accounts nodes /m);
  assert.match(
    fish,
    /^complete -c zml -n '__fish_seen_subcommand_from keys; and __fish_seen_subcommand_from create' -l scope /m,
  );
  for (const shell of ["zsh", "fish"]) {
    if (spawnSync(shell, ["--version"]).status !== 0) continue;
    const { status, stderr } = spawnSync(shell, ["-n"], { input: script(shell), encoding: "utf8" });
    assert.deepEqual([status, stderr], [0, ""], shell);
  }
});
