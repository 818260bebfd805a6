import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { SourceError, targetKey } from "../source.ts";
import { parseFileSd } from "./file-sd-format.ts";

const json = (value: unknown, port: number | null = null) => parseFileSd(JSON.stringify(value), { isJson: true, port });

describe("what Prometheus reads is read", () => {
  test("groups of targets with labels, numbers among them", () => {
    const { targets, dropped } = json([
      { targets: ["10.0.0.1:8000", "gpu-a.example:80"], labels: { family: "H100", __meta_x: "y", gpus: 8 } },
      { targets: ["[fd00:0::1]:8000"] },
      { targets: [], labels: null },
    ]);
    assert.deepEqual(targets.map(targetKey), ["10.0.0.1:8000", "gpu-a.example:80", "fd00::1:8000"]);
    assert.deepEqual(targets[0]?.labels, { family: "H100", __meta_x: "y", gpus: "8" });
    assert.deepEqual(targets[2]?.labels, {});
    assert.deepEqual(dropped, []);
  });

  test("YAML", () => {
    const text = "- targets:\n    - 10.0.0.1:8000\n  labels:\n    family: MI300X\n    gpus: 8\n";
    const { targets } = parseFileSd(text, { isJson: false, port: null });
    assert.deepEqual(targets, [
      { host: "10.0.0.1", port: 8000, serverName: null, displayName: null, labels: { family: "MI300X", gpus: "8" } },
    ]);
  });

  test("an empty list is a list", () => {
    assert.deepEqual(json([]).targets, []);
  });

  test("a target without a port has the source's", () => {
    assert.deepEqual(json([{ targets: ["10.0.0.1"] }], 8000).targets.map(targetKey), ["10.0.0.1:8000"]);
  });
});

describe("a target that is none is dropped, and the others stay", () => {
  for (const [written, reason] of [
    ["10.0.0.1", "it names no port: write HOST:PORT, or give the source a port"],
    ["10.0.0.1:0", "its port is 0: ports are 1 to 65535"],
    ["10.0.0.1:70000", "its port is 70000: ports are 1 to 65535"],
    ["http://10.0.0.1:8000", "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
    ["10.0.0.1:8000/metrics", "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
    ["user:secret@10.0.0.1:8000", "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
    ["10.0.0.1:8000?x", "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
    ["a b:1", "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
    ["", "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
    ["999.1.1.1:80", "its address can't be read"],
    ["[::zz]:80", "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
    ["[1:2]:80", "its address can't be read"],
    [`${"a".repeat(100_000)}:x`, "expected HOST:PORT such as 10.0.0.1:8000 or [fd00::1]:8000"],
  ] as const) {
    test(JSON.stringify(written.slice(0, 40)), () => {
      const { targets, dropped } = json([{ targets: [written, "10.0.0.9:1"] }]);
      assert.deepEqual(targets.map(targetKey), ["10.0.0.9:1"]);
      assert.equal(dropped[0]?.reason, reason);
      assert.ok((dropped[0]?.target.length ?? 0) < 80);
    });
  }

  test("other spellings of an address are that address", () => {
    const { targets } = json([{ targets: ["0x7f.1:80", "127.0.0.1:80", "[::ffff:127.0.0.1]:80"] }]);
    assert.deepEqual(targets.map(targetKey), ["127.0.0.1:80", "127.0.0.1:80", "::ffff:7f00:1:80"]);
  });
});

describe("a text that is no such list is refused as a whole, without its content", () => {
  for (const [what, text, isJson] of [
    ["nothing, as while it is written", "", true],
    ["nothing, as YAML", "", false],
    ["half of it", '[{"targets":["10.0.0.1:80', true],
    ["half of it, as YAML", "- targets: ['10.0.0.1:80", false],
    ["a mapping", '{"targets":["10.0.0.1:80"]}', true],
    ["targets that are no list", '[{"targets":"secret-thing"}]', true],
    ["targets that are no texts", '[{"targets":[1]}]', true],
    ["no targets", '[{"labels":{}}]', true],
    ["labels in labels", '[{"targets":[],"labels":{"a":{"b":"secret-thing"}}}]', true],
    ["an HTML page", "<html>secret-thing</html>", true],
    ["a bomb of aliases", `a: &a [x]\n${"b: [*a,*a]\n".repeat(3)}`, false],
    ["null", "null", true],
  ] as const) {
    test(what, () => {
      assert.throws(
        () => parseFileSd(text, { isJson, port: null }),
        (error: Error) => error instanceof SourceError && !error.message.includes("secret-thing"),
      );
    });
  }

  test("more targets than any fleet has", () => {
    const targets = Array.from({ length: 100_001 }, () => "10.0.0.1:1");
    assert.throws(() => json([{ targets }]), /it names more than 100000 targets/);
  });
});
