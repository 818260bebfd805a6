import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { startFakeNode } from "./node.ts";

const CAPTURED = { vllm: "vllm-0.32.0.prom", llamacpp: "llamacpp-b10434.prom" } as const;
/** Labels whose values are a closed list of the engine; of others only the names are compared. */
const CLOSED = new Set(["le", "finished_reason", "source", "reason", "sleep_state", "generation"]);

/** HELP and TYPE lines as they are, samples as name and labels without values. */
function shape(text: string): string[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      if (line.startsWith("#")) return line;
      const [, name = "", labels = ""] = /^([^{ ]+)(?:\{(.*)\})? /.exec(line) ?? [];
      const parts = [...labels.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, key = "", value]) =>
        CLOSED.has(key) ? `${key}=${value}` : key,
      );
      return `${name} ${parts.join(",")}`;
    });
}

for (const engine of ["vllm", "llamacpp"] as const) {
  test(`${engine}: /metrics has every series, type, help text and bucket of the captured one, in its order`, async (t) => {
    const hardware = "H100-SXM-80GB/llama-3-8b/bf16/1";
    const node = await startFakeNode({ engine, hardware, model: "tiny", speedUp: 50 });
    t.after(() => node.stop());
    const answer = await fetch(`${node.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: "hello" }], max_tokens: 2 }),
    });
    await answer.text();
    const metrics = await (await fetch(`${node.url}/metrics`)).text();
    const captured = readFileSync(new URL(`./fixtures/${CAPTURED[engine]}`, import.meta.url), "utf8");
    assert.deepEqual(shape(metrics), shape(captured));
  });
}
