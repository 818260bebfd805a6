/** The SDK on every other interpreter that is installed, from 3.9 on. */
import { join } from "node:path";
import { describe, test } from "node:test";
import { others, pass, setUp, TESTS } from "./python-run.ts";

const setting = await setUp();
const files = (names: readonly string[]) => names.map((name) => join(TESTS, `test_${name}.py`));

/** The oldest and the newest run everything that needs no gateway. */
const ofEdges = {
  "every test without a gateway": [
    ...files(["gateway", "openai", "conformance"]).flatMap((path) => ["--ignore", path]),
    TESTS,
  ],
  "the conformance vectors": files(["conformance"]),
};
/** What interpreters differ in that has broken things: event loops, threads, generators, pickles. */
const ofOthers = {
  "the tests of streams, connections and copies": files(["streams", "http2", "life_of_a_client", "answers"]),
};

// most of a run is waiting for deadlines
describe("python", { concurrency: 2 }, () => {
  for (const [index, { path, minor }] of others.entries()) {
    const isEdge = index === 0 || index === others.length - 1;
    for (const [which, tests] of Object.entries(isEdge ? ofEdges : ofOthers)) {
      test(`${which} on 3.${minor}`, () => pass(setting, path, [setting.environment.oldest], tests));
    }
  }
});
