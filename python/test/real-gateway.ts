/** A real gateway for the Python tests. */
import type { TestContext } from "node:test";
import { fakeNode, PORTS, startOn } from "../../packages/gateway/test/control-fixture.ts";

const API_KEY = "sk-of-the-application";
const ADMIN_KEY = "sk-of-the-operator";

/** A gateway with a fake node of each of two families, and a slow one; goes with the test. */
export async function startGateway(t: TestContext): Promise<Record<string, string>> {
  const model = "llama-3-8b";
  const [h100, mi300x, slow] = await Promise.all([
    fakeNode(t, { model }),
    fakeNode(t, { model, hardware: "MI300X-192GB/llama-3-8b/bf16/1" }),
    fakeNode(t, { model: "slow", speedUp: 1, outputTokens: 4000 }),
  ]);
  const { gateway } = await startOn(
    t,
    `${PORTS}keys:
  - { name: app, value_env: APP, scopes: [infer] }
  - { name: ops, value_env: OPS, scopes: [admin] }
nodes:
  - { id: h100, url: "${h100.url}", family: H100, engine: vllm }
  - { id: mi300x, url: "${mi300x.url}", family: MI300X, engine: vllm }
  - { id: slow, url: "${slow.url}", family: H100, engine: vllm }
policies:
  - { name: chat, cost_priority: balanced,
      accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 1 }] }
models:
  - { name: ${model}, policy: chat }
`,
    { env: { APP: API_KEY, OPS: ADMIN_KEY } },
  );
  return {
    ZML_TEST_BASE_URL: gateway.dataUrl,
    ZML_TEST_ADMIN_URL: gateway.adminUrl,
    ZML_TEST_API_KEY: API_KEY,
    ZML_TEST_ADMIN_KEY: ADMIN_KEY,
  };
}
