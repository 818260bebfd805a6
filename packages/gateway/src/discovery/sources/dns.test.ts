import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { dnsServer, RCODE } from "../testing/dns-server.ts";
import { runningSource, sourceConfig } from "../testing/running-source.ts";
import { startDnsSource } from "./dns.ts";

const source = (server: string, more = "port: 8000") =>
  sourceConfig(
    `kind: dns\nhostname: pool.test\nservers: ["${server}"]\nrefresh_ms: 100\ntimeout_ms: 1000\nnode: { family: F }\n${more}`,
  );

describe("a name that resolves to many addresses", () => {
  test("each address is a target that keeps the name for TLS and the host field", async (t) => {
    const server = await dnsServer(t, () => ({ a: ["10.0.0.2", "10.0.0.1"] }));
    const running = runningSource(t, startDnsSource, source(server.address));
    await running.until("it looked", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8000", "10.0.0.2:8000"]);
    assert.deepEqual(new Set(running.found().targets.map(({ serverName }) => serverName)), new Set(["pool.test"]));
  });

  test("the server is asked each time, whatever time to live it gives", async (t) => {
    const server = await dnsServer(t, () => ({ a: ["10.0.0.1"] }));
    const running = runningSource(t, startDnsSource, source(server.address));
    await running.until("it looked", ({ found }) => found !== null);
    server.answer = () => ({ a: ["10.0.0.1", "10.0.0.3"] });
    await running.until("the change is seen", ({ found }) => found?.targets.length === 2);
  });

  test("more addresses than fit into a datagram come over TCP", async (t) => {
    const many = Array.from({ length: 300 }, (_, index) => `10.1.${index >> 8}.${index & 255}`);
    const server = await dnsServer(t, () => ({ a: many }));
    const running = runningSource(t, startDnsSource, source(server.address));
    await running.until("it looked", ({ found }) => found !== null);
    assert.equal(running.found().targets.length, 300);
    assert.ok(server.asked.some(({ over }) => over === "tcp"));
  });

  test("IPv6 addresses are asked for by record: aaaa", async (t) => {
    const server = await dnsServer(t, (type) => (type === "AAAA" ? { aaaa: ["fd00::1"] } : { a: ["10.0.0.1"] }));
    const running = runningSource(t, startDnsSource, source(server.address, "port: 8000\nrecord: aaaa"));
    await running.until("it looked", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["fd00::1:8000"]);
  });
});

describe("SRV records", () => {
  test("they tell the ports, and a name's IPv6 address counts only where it has no IPv4", async (t) => {
    const server = await dnsServer(t, (type, name) => {
      if (type === "SRV")
        return {
          srv: [
            { name: "a.test", port: 8001 },
            { name: "b.test", port: 8002 },
            { name: "c.test", port: 8003 },
          ],
        };
      if (name === "a.test") return type === "A" ? { a: ["10.0.0.1"] } : { aaaa: ["fd00::1"] };
      if (name === "b.test") return type === "A" ? { a: [] } : { aaaa: ["fd00::2"] };
      return { rcode: RCODE.nxDomain };
    });
    const running = runningSource(t, startDnsSource, source(server.address, "record: srv"));
    await running.until("it looked", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8001", "fd00::2:8002"]);
    assert.deepEqual(
      running.found().targets.map(({ serverName }) => serverName),
      ["a.test", "b.test"],
    );
    assert.deepEqual(running.found().dropped, [{ target: "c.test:8003", reason: "the name has no address" }]);
  });

  test("when one of the names can't be looked up there is no new list, as it would be a shorter one", async (t) => {
    const server = await dnsServer(t, (type, name) => {
      if (type === "SRV")
        return {
          srv: [
            { name: "a.test", port: 8001 },
            { name: "b.test", port: 8002 },
          ],
        };
      return name === "a.test" ? { a: ["10.0.0.1"] } : { rcode: RCODE.servFail };
    });
    const running = runningSource(t, startDnsSource, source(server.address, "record: srv"));
    const { found, error } = await running.until("it looked", () => true);
    assert.equal(found, null);
    assert.equal(error, "looking up b.test failed: the DNS server has a problem (SERVFAIL)");
  });
});

describe("answers without addresses", () => {
  for (const [what, answer] of [
    ["a name that does not exist", { rcode: RCODE.nxDomain }],
    ["a name without such records", { a: [] }],
  ] as const) {
    test(`${what} is an empty list, and says so`, async (t) => {
      const server = await dnsServer(t, () => answer);
      const running = runningSource(t, startDnsSource, source(server.address));
      const { found, error } = await running.until("it looked", () => true);
      assert.equal(error, null);
      assert.deepEqual(found?.targets, []);
      assert.equal(found?.note, "pool.test does not exist, or has no such records");
    });
  }
});

describe("servers that fail give no list", () => {
  for (const [what, rcode, error] of [
    ["SERVFAIL", RCODE.servFail, /^looking up pool\.test failed: the DNS server has a problem \(SERVFAIL\)$/],
    ["REFUSED", RCODE.refused, /the DNS server refuses to answer \(REFUSED\)$/],
    ["FORMERR", RCODE.formErr, /the DNS server does not understand the question|can't be read/],
  ] as const) {
    test(what, async (t) => {
      const server = await dnsServer(t, () => ({ rcode }));
      const running = runningSource(t, startDnsSource, source(server.address));
      const look = await running.until("it looked", () => true);
      assert.equal(look.found, null);
      assert.match(look.error ?? "", error);
    });
  }

  test("silence, which ends at timeout_ms", async (t) => {
    const server = await dnsServer(t, () => "silence");
    const startMs = performance.now();
    const running = runningSource(t, startDnsSource, source(server.address));
    const look = await running.until("it looked", () => true);
    assert.equal(look.found, null);
    assert.match(look.error ?? "", /no answer within timeout_ms \(1000\)|no DNS server answered in time/);
    assert.ok(performance.now() - startMs < 5_000);
  });

  test("nobody there", async (t) => {
    const server = await dnsServer(t, () => ({ a: ["10.0.0.1"] }));
    const [host] = server.address.split(":");
    // a port that nobody has, as the test's server has the one that the system chose
    const running = runningSource(t, startDnsSource, source(`${host}:1`));
    const look = await running.until("it looked", () => true);
    assert.equal(look.found, null);
    assert.match(look.error ?? "", /no DNS server listens|timeout_ms|answered in time/);
  });

  test("it goes on looking, and the list comes with the first good answer", async (t) => {
    const server = await dnsServer(t, () => ({ rcode: RCODE.servFail }));
    const running = runningSource(t, startDnsSource, source(server.address));
    await running.until("it failed", ({ error }) => error !== null);
    server.answer = () => ({ a: ["10.0.0.1"] });
    await running.until("it answers", ({ error, found }) => error === null && found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8000"]);
  });
});

test("nothing is told after the end, also of a look that was under way", async (t) => {
  const server = await dnsServer(t, () => "silence");
  const running = runningSource(t, startDnsSource, source(server.address));
  await running.stop();
  assert.deepEqual(running.looks, []);
});
