/** The SDK on every other interpreter that is installed, from 3.9 on. */
import { join } from "node:path";
import { describe, test } from "node:test";
import { others, pass, setUp, TESTS } from "./python-run.ts";

const setting = await setUp();
const ignored = (names: readonly string[]) => names.flatMap((name) => ["--ignore", join(TESTS, `test_${name}.py`)]);

// most of a run is waiting for deadlines
describe("python", { concurrency: 2 }, () => {
  for (const [index, { path, minor }] of others.entries()) {
    const isEdge = index === 0 || index === others.length - 1;
    const which = isEdge ? "all tests" : "the tests but the conformance vectors";
    test(`${which} that need no gateway pass on 3.${minor}`, async () => {
      const left = ignored(["gateway", "openai", ...(isEdge ? [] : ["conformance"])]);
      await pass(setting, path, [setting.environment.oldest], [...left, TESTS]);
    });
  }
});
