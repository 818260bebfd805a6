import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";

const repository = join(import.meta.dirname, "..");

/** Runs the check with the real layers.json on a tree of the given files. */
function checkTree(files: Record<string, string>): { code: number | null; lines: string[] } {
  const root = mkdtempSync(join(tmpdir(), "zml-layers-"));
  try {
    copyFileSync(join(repository, "layers.json"), join(root, "layers.json"));
    for (const [file, source] of Object.entries(files)) {
      mkdirSync(dirname(join(root, file)), { recursive: true });
      writeFileSync(join(root, file), source);
    }
    const checked = spawnSync(process.execPath, [join(repository, "scripts", "check-layers.ts"), root], {
      encoding: "utf8",
    });
    assert.equal(checked.stderr, "");
    return { code: checked.status, lines: checked.stdout.trim().split("\n").slice(0, -1) };
  } finally {
    rmSync(root, { recursive: true });
  }
}

const broken: readonly {
  claim: string;
  file: string;
  source: string;
  line: string;
  beside?: Record<string, string>;
}[] = [
  {
    claim: "the engine imports no Node module",
    file: "packages/engine/src/cost/price.ts",
    source: 'export {};\nimport "node:fs";\n',
    line: ":2 imports node:fs; packages/engine/src may import no package and no Node module",
  },
  {
    claim: "the engine imports no other package, not even a type",
    file: "packages/engine/src/decide.ts",
    source: 'import type { X } from "@zml/protocol";\nexport type Y = X;\n',
    line: ":1 imports @zml/protocol; packages/engine/src may import no other package",
  },
  {
    claim: "an import type counts as an import",
    file: "packages/engine/src/decide.ts",
    source: 'export type Y = import("zod").ZodType;\n',
    line: ":1 imports zod; packages/engine/src may import no package and no Node module",
  },
  {
    claim: "another package is not reached by a relative path",
    file: "packages/gateway/src/request.ts",
    source: 'export * from "../../engine/src/decide.ts";\n',
    line: ":1 imports packages/engine/src/decide.ts by path; other packages are imported by name",
  },
  {
    claim: "a step of the engine imports no other step",
    file: "packages/engine/src/cost/choose.ts",
    source: 'import type { R } from "../availability/rank.ts";\nexport type S = R;\n',
    line: ":1 step cost imports step availability; what both need belongs beside the steps",
  },
  {
    claim: "a step of the gateway imports no other step",
    file: "packages/gateway/src/failover/drain.ts",
    source: 'export { relay } from "../dispatch/relay.ts";\n',
    line: ":1 step failover imports step dispatch; what both need belongs beside the steps",
  },
  {
    claim: "a step does not import the file that orders the steps",
    file: "packages/engine/src/failover/next-move.ts",
    source: 'import { decide } from "../decide.ts";\ndecide();\n',
    line: ":1 step failover imports packages/engine/src/decide.ts, which owns the order of the steps",
  },
  {
    claim: "the gateway does not import the simulator",
    file: "packages/gateway/src/request.ts",
    source: 'import "@zml/simulator";\n',
    line: ":1 imports @zml/simulator; packages/gateway/src may import only @zml/engine, @zml/protocol",
  },
  {
    claim: "a command does not load the simulator at start",
    file: "packages/gateway/src/commands/simulate.ts",
    source: 'import { run } from "@zml/simulator";\nrun();\n',
    line: ":1 imports @zml/simulator at start; packages/gateway/src/commands loads it on use",
  },
  {
    claim: "the protocol reads nothing of the engine but its reasons",
    file: "packages/protocol/src/config.ts",
    source: 'import { decide } from "@zml/engine";\ndecide();\n',
    line: ":1 imports @zml/engine; packages/protocol/src may import only @zml/engine/reasons",
  },
  {
    claim: "the wire part imports no zod",
    file: "packages/protocol/src/wire/errors.ts",
    source: 'import { z } from "zod";\nz.string();\n',
    line: ":1 imports zod; packages/protocol/src/wire may import no package and no Node module",
  },
  {
    claim: "the wire part reaches no zod through another file either",
    file: "packages/protocol/src/wire/errors.ts",
    source: 'export { table } from "../table.ts";\n',
    beside: {
      "packages/protocol/src/table.ts": 'export { table } from "./deep.ts";\n',
      "packages/protocol/src/deep.ts": 'import { z } from "zod";\nexport const table = z.string();\n',
    },
    line: ":1 leads to packages/protocol/src/table.ts → packages/protocol/src/deep.ts, which imports zod; packages/protocol/src/wire may import no package and no Node module",
  },
  {
    claim: "the gateway reads the environment in main.ts only",
    file: "packages/gateway/src/admission/auth.ts",
    source: '\nexport const key = process.env["KEY"];\n',
    line: ":2 uses process.env; only packages/gateway/src/main.ts touches argv, env, signals and exit",
  },
  {
    claim: "the gateway handles signals in main.ts only",
    file: "packages/gateway/src/drain.ts",
    source: 'globalThis.process.on("SIGTERM", () => {});\n',
    line: ":1 uses process.on; only packages/gateway/src/main.ts touches argv, env, signals and exit",
  },
  {
    claim: "the gateway does not take the environment by import",
    file: "packages/gateway/src/drain.ts",
    source: 'import { exit } from "node:process";\nexit(1);\n',
    line: ":1 imports node:process; only packages/gateway/src/main.ts touches argv, env, signals and exit",
  },
  {
    claim: "the engine reads no clock",
    file: "packages/engine/src/settle.ts",
    source: "export const nowMs = () => Date.now();\n",
    line: ":1 uses Date.now; the engine is pure: no clock, chance, logging, promises or I/O",
  },
  {
    claim: "the engine makes no promises",
    file: "packages/engine/src/settle.ts",
    source: "export const settle = async () => 1;\n",
    line: ":1 uses async; the engine is pure: no clock, chance, logging, promises or I/O",
  },
  {
    claim: "a package that the law does not know is a breach",
    file: "packages/novelty/src/index.ts",
    source: 'export * from "zod";\n',
    line: ":1 is in no area of layers.json; add one",
  },
];

for (const { claim, file, source, line, beside } of broken) {
  test(`layers: ${claim}`, () => {
    assert.deepEqual(checkTree({ [file]: source, ...beside }), { code: 1, lines: [file + line] });
  });
}

test("layers: what the law allows passes", () => {
  const checked = checkTree({
    "packages/engine/src/decide.ts": 'import "./cost/choose.ts";\nimport "./availability/rank.ts";\n',
    "packages/engine/src/cost/choose.ts":
      '// Date.now() and process.env in a comment\nexport const text = "Math.random()";\nexport const at = new Date(0);\nexport const row = { console: 1, process: 2 }.console;\n',
    "packages/engine/src/availability/rank.ts": 'import "../fleet-table.ts";\nimport "./order.ts";\n',
    "packages/protocol/src/wire/index.ts":
      'import { reasons } from "@zml/engine/reasons";\nimport "./a.ts";\nreasons();\n',
    "packages/protocol/src/config.ts": 'import { z } from "zod";\nimport "@zml/engine/reasons";\nz.string();\n',
    "packages/gateway/src/main.ts": 'import "./admission/routes.ts";\nprocess.on("SIGTERM", () => process.exit(0));\n',
    "packages/gateway/src/commands/simulate.ts": 'export const run = () => import("@zml/simulator");\n',
    "packages/gateway/src/dispatch/pool.ts":
      'import "undici";\nimport "node:http";\nimport "@zml/protocol/wire";\nimport "../bounds.ts";\n',
    "packages/gateway/src/dispatch/pool.test.ts": 'import "../failover/x.ts";\nprocess.env["A"] = "1";\n',
    "packages/simulator/src/demo/main.ts": 'import "zml";\n',
    "packages/client/src/index.ts": 'import "@zml/protocol/wire";\n',
    "packages/dashboard/src/page.tsx": 'import "preact";\nexport const Page = () => <p title={null}>text</p>;\n',
  });
  assert.deepEqual(checked, { code: 0, lines: [] });
});
