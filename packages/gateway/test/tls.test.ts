/** TLS on the data port: who gets in, which version of HTTP is spoken, how certificates change. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { createServer as createHttpsServer, request as httpsRequest } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { reach } from "../src/commands/check-nodes-socket.ts";
import { readConfig } from "../src/config/read-config.ts";
import type { ServerTls } from "../src/thread-messages.ts";
import { certificatePath, identity, pem } from "./certificates.ts";
import { fakeNode, folder, PORTS, startOn } from "./control-fixture.ts";
import { block, FLAG, FRAME, frame, PREFACE, postFields } from "./h2-frames.ts";
import { type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { chatBody, post, RawClient } from "./raw-client.ts";
import { chatAnswer, healthy, type NodeScript, startScriptedNode } from "./scripted-node.ts";

const SERVER: ServerTls = { ...identity("server"), clientCa: null, minVersion: "1.2" };

async function gateway(
  t: TestContext,
  options: { tls?: ServerTls; data?: object; script?: NodeScript } = {},
): Promise<PlaneFixture> {
  const node = await startScriptedNode(options.script ?? healthy("a"));
  const plane = await startPlane([{ id: "a", url: node.url }], {
    tls: options.tls ?? SERVER,
    file: { data: options.data ?? {} },
  });
  t.after(async () => {
    await plane.stop();
    await node.stop();
  });
  return plane;
}

/** Shakes hands; rejects when the server does not want to. */
function handshake(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", ca: pem("ca"), servername: "localhost", ...options });
    socket.once("secureConnect", () => {
      socket.off("error", reject);
      socket.on("error", () => {});
      resolve(socket);
    });
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("closed in the handshake")));
  });
}

/** All that a connection says until it closes. */
function rest(socket: TLSSocket): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
    });
    socket.once("close", () => resolve(text));
  });
}

function postHttps(url: string, options: object = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      `${url}/v1/chat/completions`,
      { method: "POST", ca: pem("ca"), servername: "localhost", agent: false, ...options },
      (response) => {
        response.resume();
        response.once("end", () => resolve(response.statusCode ?? 0));
      },
    );
    request.once("error", reject);
    request.end(chatBody());
  });
}

function postHttp2(url: string, options: ConnectionOptions = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2(url, { ca: pem("ca"), servername: "localhost", ...options });
    session.once("error", reject);
    const stream = session.request({ ":method": "POST", ":path": "/v1/chat/completions" });
    stream.once("response", (headers) => {
      stream.resume();
      stream.once("end", () => {
        session.close();
        resolve(Number(headers[":status"]));
      });
    });
    stream.once("error", reject);
    stream.end(chatBody());
  });
}

const https = (plane: PlaneFixture): string => `https://127.0.0.1:${plane.port}`;

test("the handshake chooses HTTP/2 or HTTP/1.1", async (t) => {
  const plane = await gateway(t);
  assert.equal(await postHttps(https(plane)), 200);
  assert.equal(await postHttp2(https(plane)), 200);
  const both = await handshake(plane.port, { ALPNProtocols: ["http/1.1", "h2"] });
  assert.equal(both.alpnProtocol, "h2");
  both.destroy();
  await assert.rejects(handshake(plane.port, { ALPNProtocols: ["spdy/3"] }), /no application protocol|closed/i);
  await plane.settled();
});

test("a client without ALPN speaks HTTP/1.1, and no preface makes it HTTP/2", async (t) => {
  const plane = await gateway(t);
  const plain = await handshake(plane.port);
  plain.write(post(chatBody(), { connection: "close" }));
  assert.match(await rest(plain), /^HTTP\/1\.1 200 /);
  const prior = await handshake(plane.port);
  prior.write(PREFACE);
  assert.match(await rest(prior), /^HTTP\/1\.1 400 /);
});

test("a client that chose HTTP/2 and speaks HTTP/1.1 is cut off", async (t) => {
  const plane = await gateway(t);
  const socket = await handshake(plane.port, { ALPNProtocols: ["h2"] });
  socket.write(post(chatBody()));
  assert.doesNotMatch(await rest(socket), /^HTTP/);
  await plane.settled();
});

test("slow and silent clients are cut off", async (t) => {
  const plane = await gateway(t, { data: { head_ms: 300 } });
  const silent = await RawClient.open(plane.port);
  await silent.closed();
  const clearText = await RawClient.open(plane.port);
  clearText.send(post(chatBody()));
  await clearText.closed();
  assert.doesNotMatch(clearText.text, /HTTP\/1\.1 200/);
  const slow = await handshake(plane.port);
  slow.write("POST /v1/chat/completions HTTP/1.1\r\n");
  assert.match(await rest(slow), /^HTTP\/1\.1 408 /);
  const idle = await handshake(plane.port, { ALPNProtocols: ["h2"] });
  await rest(idle);
  assert.equal(await postHttps(https(plane)), 200);
});

test("a caller over TLS and HTTP/2 who closes its connection is seen to leave", async (t) => {
  const plane = await gateway(t, { script: () => {} });
  const socket = await handshake(plane.port, { ALPNProtocols: ["h2"] });
  socket.write(PREFACE, "latin1");
  socket.write(frame(FRAME.settings, 0, 0));
  socket.write(frame(FRAME.headers, FLAG.endHeaders, 1, block(postFields())));
  socket.write(frame(FRAME.data, FLAG.endStream, 1, Buffer.from(chatBody())));
  await until(() => plane.inFlight() === 1, "the request");
  socket.end();
  await plane.settled();
});

test("with client_ca_file only callers with a certificate of it get in", async (t) => {
  const plane = await gateway(t, { tls: { ...SERVER, clientCa: pem("ca") } });
  assert.equal(await postHttps(https(plane), identity("client")), 200);
  assert.equal(await postHttp2(https(plane), identity("client")), 200);
  await assert.rejects(postHttps(https(plane)));
  await assert.rejects(postHttps(https(plane), identity("stranger")));
  await assert.rejects(postHttp2(https(plane)));
});

test("min_version is kept", async (t) => {
  const plane = await gateway(t, { tls: { ...SERVER, minVersion: "1.3" } });
  await assert.rejects(handshake(plane.port, { maxVersion: "TLSv1.2" }));
  assert.equal((await handshake(plane.port)).getProtocol(), "TLSv1.3");
});

test("a certificate that changed is in force without a restart, and a bad one leaves the old one", async (t) => {
  const node = await fakeNode(t);
  const place = folder(t);
  const [cert, key] = [join(place, "cert.pem"), join(place, "key.pem")];
  const install = (name: "server" | "renewed") => {
    writeFileSync(cert, pem(name));
    writeFileSync(key, pem(`${name}-key`));
  };
  install("server");
  const yaml =
    `data: { listen: 127.0.0.1:0, tls: { cert_file: ${cert}, key_file: ${key} } }\nadmin: { listen: 127.0.0.1:0 }\n` +
    `nodes:\n  - { id: a, url: "${node.url}", family: H100 }\n`;
  const { gateway, log } = await startOn(t, yaml, { isWatched: true });
  const { port } = gateway.dataAddress;
  const serverName = async (): Promise<string> => {
    const socket = await handshake(port);
    const { subject } = socket.getPeerCertificate();
    socket.destroy();
    return String(subject.CN);
  };
  assert.match(gateway.dataUrl, /^https:/);
  assert.equal(await serverName(), "server");
  const old = await handshake(port);

  writeFileSync(cert, "no certificate");
  await until(() => log.has("error", /refused.*no certificate in PEM/), "the refusal of a bad certificate");
  assert.equal(await serverName(), "server");

  writeFileSync(cert, pem("renewed"));
  await until(() => log.has("error", /refused.*not that of the certificate/), "the refusal of half a change");
  assert.equal(await serverName(), "server");

  writeFileSync(key, pem("renewed-key"));
  const deadline = performance.now() + 5000;
  while ((await serverName()) !== "renewed") assert.ok(performance.now() < deadline, "the new certificate");

  // a connection that was open goes on
  old.write(post(chatBody({ model: "m" }), { connection: "close" }));
  assert.match(await rest(old), /^HTTP\/1\.1 200 /);

  install("server");
  const reloaded = await gateway.reload();
  assert.ok(reloaded.kind === "applied" || reloaded.kind === "unchanged", reloaded.kind);
  assert.equal(await serverName(), "server");
});

test("what is wrong with certificate files is told with line and path", () => {
  const read = (tls: string) =>
    readConfig(`${PORTS.replace("127.0.0.1:0 }", `127.0.0.1:0, tls: { ${tls} } }`)}`, {
      fileName: "zml.yaml",
      env: {},
    });
  const files = (cert: string, key: string, more = "") => `cert_file: ${cert}, key_file: ${key}${more}`;
  const [server, serverKey, stranger] = [
    certificatePath("server"),
    certificatePath("server-key"),
    certificatePath("stranger-key"),
  ];
  const cases: [string, string, RegExp][] = [
    [files("nowhere.pem", serverKey), "data.tls.cert_file", /there is no such file: .*nowhere\.pem/],
    [files(server, "nowhere.pem"), "data.tls.key_file", /there is no such file/],
    [files(serverKey, serverKey), "data.tls.cert_file", /no certificate in PEM/],
    [files(server, server), "data.tls.key_file", /no key in PEM/],
    [files(server, stranger), "data.tls.key_file", /not that of the certificate/],
    [files(server, serverKey, `, client_ca_file: ${serverKey}`), "data.tls.client_ca_file", /no certificate in PEM/],
  ];
  for (const [tls, path, message] of cases) {
    const { errors, config } = read(tls);
    assert.equal(config, undefined, tls);
    assert.equal(errors.length, 1, JSON.stringify(errors));
    assert.equal(errors[0]?.path, path);
    assert.equal(errors[0]?.line, 1);
    assert.match(errors[0]?.message ?? "", message);
    assert.ok(!JSON.stringify(errors).includes(readFileSync(serverKey, "utf8").split("\n")[1] as string));
  }
  const good = read(files(server, serverKey));
  assert.deepEqual(good.errors, []);
  assert.ok(!JSON.stringify(good).includes("PRIVATE KEY"), "the key shows");
});

test("polls and requests use a node's own TLS, and a changed authority counts without a restart", async (t) => {
  const node = createHttpsServer(identity("server"), (request, response) => {
    request.resume();
    const body = request.method === "GET" ? '{"data":[{"id":"m"}]}' : chatAnswer("tls");
    response.writeHead(200, { "content-type": "application/json" }).end(body);
  });
  await new Promise<void>((resolve) => node.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    node.close();
    node.closeAllConnections();
  });
  const { port } = node.address() as AddressInfo;
  const ca = join(folder(t), "ca.pem");
  writeFileSync(ca, pem("other-ca"));
  const entry = (id: string, tls: string) =>
    `  - { id: ${id}, url: "https://127.0.0.1:${port}/${id}", family: H100, engine: custom, models: [m], tls: { ${tls} } }\n`;
  const yaml = `${PORTS}health: { poll_interval_ms: 100 }\nnodes:\n${entry("own", `ca_file: ${ca}`)}${entry("any", "insecure_skip_verify: true")}`;
  const { gateway, log } = await startOn(t, yaml, { isWatched: true });
  const stateOf = (id: string) => gateway.stats().fleet.nodes.find((one) => one.id === id);
  await until(() => stateOf("any")?.state === "healthy", "the node that is not verified");
  await until(() => stateOf("own")?.state === "unhealthy", "the node whose authority is not known");
  assert.equal(stateOf("any")?.tls, "insecure_skip_verify");
  assert.equal(stateOf("own")?.tls, "verified");

  writeFileSync(ca, pem("ca"));
  await until(() => stateOf("own")?.state === "healthy", "the node, after its authority was written");
  assert.ok(!log.has("error", /./), JSON.stringify(log.lines));
  const answer = await fetch(`${gateway.dataUrl}/v1/chat/completions`, {
    method: "POST",
    body: chatBody({ model: "m" }),
  });
  assert.equal(answer.status, 200);
  assert.match(await answer.text(), /"content":"tls"/);
});

test("what is wrong with a node's TLS is told with its path, and skip-verify is warned of", () => {
  const read = (url: string, tls: string) =>
    readConfig(`${PORTS}nodes:\n  - { id: a, url: "${url}", family: H100, tls: { ${tls} } }\n`, {
      fileName: "zml.yaml",
      env: {},
    });
  const cases: [string, string, string, RegExp][] = [
    ["https://x", "ca_file: nowhere.pem", "nodes[0].tls.ca_file", /there is no such file/],
    ["https://x", `ca_file: ${certificatePath("server-key")}`, "nodes[0].tls.ca_file", /no certificate/],
    ["https://x", `cert_file: ${certificatePath("client")}`, "nodes[0].tls", /go together/],
    [
      "https://x",
      `cert_file: ${certificatePath("client")}, key_file: ${certificatePath("server-key")}`,
      "nodes[0].tls.key_file",
      /not that of the certificate/,
    ],
    ["http://x", `ca_file: ${certificatePath("ca")}`, "nodes[0].tls", /http:\/\/: tls has no effect/],
  ];
  for (const [url, tls, path, message] of cases) {
    const { errors } = read(url, tls);
    assert.equal(errors.length, 1, JSON.stringify(errors));
    assert.deepEqual([errors[0]?.path, errors[0]?.line], [path, 4]);
    assert.match(errors[0]?.message ?? "", message);
  }
  const skipped = read("https://x", "insecure_skip_verify: true");
  assert.deepEqual(skipped.errors, []);
  assert.match(skipped.warnings[0]?.message ?? "", /insecure_skip_verify: whoever is on the way/);
});

test("zml nodes check goes to a node the way traffic does: with the node's own TLS", async (t) => {
  const node = createHttpsServer(identity("server"), (request, response) => {
    request.resume();
    const body = request.method === "GET" ? '{"data":[{"id":"m"}]}' : chatAnswer("tls");
    response.writeHead(200, { "content-type": "application/json" }).end(body);
  });
  await new Promise<void>((resolve) => node.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    node.close();
    node.closeAllConnections();
  });
  const { port } = node.address() as AddressInfo;
  for (const [tls, reached] of [
    [{ ca: pem("ca"), cert: null, key: null, serverName: null, skipVerify: false }, true],
    [null, false],
  ] as const) {
    const found = await reach({
      url: `https://127.0.0.1:${port}`,
      serverName: null,
      allowsLinkLocal: false,
      tls,
      connectMs: 2000,
      signal: AbortSignal.timeout(5000),
    });
    assert.equal(found.isReached, reached);
    if (found.isReached) found.socket.destroy();
    else assert.equal(found.stage, "tls");
  }
});
