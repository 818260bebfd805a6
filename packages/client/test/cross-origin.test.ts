/** The client in a page of another origin, under the rules of browsers, against a real gateway. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { fakeNode, PORTS, startOn } from "../../gateway/test/control-fixture.ts";
import { APIConnectionError, AuthenticationError, NotFoundError, ZML } from "../src/index.ts";
import { browserFetch } from "./browser-fetch.ts";

const PAGE = "https://app.example.com";
const KEY = "sk-of-the-application";
const ask = { model: "m", messages: [{ role: "user", content: "hi" }], max_tokens: 4 };

async function start(t: TestContext, origins: string) {
  const node = await fakeNode(t);
  const { gateway } = await startOn(
    t,
    `${PORTS.replace("0 }", `0, cors_origins: ${origins} }`)}
keys: [{ name: app, value_env: APP }]
nodes: [{ id: a, url: "${node.url}", family: H100 }]
`,
    { env: { APP: KEY } },
  );
  return gateway.dataUrl;
}

test("a page whose origin is not listed gets an error that says what may stand in between, and no call is made", async (t) => {
  const baseUrl = await start(t, '["https://other.example"]');
  const fetch = browserFetch(PAGE);
  const client = new ZML({ baseUrl, apiKey: KEY, fetch, maxRetries: 0 });
  await assert.rejects(client.infer(ask), APIConnectionError);
  assert.deepEqual(fetch.sent, ["OPTIONS /v1/chat/completions"]);
});

for (const origins of [`["${PAGE}"]`, '["*"]']) {
  test(`a page reads answers, streams, errors and their routing when cors_origins is ${origins}`, async (t) => {
    const baseUrl = await start(t, origins);
    const fetch = browserFetch(PAGE);
    const client = new ZML({ baseUrl, apiKey: KEY, fetch, maxRetries: 0 });

    const answer = await client.infer({ ...ask, policy: "zml-default", accelerator: "H100" });
    assert.deepEqual([answer.routing?.node, answer.routing?.hint], ["a", "used"]);
    assert.match(answer.requestId ?? "", /^\w+$/);
    assert.deepEqual(fetch.sent, ["OPTIONS /v1/chat/completions", "POST /v1/chat/completions"]);

    const stream = await client.infer({ ...ask, stream: true });
    assert.equal(stream.routing?.node, "a");
    let events = 0;
    for await (const _ of stream) events += 1;
    assert.ok(events >= 4);

    const missing: unknown = await client.infer({ ...ask, model: "none" }).catch((error: unknown) => error);
    assert.ok(missing instanceof NotFoundError, String(missing));
    assert.deepEqual([missing.code, missing.routing?.reason], ["model_not_found", "refused"]);

    assert.deepEqual(
      (await client.models.list()).data.map(({ id }) => id),
      ["m"],
    );
    const stranger = new ZML({ baseUrl, apiKey: "sk-wrong", fetch, maxRetries: 0 });
    await assert.rejects(stranger.infer(ask), AuthenticationError);
  });
}
