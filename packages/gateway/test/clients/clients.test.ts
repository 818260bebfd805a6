/** The clients that need nothing more than the repository, and that the report on all of them is fresh. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { PROGRAMS, play } from "./programs.ts";
import { PAGE, pinnedVersion, resultOf, rowsOf } from "./report.ts";
import { startStage } from "./stage.ts";

const hasCurl = () =>
  promisify(execFile)("curl", ["--version"]).then(
    () => true,
    () => false,
  );

const page = readFileSync(PAGE, "utf8");

test("clients: openai (npm) and curl work through ZML", { timeout: 110_000 }, async (t) => {
  const stage = await startStage(t, { hasRealEngine: true });
  for (const program of PROGRAMS.filter(({ setting }) => setting === "repository")) {
    await t.test(program.file, async (t) => {
      if (program.pinned === null && !(await hasCurl())) {
        const hint = "curl is not installed: apt-get install curl";
        assert.equal(process.env["CI"], undefined, hint);
        t.skip(`left out: ${hint}`);
        return;
      }
      const { client, cases, trouble } = await play(program, stage, null);
      assert.equal(trouble, null);
      const failed = cases.filter(({ problem }) => problem !== null);
      assert.deepEqual(failed, []);
      // curl's depend on how the system's was built
      if (program.pinned === null) return;
      const row = rowsOf(page).find((one) => one.client === client);
      assert.equal(row?.result, resultOf(cases), "the report is of these cases: npm run test:clients");
    });
  }
});

test("clients: the report has a row for every client, of the version that is pinned, and nothing failed", () => {
  const rows = rowsOf(page);
  assert.equal(rows.length, PROGRAMS.length);
  for (const [index, program] of PROGRAMS.entries()) {
    const row = rows[index] ?? assert.fail();
    const version = pinnedVersion(program);
    if (version !== null) assert.equal(row.version, version, `${row.client}: npm run test:clients`);
    const [, passed, of] = /^(\d+) of (\d+) passed$/.exec(row.result) ?? assert.fail(row.result);
    assert.equal(passed, of, row.client);
  }
});
