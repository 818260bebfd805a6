import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pathOf } from "./url.ts";

describe("the join of a node's URL and a path", () => {
  const cases: [base: string, chat: string, health: string][] = [
    ["http://node:8000", "/v1/chat/completions", "/health"],
    ["http://node:8000/", "/v1/chat/completions", "/health"],
    ["http://node:8000/v1", "/v1/chat/completions", "/health"],
    ["http://node:8000/v1/", "/v1/chat/completions", "/health"],
    ["http://node:8000/llm", "/llm/v1/chat/completions", "/llm/health"],
    ["http://node:8000/llm/", "/llm/v1/chat/completions", "/llm/health"],
    ["http://node:8000/llm/v1", "/llm/v1/chat/completions", "/llm/health"],
    ["http://node:8000/llm/v4", "/llm/v4/chat/completions", "/llm/health"],
    ["http://node:8000/v1beta", "/v1beta/v1/chat/completions", "/v1beta/health"],
    ["http://node:8000//llm//v1//", "/llm/v1/chat/completions", "/llm/health"],
  ];
  for (const [base, chat, health] of cases) {
    it(`keeps the prefix and never doubles the version: ${base}`, () => {
      assert.equal(pathOf(base, "/v1/chat/completions"), chat);
      assert.equal(pathOf(base, "/health"), health);
    });
  }

  it("keeps a query of the base beside that of the path", () => {
    assert.equal(pathOf("http://node/openai?api-version=1", "/v1/models"), "/openai/v1/models?api-version=1");
    assert.equal(pathOf("http://node/?a=1", "/slots?b=2"), "/slots?b=2&a=1");
  });

  it("leaves credentials of the base out", () => {
    assert.equal(pathOf("http://user:secret@node:1/v1", "/v1/models"), "/v1/models");
  });
});
