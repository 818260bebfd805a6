/** The SDK on the interpreter that has everything: a real gateway, the README, the official openai clients. */
import { join } from "node:path";
import { describe, test } from "node:test";
import { ERRORS } from "../../packages/protocol/src/errors.ts";
import { main, pass, SOURCE, setUp, succeed, TESTS } from "./python-run.ts";
import { startGateway } from "./real-gateway.ts";

const setting = await setUp();
const CONFORMANCE = join(TESTS, "test_conformance.py");

// most of a run is waiting for deadlines
describe("python", { concurrency: 2 }, () => {
  test(`every test passes on 3.${main.minor}, with a real gateway`, async (t) => {
    const tests = ["--ignore", CONFORMANCE, TESTS];
    await pass(setting, setting.environment.python, [], tests, await startGateway(t));
  });

  test(`the conformance vectors pass on 3.${main.minor}`, async () => {
    await pass(setting, setting.environment.python, [], [CONFORMANCE]);
  });

  test("with_routing works with openai 2", async () => {
    const { python, openai2 } = setting.environment;
    await pass(setting, python, [openai2], [join(TESTS, "test_openai.py")]);
  });
});

test("python: an error event has the class that its code has as an answer, for every code", async () => {
  const rows = Object.entries(ERRORS).map(([code, { status, type }]) => ({ code, status, type }));
  const compare = `
import json, sys
from zml._failures import event_error, status_error
from zml._head import Credential, Head
key = Credential(None, "api_key")
for row in json.loads(sys.argv[1]):
    body = {"error": {"message": "m", "type": row["type"], "code": row["code"]}}
    as_event = event_error(body, Head(200, {}, key))
    as_answer = status_error(Head(row["status"], {}, key), json.dumps(body).encode(), 0)
    assert type(as_event) is type(as_answer), (row, as_event, as_answer)
`;
  await succeed(setting.environment.python, ["-c", compare, JSON.stringify(rows)], { PYTHONPATH: SOURCE });
});
