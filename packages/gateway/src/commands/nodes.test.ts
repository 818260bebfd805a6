/** `zml nodes` against an admin port that goes, comes back, lies and hangs. */

import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { ERRORS } from "@zml/protocol";
import type { FleetReportJson } from "../control/fleet-report.ts";
import { EXIT } from "./exit-codes.ts";
import { type NodesOptions, nodes } from "./nodes.ts";
import { node, report } from "./testing/fleet-fixture.ts";
import { keptTerminal } from "./testing/kept-terminal.ts";
import type { Watch } from "./watch-page.ts";

const FLEET = report([node("a"), node("b", { family: "MI300X" })]);
const CLEAR = "\u001b[H\u001b[J";

type Answer = (response: ServerResponse, authorization: string | undefined) => void;

const sends =
  (status: number, body: unknown): Answer =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };

/** An admin port; `answer` can be changed. */
async function adminPort(t: TestContext, answer: Answer) {
  const port = { answer, asked: 0, url: "" };
  const server = createServer((request, response) => {
    port.asked += 1;
    port.answer(response, request.headers.authorization);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port.url = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return port;
}

/** An address where nothing listens. */
async function closedPort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${port}`;
}

const line = (admin: string, more: Partial<NodesOptions> = {}): NodesOptions => ({
  admin,
  json: false,
  wide: false,
  limit: 0,
  ...more,
});

/** A watch whose waits end at once; `steps` run in them, then it stops. */
function watchOf(steps: readonly (() => void)[]): Watch & { waits: number[] } {
  const ended = new AbortController();
  const waits: number[] = [];
  let nowMs = Date.UTC(2026, 0, 1, 12, 0, 0);
  return {
    stop: ended.signal,
    nowMs: () => nowMs,
    waits,
    wait: async (ms) => {
      nowMs += ms;
      const step = steps[waits.length];
      waits.push(ms);
      if (step === undefined) ended.abort();
      else step();
    },
  };
}

test("what is no gateway, refuses the key or is not there is told with what to do, and ends with its own code", async (t) => {
  const admin = await adminPort(t, sends(200, "<html>"));
  const ask = async (options: NodesOptions, code: number, env: Record<string, string> = {}) => {
    const terminal = keptTerminal({ env });
    assert.equal(await nodes(terminal, options, null), code);
    assert.equal(terminal.stdout(), "");
    return terminal.stderr();
  };
  assert.match(
    await ask(line(admin.url), EXIT.failed),
    /answers, but not like a gateway: name the admin port with --admin\n$/,
  );
  admin.answer = sends(401, { error: { message: "give a key" } });
  assert.match(await ask(line(admin.url), EXIT.denied), /^zml: give a key \(put an admin key into ZML_ADMIN_KEY, or/);
  assert.match(await ask(line(admin.url, { keyEnv: "K" }), EXIT.denied), /the environment variable K is not set/);
  admin.answer = (response, authorization) =>
    sends(403, { error: { message: `not ${authorization?.length}` } })(response, "");
  const refused = await ask(line(admin.url, { keyEnv: "K" }), EXIT.denied, { K: "sesame" });
  assert.match(refused, /^zml: not 13\n$/);
  assert.match(
    await ask(line(await closedPort()), EXIT.unreachable),
    /no gateway answers at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\)/,
  );
  assert.match(await ask(line("not an address"), EXIT.usage), /is no address/);
  assert.match(await ask(line("8081"), EXIT.usage), /^zml: --admin 8081 is no address: give it as HOST:PORT or/);
});

test("the data port in place of the admin port is told as that", async (t) => {
  const message = ERRORS.not_found.message({ path: "/admin/v1/fleet" });
  const data = await adminPort(t, sends(404, { error: { message } }));
  const terminal = keptTerminal();
  assert.equal(await nodes(terminal, line(data.url), null), 1);
  assert.match(terminal.stderr(), /has no \/admin\/v1\/fleet, as a data port: name the admin port \(admin\.listen\)/);
});

test("an unknown node is told with the nearest one, and a known one has a page", async (t) => {
  const admin = await adminPort(t, sends(200, report([node("mi300x-a")])));
  const terminal = keptTerminal();
  assert.equal(await nodes(terminal, line(admin.url, { id: "mi300x-b" }), null), EXIT.notFound);
  assert.match(terminal.stderr(), /the gateway has no node "mi300x-b": is it mi300x-a\?\n$/);
  assert.equal(await nodes(terminal, line(admin.url, { id: "mi300x-a" }), null), 0);
  assert.match(terminal.stdout(), /^ {2}node +mi300x-a\n/);
});

test("--json is the report with the chosen nodes", async (t) => {
  const admin = await adminPort(t, sends(200, FLEET));
  const terminal = keptTerminal();
  assert.equal(await nodes(terminal, line(admin.url, { json: true, family: "MI300X" }), null), 0);
  const printed = JSON.parse(terminal.stdout()) as FleetReportJson;
  assert.deepEqual(printed, { ...FLEET, nodes: FLEET.nodes.filter(({ id }) => id === "b") });
});

test("colours are for a window without NO_COLOR", async (t) => {
  const admin = await adminPort(t, sends(200, FLEET));
  const screen = { columns: 120, rows: 40 };
  const hasColours = async (terminal: ReturnType<typeof keptTerminal>) => {
    await nodes(terminal, line(admin.url), null);
    return terminal.stdout().includes("\u001b[32mhealthy");
  };
  assert.equal(await hasColours(keptTerminal({ screen })), true);
  assert.equal(await hasColours(keptTerminal({ screen, env: { NO_COLOR: "1" } })), false);
  assert.equal(await hasColours(keptTerminal({ screen, env: { TERM: "dumb" } })), false);
  assert.equal(await hasColours(keptTerminal()), false);
});

test("--watch redraws in place, keeps what it saw while the gateway is gone and since when, and sees it come back", async (t) => {
  const admin = await adminPort(t, sends(200, FLEET));
  const watch = watchOf([
    () => {
      admin.answer = (response) => response.destroy();
    },
    () => undefined,
    () => {
      admin.answer = sends(200, report([node("c")]));
    },
  ]);
  const terminal = keptTerminal({ screen: { columns: 100, rows: 30 }, env: { NO_COLOR: "1" } });
  assert.equal(await nodes(terminal, line(admin.url), watch), 0);
  const [empty, first, gone, still, back] = terminal.stdout().split(CLEAR);
  assert.equal(empty, "");
  assert.match(first ?? "", /^NODE .*\na .*\nb /);
  assert.match(
    gone ?? "",
    /^gateway gone since 12:00:01 UTC \(0\.0s\): what stands here is what it said last\nNODE .*\na /,
  );
  assert.match(still ?? "", /^gateway gone since 12:00:01 UTC \(1\.0s\)/);
  assert.match(back ?? "", /^NODE .*\nc /);
  assert.equal(terminal.stderr(), "");
});

test("--watch never draws more lines than the window has", async (t) => {
  const admin = await adminPort(t, sends(200, report(Array.from({ length: 500 }, (_, index) => node(`n${index}`)))));
  const terminal = keptTerminal({ screen: { columns: 60, rows: 12 }, env: { NO_COLOR: "1" } });
  await nodes(terminal, line(admin.url), watchOf([]));
  const lines = terminal.stdout().replace(CLEAR, "").trimEnd().split("\n");
  assert.equal(lines.length, 11);
  assert.match(lines[10] ?? "", /^… the window is too low/);
});

test("--watch asks one thing at a time, and a slow gateway less often", async (t) => {
  const admin = await adminPort(t, sends(200, FLEET));
  const watch = watchOf([() => undefined]);
  let nowMs = 0;
  // each look at the clock is 3 s later: an answer takes that long
  const slow: Watch = { ...watch, nowMs: () => (nowMs += 3000) };
  await nodes(keptTerminal(), line(admin.url), slow);
  assert.deepEqual(watch.waits, [12_000, 12_000], "a fifth of the time is spent asking");
  assert.equal(admin.asked, 2);
});

test("--watch of a gateway that was never there ends with 3, and one that is told to stop while it asks ends with 0", async (t) => {
  const terminal = keptTerminal();
  assert.equal(await nodes(terminal, line(await closedPort()), watchOf([])), EXIT.unreachable);
  assert.match(terminal.stderr(), /no gateway answers/);
  const ended = new AbortController();
  const hangs = await adminPort(t, () => ended.abort());
  const watch: Watch = { stop: ended.signal, nowMs: Date.now, wait: () => Promise.resolve() };
  assert.equal(await nodes(terminal, line(hangs.url), watch), 0);
});
