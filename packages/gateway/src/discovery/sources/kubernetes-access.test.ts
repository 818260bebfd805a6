import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { selfSigned } from "../../../../client/test/self-signed.ts";
import { apiServer, kubeconfigFor, slice } from "../testing/api-server.ts";
import { follow, SERVICE } from "../testing/cluster-source.ts";
import { runningSource, sourceConfig } from "../testing/running-source.ts";
import { kubernetesSource, startKubernetesSource } from "./kubernetes.ts";

/** What a cluster tells its pods; null: there is none. Until the end of the test. */
function inCluster(t: TestContext, address: { host: string; port: string } | null): void {
  const set = (name: string, value: string | undefined): void => {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  };
  for (const [name, value] of [
    ["KUBERNETES_SERVICE_HOST", address?.host],
    ["KUBERNETES_SERVICE_PORT", address?.port],
  ] as const) {
    const before = process.env[name];
    t.after(() => set(name, before));
    set(name, value);
  }
}

describe("where the API server is", () => {
  test("TLS with the authority that the kubeconfig names, and with no other", async (t) => {
    const tls = selfSigned();
    const api = await apiServer(t, { tls });
    api.set(slice("a", [{ ip: "10.0.0.1" }]));
    const url = api.url.replace("127.0.0.1", "localhost");
    const good = follow(t, kubeconfigFor(t, { url, token: api.token }, { ca: tls.cert }));
    await good.until("it is listed", ({ found }) => found !== null);
    const bad = follow(t, kubeconfigFor(t, { url, token: api.token }, { ca: selfSigned().cert }));
    const { error } = await bad.until("it is refused", () => true);
    assert.match(error ?? "", /its certificate is signed by nobody whom the kubeconfig names|SIGNATURE/);
    assert.ok(api.asked.every(({ authorization }) => authorization === `Bearer ${api.token}`));
  });

  test("a host that takes connections and says nothing is given up", async (t) => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => void sockets.push(socket));
    await once(silent.listen(0, "127.0.0.1"), "listening");
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const running = follow(t, kubeconfigFor(t, { url, token: "x" }), `${SERVICE}\ntimeout_ms: 200`);
    const { error } = await running.until("it failed", () => true);
    assert.equal(error, "the API server did not answer in time");
  });

  test("what is wrong with the kubeconfig is said without its content", async (t) => {
    const api = await apiServer(t);
    const path = kubeconfigFor(t, api);
    writeFileSync(path, "users: [ hunter2-secret: : :");
    const broken = await follow(t, path).until("it failed", () => true);
    assert.equal(broken.error, `the kubeconfig ${path} can't be read`);
    writeFileSync(path, "{}");
    const empty = await follow(t, path).until("it failed", () => true);
    assert.match(empty.error ?? "", /names no cluster|can't be read/);
    const missing = await follow(t, `${path}.none`).until("it failed", () => true);
    assert.equal(missing.error, `the kubeconfig ${path}.none can't be read`);
    const context = await follow(t, kubeconfigFor(t, api), `${SERVICE}\ncontext: other`).until("it failed", () => true);
    assert.equal(context.error, "the kubeconfig has no context other");
  });

  test("a server in clear text needs the kubeconfig's word", async (t) => {
    const api = await apiServer(t);
    const running = follow(t, kubeconfigFor(t, api, { ca: selfSigned().cert }));
    const { error } = await running.until("it failed", () => true);
    assert.match(error ?? "", /^the cluster's server is http:\/\//);
    assert.deepEqual(api.asked, [], "nothing was sent");
  });

  test("in a pod it is the pod's own account, whose token is read again when it is replaced", async (t) => {
    const tls = selfSigned();
    const api = await apiServer(t, { tls, token: "first" });
    api.set(slice("a", [{ ip: "10.0.0.1" }], { namespace: "inference" }));
    const root = mkdtempSync(join(tmpdir(), "zml-pod-"));
    t.after(() => rmSync(root, { recursive: true }));
    const account = join(root, "var/run/secrets/kubernetes.io/serviceaccount");
    mkdirSync(account, { recursive: true });
    writeFileSync(join(account, "ca.crt"), tls.cert);
    writeFileSync(join(account, "token"), "first");
    writeFileSync(join(account, "namespace"), "inference\n");
    const own = await import("@kubernetes/client-node");
    class PodConfig extends own.KubeConfig {
      override loadFromCluster(): void {
        super.loadFromCluster(root);
      }
    }
    inCluster(t, { host: "localhost", port: new URL(api.url).port });
    const config = sourceConfig(`kind: kubernetes\nnode: { family: F }\n${SERVICE}`);
    const load = () => Promise.resolve({ KubeConfig: PodConfig });
    const running = runningSource(t, kubernetesSource(load), config);
    await running.until("it is listed", ({ found }) => found !== null);
    assert.deepEqual(running.keys(), ["10.0.0.1:8000"], "of the pod's own namespace");
    api.token = "second";
    api.cutWatches();
    await running.until("the old token is refused", ({ error }) => error?.includes("401") === true);
    writeFileSync(join(account, "token"), "second");
    await running.until("the new one is taken", ({ error }) => error === null);
  });

  test("outside of a cluster it says that a kubeconfig is needed", async (t) => {
    inCluster(t, null);
    const config = sourceConfig(`kind: kubernetes\nnode: { family: F }\n${SERVICE}`);
    const { error } = await runningSource(t, startKubernetesSource, config).until("it failed", () => true);
    assert.equal(error, "this is no pod of a cluster: name a file in kubeconfig");
  });

  test("without the official client it says what to install", async (t) => {
    const missing = () => Promise.reject(Object.assign(new Error("no"), { code: "ERR_MODULE_NOT_FOUND" }));
    const config = sourceConfig(`kind: kubernetes\nnode: { family: F }\n${SERVICE}`);
    const { error } = await runningSource(t, kubernetesSource(missing), config).until("it failed", () => true);
    assert.equal(
      error,
      "the package @kubernetes/client-node is not installed: npm install @kubernetes/client-node beside zml",
    );
  });
});
