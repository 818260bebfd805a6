import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import type { Config, SourceConfig } from "@zml/protocol";
import { configured } from "../control/testing/configured.ts";
import { Discovery } from "./discovery.ts";
import { discoveryReport } from "./discovery-report.ts";
import type { Look, SourceContext, StartSource } from "./source.ts";

/** Sources that tell what the test says, and what became of them. */
class Puppets {
  readonly started: { config: SourceConfig; isStopped: boolean; tell: (look: Look) => void }[] = [];

  readonly start: StartSource = ({ config, onLook }: SourceContext) => {
    const puppet = { config, isStopped: false, tell: onLook };
    this.started.push(puppet);
    return {
      stop: () => {
        puppet.isStopped = true;
        return Promise.resolve();
      },
    };
  };

  /** The source of this name that was started last. */
  of(name: string) {
    const puppet = this.started.findLast(({ config }) => config.name === name);
    assert.ok(puppet !== undefined, `${name} was started`);
    return puppet;
  }

  list(name: string, ...hosts: string[]): void {
    const targets = hosts.map((host) => ({ host, port: 1, serverName: null, displayName: null, labels: {} }));
    this.of(name).tell({ found: { targets, leaving: [], dropped: [], note: null }, error: null });
  }

  fail(name: string, error = "it is down"): void {
    this.of(name).tell({ found: null, error });
  }
}

const source = (name: string, more = "") =>
  `    - { name: ${name}, kind: dns, hostname: x.test, port: 1, node: { family: F }, empty_grace_ms: 1000, ${more} }\n`;

const config = (...sources: string[]) => configured(`discovery:\n  sources:\n${sources.join("")}`);

function running(t: TestContext, first: { config: Config }) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const puppets = new Puppets();
  const lines: { level: string; fields: Record<string, unknown>; message: string }[] = [];
  const log = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields: fields as Record<string, unknown>, message });
  let nowMs = 0;
  let changes = 0;
  const discovery = new Discovery({
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
    clock: { nowMs: () => nowMs, random: () => 0.5 },
    onChange: () => {
      changes += 1;
    },
    sources: { dns: puppets.start, file_sd: puppets.start, kubernetes: puppets.start },
  });
  discovery.configure(first.config);
  return {
    discovery,
    puppets,
    lines,
    changes: () => changes,
    pass(ms: number): void {
      nowMs += ms;
      t.mock.timers.tick(ms);
    },
    ids: (of = first) =>
      discovery.effective(of.config, configured("data: {}").secrets).config.nodes.map(({ id }) => id),
    now: () => nowMs,
  };
}

describe("changes", () => {
  test("that come together are told once, 100 ms after the first", (t) => {
    const { puppets, changes, pass } = running(t, config(source("s"), source("u")));
    puppets.list("s", "a");
    puppets.list("u", "b");
    pass(50);
    puppets.list("s", "a", "c");
    assert.equal(changes(), 0);
    pass(50);
    assert.equal(changes(), 1);
    puppets.list("s", "a");
    pass(99);
    assert.equal(changes(), 1);
    pass(1);
    assert.equal(changes(), 2);
  });

  test("a list that says the same, and a failure, are none", (t) => {
    const { puppets, changes, pass, ids } = running(t, config(source("s")));
    puppets.list("s", "a");
    pass(100);
    puppets.list("s", "a");
    puppets.fail("s");
    pass(1_000);
    assert.equal(changes(), 1);
    assert.deepEqual(ids(), ["s:a:1"]);
  });

  test("an empty list counts after its grace although the source tells nothing more", (t) => {
    const { puppets, changes, pass, ids } = running(t, config(source("s")));
    puppets.list("s", "a");
    pass(100);
    puppets.list("s");
    pass(1_000);
    assert.deepEqual(ids(), ["s:a:1"]);
    pass(100);
    assert.deepEqual(ids(), []);
    pass(100);
    assert.equal(changes(), 2);
  });
});

describe("the start waits for the first looks", () => {
  test("until each source has looked, whatever came of it", async (t) => {
    const { discovery, puppets } = running(t, config(source("s"), source("u")));
    let isOver = false;
    const waited = discovery.firstLooks(5_000).then(() => {
      isOver = true;
    });
    puppets.list("s", "a");
    await Promise.resolve();
    assert.equal(isOver, false);
    puppets.fail("u");
    await waited;
  });

  test("and no longer than it is told", async (t) => {
    const { discovery, pass } = running(t, config(source("s")));
    const waited = discovery.firstLooks(5_000);
    pass(5_000);
    await waited;
  });

  test("not at all without sources", async (t) => {
    await running(t, configured("data: {}")).discovery.firstLooks(5_000);
  });
});

describe("another configuration", () => {
  test("leaves a source alone that did not change, also when its template did", (t) => {
    const { discovery, puppets, ids } = running(t, config(source("s"), source("u")));
    puppets.list("s", "a");
    const next = configured(`discovery:\n  sources:\n${source("s").replace("family: F", "family: G")}${source("u")}`);
    discovery.configure(next.config);
    assert.equal(puppets.started.length, 2);
    assert.deepEqual(ids(next), ["s:a:1"]);
    assert.equal(discovery.effective(next.config, next.secrets).config.nodes[0]?.family, "G");
  });

  test("starts a source anew that changed, which keeps its list until it has looked", (t) => {
    const { discovery, puppets, ids } = running(t, config(source("s")));
    puppets.list("s", "a");
    const [old] = puppets.started;
    const next = config(source("s", "refresh_ms: 777"));
    discovery.configure(next.config);
    assert.equal(old?.isStopped, true);
    assert.equal(puppets.started.length, 2);
    assert.deepEqual(ids(next), ["s:a:1"]);
    old?.tell({ found: { targets: [], leaving: [{ host: "a", port: 1 }], dropped: [], note: null }, error: null });
    assert.deepEqual(ids(next), ["s:a:1"], "what the old one still says counts no more");
    puppets.list("s", "b");
    assert.deepEqual(ids(next), ["s:b:1"]);
  });

  test("takes the nodes of a source along that went, or that is of another kind", (t) => {
    const { discovery, puppets, ids } = running(t, config(source("s"), source("u")));
    puppets.list("s", "a");
    puppets.list("u", "b");
    const next = configured("discovery: { sources: [{ name: u, kind: file_sd, paths: [x], node: { family: F } }] }\n");
    discovery.configure(next.config);
    assert.ok(puppets.started.slice(0, 2).every(({ isStopped }) => isStopped));
    assert.deepEqual(ids(next), []);
  });
});

test("the key of a source's nodes comes with them, and stays the same object while nothing changes", (t) => {
  const text = `discovery:\n  sources:\n${source("s").replace("family: F", "family: F, api_key_env: KEY")}${source("u")}`;
  const first = configured(text, { KEY: "k" });
  const { discovery, puppets } = running(t, first);
  puppets.list("s", "a");
  puppets.list("u", "b");
  const { secrets } = discovery.effective(first.config, first.secrets);
  assert.equal(secrets.nodes.get("s:a:1")?.reveal(), "k");
  assert.equal(secrets.nodes.get("u:b:1"), undefined);
  assert.equal(discovery.effective(first.config, first.secrets).secrets, secrets);
});

test("families stand in the order in which they were first found, whichever of their nodes are there", (t) => {
  const labels = (family: string) => ({ family });
  const first = configured("discovery: { sources: [{ name: s, kind: file_sd, paths: [x], node: {} }] }\n");
  const { discovery, puppets } = running(t, first);
  const tell = (...given: [string, string][]) => {
    const targets = given.map(([host, family]) => ({
      host,
      port: 1,
      serverName: null,
      displayName: null,
      labels: labels(family),
    }));
    puppets.of("s").tell({ found: { targets, leaving: [], dropped: [], note: null }, error: null });
    return discovery.effective(first.config, first.secrets).config.nodes.map(({ family }) => family);
  };
  assert.deepEqual(tell(["a", "H100"], ["b", "MI300X"]), ["H100", "MI300X"]);
  assert.deepEqual(tell(["b", "MI300X"], ["c", "H100"]), ["H100", "MI300X"]);
  assert.deepEqual(tell(["b", "MI300X"], ["a", "L40S"]), ["MI300X", "L40S"]);
});

describe("what is said", () => {
  test("a failure, its end, an empty list and bad targets are logged once each", (t) => {
    const { puppets, lines, ids } = running(t, config(source("s")));
    const said = () => lines.splice(0).map(({ level, message }) => `${level}: ${message}`);
    puppets.fail("s");
    puppets.fail("s");
    assert.deepEqual(said(), ["warn: a source of nodes fails: its last list stays"]);
    puppets.list("s", "a", "169.254.0.1");
    ids();
    ids();
    assert.deepEqual(said(), [
      "info: a source of nodes answers again",
      "info: the nodes of a source changed",
      "warn: targets of a source are no nodes",
    ]);
    puppets.list("s");
    puppets.list("s");
    assert.deepEqual(said(), ["warn: a source lists no node any more: its last list stays for empty_grace_ms"]);
  });

  test("the report tells state, ages, numbers and the first of the dropped targets", (t) => {
    const { discovery, puppets, pass, now, ids } = running(t, config(source("s"), source("u")));
    assert.equal(discoveryReport(discovery, now()).sources[0]?.state, "waiting");
    const bad = Array.from({ length: 30 }, (_, index) => `169.254.0.${index}`);
    puppets.list("s", "a", ...bad);
    puppets.list("u", "b");
    ids();
    pass(2_000);
    puppets.fail("u", "it is down");
    pass(500);
    const [s, u] = discoveryReport(discovery, now()).sources;
    assert.deepEqual(
      { ...s, dropped: s?.dropped.length },
      {
        name: "s",
        kind: "dns",
        state: "degraded",
        last_success_age_ms: 2_500,
        last_look_age_ms: 2_500,
        error: null,
        note: null,
        targets: 31,
        nodes: 1,
        empty_in_ms: null,
        dropped: 20,
        dropped_total: 30,
      },
    );
    assert.deepEqual(
      [u?.state, u?.error, u?.last_success_age_ms, u?.last_look_age_ms, u?.nodes],
      ["failing", "it is down", 2_500, 500, 1],
    );
    puppets.list("u");
    assert.deepEqual(
      [discoveryReport(discovery, now()).sources[1]?.state, discoveryReport(discovery, now()).sources[1]?.empty_in_ms],
      ["degraded", 1_000],
    );
  });
});

test("nothing runs after the end, and nobody waits", async (t) => {
  const { discovery, puppets, changes, pass } = running(t, config(source("s")));
  puppets.list("s", "a");
  const waiting = discovery.firstLooks(5_000);
  await discovery.stop();
  await waiting;
  pass(10_000);
  assert.equal(changes(), 0);
  assert.ok(puppets.started.every(({ isStopped }) => isStopped));
});
