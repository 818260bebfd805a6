import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, type TestContext, test } from "node:test";
import { inspect } from "node:util";
import { type ApiServer, apiServer, kubeconfigFor, pod, slice, status } from "../testing/api-server.ts";
import { follow, SERVICE, started } from "../testing/cluster-source.ts";

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!holds()) {
    assert.ok(performance.now() < deadline, `waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe("EndpointSlices of a service", () => {
  test("what is ready is a target, what is not ready is none, what terminates leaves", async (t) => {
    const { running } = await started(t, SERVICE, {}, (api) => {
      api.set(
        slice("a", [
          { ip: "10.0.0.1", ready: true, pod: "vllm-1" },
          { ip: "10.0.0.2", ready: false },
        ]),
      );
      api.set(slice("b", [{ ip: "10.0.0.3", ready: false, terminating: true }, { ip: "10.0.0.4" }]));
      api.set(slice("six", [{ ip: "fd00::1", ready: true }], { addressType: "IPv6" }));
    });
    await running.until("it is listed", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8000", "10.0.0.4:8000"]);
    assert.equal(running.found().targets[0]?.displayName, "vllm-1");
    assert.deepEqual(
      running.found().leaving.map(({ host }) => host),
      ["10.0.0.3"],
    );
    assert.equal(running.found().note, "1 endpoints are not ready");
  });

  test("changes come over the watch: added, changed, deleted", async (t) => {
    const { api, running } = await started(t, SERVICE, {}, (server) => server.set(slice("a", [{ ip: "10.0.0.1" }])));
    await until("it watches", () => api.watches.size === 1);
    api.set(slice("b", [{ ip: "10.0.0.2" }]));
    await running.until("the addition is seen", ({ found }) => found?.targets.length === 2);
    api.set(slice("a", [{ ip: "10.0.0.1", ready: true, terminating: true }]));
    await running.until("it leaves", ({ found }) => found?.leaving.length === 1);
    api.remove("b");
    await running.until("all are gone", ({ found }) => found?.targets.length === 0);
    assert.equal(api.lists, 1, "nothing was listed again");
  });

  test("labels and annotations of the slice are those of its targets, labels first", async (t) => {
    const { running } = await started(t, SERVICE, {}, (api) =>
      api.set(
        slice("a", [{ ip: "10.0.0.1" }], { labels: { gpu: "H100" }, annotations: { gpu: "x", models: "a/b,c" } }),
      ),
    );
    await running.until("it is listed", ({ found }) => found !== null);
    const { gpu, models } = running.found().targets[0]?.labels ?? {};
    assert.deepEqual({ gpu, models }, { gpu: "H100", models: "a/b,c" });
  });

  for (const [what, more, ports, expected] of [
    ["the only one", "", [{ name: "http", port: 8000 }], ["10.0.0.1:8000"]],
    ["by number", "port: 9000", [{ name: "http", port: 8000 }], ["10.0.0.1:9000"]],
    [
      "by name",
      "port_name: http",
      [
        { name: "metrics", port: 9 },
        { name: "http", port: 8000 },
      ],
      ["10.0.0.1:8000"],
    ],
    ["one of several, which is not clear", "", [{ port: 1 }, { port: 2 }], "it has 2 ports: set port or port_name"],
    ["one that is not there", "port_name: http", [{ name: "x", port: 2 }], "it has no port http"],
    ["of UDP only", "", [{ port: 2, protocol: "UDP" }], "it names no TCP port: set port"],
  ] as const) {
    test(`the port: ${what}`, async (t) => {
      const { running } = await started(t, `${SERVICE}\n${more}`, {}, (api) =>
        api.set(slice("a", [{ ip: "10.0.0.1" }], { ports })),
      );
      await running.until("it is listed", ({ found }) => found !== null);
      if (typeof expected === "string") {
        assert.deepEqual(running.found().dropped, [{ target: "default/a", reason: expected }]);
      } else assert.deepEqual(running.keys(), expected);
    });
  }

  test("an object that can't be read is dropped, and the others count", async (t) => {
    const { running } = await started(t, SERVICE, {}, (api) => {
      api.set({ metadata: { name: "bad", namespace: "default" }, endpoints: 7 });
      api.set(slice("a", [{ ip: "10.0.0.1" }]));
    });
    await running.until("it is listed", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8000"]);
    assert.deepEqual(running.found().dropped, [{ target: "default/bad", reason: "the EndpointSlice can't be read" }]);
  });
});

describe("pods by label", () => {
  const PODS = 'pod_selector: "app=vllm"';

  test("ready pods are targets; those that end leave, also when they are deleted at once", async (t) => {
    const { api, running } = await started(t, PODS, {}, (server) => {
      server.set(pod("a", { ip: "10.0.0.1", labels: { gpu: "MI300X" } }));
      server.set(pod("b", { ip: "10.0.0.2", isReady: false }));
      server.set(pod("c", { ip: "10.0.0.3", isLeaving: true }));
      server.set(pod("d", {}));
      server.set(pod("e", { ip: "10.0.0.5", phase: "Succeeded" }));
    });
    await running.until("they are listed", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8000"]);
    assert.deepEqual(
      running.found().leaving.map(({ host }) => host),
      ["10.0.0.3"],
    );
    assert.equal(running.found().targets[0]?.labels["gpu"], "MI300X");
    assert.equal(api.asked[0]?.query.get("labelSelector"), "app=vllm");
    await until("it watches", () => api.watches.size === 1);
    api.remove("a");
    const { found } = await running.until("it is deleted", (look) => look.found?.targets.length === 0);
    assert.ok(
      found?.leaving.some(({ host }) => host === "10.0.0.1"),
      "an empty list must not hold it",
    );
  });
});

describe("namespaces", () => {
  const inBoth = (api: ApiServer): void => {
    api.set(slice("a", [{ ip: "10.0.0.1" }], { namespace: "one" }));
    api.set(slice("a", [{ ip: "10.0.0.2" }], { namespace: "two" }));
    api.set(slice("a", [{ ip: "10.0.0.3" }], { namespace: "three" }));
  };

  test("those that are named, each by its own list and watch", async (t) => {
    const { api, running } = await started(t, `${SERVICE}\nnamespaces: [one, two]`, {}, inBoth);
    await running.until("both are listed", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8000", "10.0.0.2:8000"]);
    await until("both are watched", () => api.watches.size === 2);
  });

  test("all of them", async (t) => {
    const { api, running } = await started(t, `${SERVICE}\nnamespaces: ["*"]`, {}, inBoth);
    await running.until("they are listed", ({ found }) => found !== null);
    assert.equal(running.keys().length, 3);
    assert.equal(api.asked[0]?.path, "/apis/discovery.k8s.io/v1/endpointslices");
  });

  test("that of the context", async (t) => {
    const api = await apiServer(t);
    inBoth(api);
    const running = follow(t, kubeconfigFor(t, api, { namespace: "two" }));
    await running.until("it is listed", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.2:8000"]);
  });

  test("there is no list before each of them has one, and one that fails later leaves the others their changes", async (t) => {
    const { api, running } = await started(t, `${SERVICE}\nnamespaces: [one, two]`, {}, (server) => {
      inBoth(server);
      server.intercept = (_request, response, url) => {
        if (!url.pathname.includes("/two/")) return false;
        status(response, 403, "Forbidden");
        return true;
      };
    });
    const { found, error } = await running.until("one is refused", (look) => look.error !== null);
    assert.equal(found, null);
    assert.match(
      error ?? "",
      /forbids \/apis\/discovery\.k8s\.io\/v1\/namespaces\/two\/endpointslices \(403\): give the account/,
    );
    api.intercept = () => false;
    await running.until("both are listed", (look) => look.found?.targets.length === 2 && look.error === null);
  });
});

describe("lists", () => {
  test("come by pages", async (t) => {
    const { api, running } = await started(t, SERVICE, { pageObjects: 2 }, (server) => {
      for (let index = 0; index < 5; index++) server.set(slice(`s${index}`, [{ ip: `10.0.0.${index}` }]));
    });
    await running.until("they are listed", ({ found }) => found !== null);
    assert.equal(running.keys().length, 5);
    assert.equal(api.asked.filter(({ query }) => query.has("continue")).length, 2);
  });

  test("that expire between two pages are begun again", async (t) => {
    let isExpired = false;
    const { running } = await started(t, SERVICE, { pageObjects: 2 }, (server) => {
      for (let index = 0; index < 5; index++) server.set(slice(`s${index}`, [{ ip: `10.0.0.${index}` }]));
      server.intercept = (_request, response, url) => {
        if (isExpired || !url.searchParams.has("continue")) return false;
        isExpired = true;
        status(response, 410, "Expired");
        return true;
      };
    });
    const { error } = await running.until("they are listed", () => true);
    assert.equal(error, null);
    assert.equal(running.keys().length, 5);
  });

  test("that never end are given up at timeout_ms, and tried again", async (t) => {
    const { api, running } = await started(t, `${SERVICE}\ntimeout_ms: 200`, {}, (server) => {
      server.set(slice("a", [{ ip: "10.0.0.1" }]));
      server.intercept = (_request, response) => {
        response.writeHead(200);
        response.write('{"metadata":{');
        return true;
      };
    });
    const { found } = await running.until("it failed", ({ error }) => error !== null);
    assert.equal(found, null);
    api.intercept = () => false;
    await running.until("they are listed", (look) => look.found !== null && look.error === null);
  });

  for (const [what, body, error] of [
    ["HTML", "<html>", /list of .* can't be read/],
    ["half of one", '{"items":[', /list of .* can't be read/],
    ["another kind of object", '{"kind":"Status"}', /list of .* can't be read/],
    ["objects without names", '{"metadata":{"resourceVersion":"1"},"items":[{}]}', /list of .* can't be read/],
  ] as const) {
    test(`that are none: ${what}`, async (t) => {
      const { running } = await started(t, SERVICE, {}, (server) => {
        server.intercept = (_request, response) => {
          response.end(body);
          return true;
        };
      });
      const look = await running.until("it failed", () => true);
      assert.equal(look.found, null);
      assert.match(look.error ?? "", error);
    });
  }

  test("a whole list is asked for every refresh_ms: what the watch missed is found", async (t) => {
    const { api, running } = await started(t, `${SERVICE}\nrefresh_ms: 300`, {}, (server) =>
      server.set(slice("a", [{ ip: "10.0.0.1" }])),
    );
    await until("it watches", () => api.watches.size === 1);
    api.silently(() => api.set(slice("b", [{ ip: "10.0.0.2" }])));
    await running.until("it is found", ({ found }) => found?.targets.length === 2);
  });
});

describe("watches", () => {
  async function watching(t: TestContext, more = SERVICE) {
    const { api, running } = await started(t, more, {}, (server) => server.set(slice("a", [{ ip: "10.0.0.1" }])));
    await until("it watches", () => api.watches.size === 1);
    return { api, running };
  }

  test("events that come in pieces, several at once, and with characters cut in the middle are whole", async (t) => {
    const { api, running } = await watching(t);
    const held: string[] = [];
    const write = api.write.bind(api);
    api.write = (text) => void held.push(text);
    api.set(slice("b", [{ ip: "10.0.0.2", pod: "größe" }]));
    api.set(slice("c", [{ ip: "10.0.0.3" }]));
    api.write = write;
    const bytes = Buffer.from(held.join(""));
    const middle = bytes.indexOf(Buffer.from("ö")) + 1;
    for (const [watch] of [...api.watches].map((one) => [one])) {
      watch?.write(bytes.subarray(0, middle));
      await new Promise((resolve) => setImmediate(resolve));
      watch?.write(bytes.subarray(middle));
    }
    await running.until("both are seen", ({ found }) => found?.targets.length === 3);
    assert.ok(running.found().targets.some(({ displayName }) => displayName === "größe"));
  });

  test("one that is cut in the middle of an event goes on where it was, without a new list", async (t) => {
    const { api, running } = await watching(t);
    api.silently(() => api.set(slice("b", [{ ip: "10.0.0.2" }])));
    api.write('{"type":"ADDED","object":{"metadata":{"na');
    api.cutWatches();
    await running.until("the event is there", ({ found }) => found?.targets.length === 2);
    assert.equal(api.lists, 1);
    assert.ok(
      running.looks.every(({ error }) => error === null),
      "an end is no failure",
    );
  });

  test("a bookmark moves the version on, so that a new watch begins there", async (t) => {
    const { api } = await watching(t);
    api.bookmark();
    api.endWatches();
    await until("it watches again", () => api.asked.filter(({ query }) => query.has("watch")).length === 2);
    const [first, second] = api.asked.filter(({ query }) => query.has("watch")).map(({ query }) => query);
    assert.equal(first?.get("allowWatchBookmarks"), "true");
    assert.equal(Number(second?.get("resourceVersion")), Number(first?.get("resourceVersion")) + 1);
  });

  test("a version that is gone, as an event, leads to a new list", async (t) => {
    const { api, running } = await watching(t);
    api.silently(() => api.set(slice("b", [{ ip: "10.0.0.2" }])));
    api.expire();
    await running.until("it is listed again", ({ found }) => found?.targets.length === 2);
    assert.equal(api.lists, 2);
    assert.ok(running.looks.every(({ error }) => error === null));
  });

  test("a version that is gone, as a status, leads to a new list", async (t) => {
    const { api, running } = await watching(t);
    let refused = 0;
    api.intercept = (_request, response, url) => {
      if (!url.searchParams.has("watch") || refused > 0) return false;
      refused += 1;
      status(response, 410, "Gone");
      return true;
    };
    api.silently(() => api.set(slice("b", [{ ip: "10.0.0.2" }])));
    api.endWatches();
    await running.until("it is listed again", ({ found }) => found?.targets.length === 2);
  });

  test("versions that are always gone don't make it ask without a pause", async (t) => {
    const { api } = await watching(t);
    api.intercept = (_request, response, url) => {
      if (!url.searchParams.has("watch")) return false;
      status(response, 410, "Gone");
      return true;
    };
    const startMs = performance.now();
    api.endWatches();
    const watches = () => api.asked.filter(({ query }) => query.has("watch")).length;
    const before = watches();
    await until("it has asked three times more", () => watches() >= before + 3);
    // half of 500 and of 1,000 ms at least, between the first, the second and the third
    assert.ok(performance.now() - startMs >= 700, `three times within ${performance.now() - startMs} ms`);
  });

  test("one without a byte for idle_ms is dead: a whole list tells what it has missed", async (t) => {
    const { api, running } = await watching(t, `${SERVICE}\nidle_ms: 200`);
    api.silently(() => api.set(slice("b", [{ ip: "10.0.0.2" }])));
    await running.until("it is listed again", ({ found }) => found?.targets.length === 2);
    assert.ok(api.lists >= 2);
  });

  for (const [what, text] of [
    ["no JSON", "hello\n"],
    ["another shape", '{"type":"SOMETHING","object":{}}\n'],
    ["an object without a name", '{"type":"ADDED","object":{"metadata":{}}}\n'],
    ["a status that is no 410", '{"type":"ERROR","object":{"kind":"Status","code":500}}\n'],
    ["an event without an end", "x".repeat(5 * 2 ** 20)],
  ] as const) {
    test(`nonsense leads to a new list, and is told: ${what}`, async (t) => {
      const { api, running } = await watching(t);
      api.silently(() => api.set(slice("b", [{ ip: "10.0.0.2" }])));
      api.write(text);
      await running.until("it is listed again", ({ found, error }) => error === null && found?.targets.length === 2);
      assert.ok(running.looks.some(({ error, found }) => error !== null && found === null));
    });
  }

  test("an API server that goes and comes back is asked again, and what it says meanwhile is no list", async (t) => {
    const { api, running } = await watching(t);
    api.intercept = (_request, response) => {
      response.destroy();
      return true;
    };
    api.cutWatches();
    await running.until("it failed", ({ error }) => /^there is no connection to the API server/.test(error ?? ""));
    assert.deepEqual(running.keys(), ["10.0.0.1:8000"], "the last list");
    api.silently(() => api.set(slice("b", [{ ip: "10.0.0.2" }])));
    api.intercept = () => false;
    await running.until("it is listed again", ({ found, error }) => error === null && found?.targets.length === 2);
  });

  test("it ends at once, whatever runs", async (t) => {
    const { api, running } = await watching(t);
    const before = running.looks.length;
    await running.stop();
    await until("its watch ended", () => api.watches.size === 0);
    api.set(slice("b", [{ ip: "10.0.0.2" }]));
    assert.equal(running.looks.length, before);
  });
});

describe("refusals", () => {
  for (const [what, code, headers, error] of [
    ["credentials", 401, {}, "the API server refuses the credentials (401): renew them"],
    ["too much", 429, { "retry-after": "1" }, "the API server has too much to do (429)"],
    ["a fault", 500, {}, "the API server answered with status 500"],
    [
      "a redirect is not followed",
      302,
      { location: "http://169.254.169.254/" },
      "the API server answered with status 302",
    ],
    [
      "no such thing",
      404,
      {},
      "the API server has no /apis/discovery.k8s.io/v1/namespaces/default/endpointslices (404)",
    ],
  ] as const) {
    test(what, async (t) => {
      const { running } = await started(t, SERVICE, {}, (server) => {
        server.intercept = (_request, response) => {
          status(response, code, what, headers);
          return true;
        };
      });
      const look = await running.until("it failed", () => true);
      assert.deepEqual(look, { found: null, error });
    });
  }

  test("credentials that are renewed in the kubeconfig are used with the next try", async (t) => {
    const api = await apiServer(t);
    api.set(slice("a", [{ ip: "10.0.0.1" }]));
    const old = kubeconfigFor(t, { url: api.url, token: "old" });
    const running = follow(t, old);
    await running.until("it is refused", ({ error }) => error?.includes("401") === true);
    writeFileSync(old, readFileSync(kubeconfigFor(t, api), "utf8"));
    await running.until("it is listed", ({ found, error }) => found !== null && error === null);
  });

  test("nothing that is told or logged holds the token", async (t) => {
    const { api, running } = await started(t, SERVICE, { token: "hunter2-secret" }, (server) =>
      server.set(slice("a", [{ ip: "10.0.0.1" }])),
    );
    await until("it watches", () => api.watches.size === 1);
    for (const answer of ["401", "break", "nonsense"]) {
      const before = running.looks.length;
      api.intercept = (request, response) => {
        const echo = JSON.stringify(request.headers);
        if (answer === "401") status(response, 401, echo, { "x-echo": encodeURIComponent(echo) });
        else if (answer === "break") response.destroy(new Error(echo));
        else response.end(echo);
        return true;
      };
      api.cutWatches();
      await until(`it failed by ${answer}`, () => running.looks.slice(before).some(({ error }) => error !== null));
    }
    assert.ok(api.asked.some(({ authorization }) => authorization === "Bearer hunter2-secret"));
    assert.ok(!inspect(running.looks, { depth: 9 }).includes("hunter2"));
  });
});
