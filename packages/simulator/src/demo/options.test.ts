import assert from "node:assert/strict";
import { test } from "node:test";
import { HELP, readOptions } from "./options.ts";

const defaults = {
  isOnce: false,
  isJson: false,
  isReal: false,
  seed: 1,
  seconds: Number.POSITIVE_INFINITY,
  speedUp: 1,
  rate: 2,
};

test("without flags it runs until it is stopped; --once ends after 20 seconds", () => {
  assert.deepEqual(readOptions([]), { kind: "run", options: defaults });
  assert.deepEqual(readOptions(["--once"]), { kind: "run", options: { ...defaults, isOnce: true, seconds: 20 } });
});

test("every flag is read, with a blank or an equals sign before its number", () => {
  const args = ["--once", "--json", "--seed=7", "--seconds", "6.5", "--speed-up=4", "--rate", "0.5"];
  const options = { ...defaults, isOnce: true, isJson: true, seed: 7, seconds: 6.5, speedUp: 4, rate: 0.5 };
  assert.deepEqual(readOptions(args), { kind: "run", options });
  assert.deepEqual(readOptions(["--real"]), { kind: "run", options: { ...defaults, isReal: true, rate: 1 } });
});

test("what it can't use is refused with one line that names it", () => {
  const cases: [string[], RegExp][] = [
    [["--fast"], /^unknown flag --fast;/],
    [["-x"], /^unknown flag -x;/],
    [["20"], /^unknown argument "20";/],
    [["--seconds"], /^--seconds needs a number;/],
    [["--seconds", "--once"], /--seconds needs a number/],
    [["--seconds", "1"], /^--seconds needs a number from 3 to 86400, got "1";/],
    [["--rate", ""], /^--rate needs a number from 0\.1 to 20, got "";/],
    [["--rate=many"], /^--rate needs a number from 0\.1 to 20, got "many";/],
    [["--seed", "1.5"], /^--seed needs a whole number, got "1\.5";/],
    [["--once=yes"], /^--once takes no value;/],
    [["--json"], /^--json needs --once;/],
    [["--real", "--speed-up", "2"], /^--speed-up is for fake nodes/],
  ];
  for (const [args, expected] of cases) {
    const read = readOptions(args);
    assert.equal(read.kind, "refused", args.join(" "));
    if (read.kind === "refused") {
      assert.match(read.message, expected);
      assert.doesNotMatch(read.message, /\n/);
    }
  }
});

test("the help is asked for with --help or -h and names every flag", () => {
  assert.equal(readOptions(["--help"]).kind, "help");
  assert.equal(readOptions(["-h"]).kind, "help");
  for (const flag of ["once", "json", "real", "seconds", "rate", "speed-up", "seed", "help"]) {
    assert.ok(HELP.includes(`--${flag}`), flag);
  }
});
