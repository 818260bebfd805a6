import type { IncomingMessage, Server } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { EngineKind } from "./engine-behaviour.ts";
import type { CutKind } from "./faults.ts";
import type { FakeNode, NodeState } from "./node.ts";
import { startFakeNode } from "./node.ts";
import type { FakeNodeOptions } from "./node-options.ts";

/** A fleet to start. In a spec that crosses a process, options are plain JSON: `outputTokens` is a number. */
export type FakeFleetSpec = {
  readonly nodes: readonly FakeNodeOptions[];
  /** Port of the HTTP control, 0 for a free one; none without it. */
  readonly controlPort?: number;
};

/** What to do to one node. */
export type NodeCommand =
  | { readonly kind: "kill"; readonly how?: "fin" | "rst" }
  | { readonly kind: "terminate" }
  | { readonly kind: "start" }
  | { readonly kind: "engine-death" }
  | { readonly kind: "report" }
  | { readonly kind: "clear" }
  | { readonly kind: "hang" }
  | { readonly kind: "blackhole" }
  | { readonly kind: "refuse" }
  | { readonly kind: "green-but-dead" }
  | { readonly kind: "gzip" }
  | { readonly kind: "status"; readonly code: number; readonly body?: string; readonly count?: number }
  | { readonly kind: "error-first-event"; readonly count?: number }
  | { readonly kind: "cut"; readonly afterEvents: number; readonly how: CutKind; readonly count?: number }
  | { readonly kind: "stall"; readonly afterEvents: number; readonly ms?: number; readonly count?: number }
  | { readonly kind: "abort-finish"; readonly afterEvents?: number; readonly count?: number }
  | { readonly kind: "bad-chunk"; readonly afterEvents?: number; readonly count?: number }
  | { readonly kind: "slow-first-byte"; readonly ms: number }
  | { readonly kind: "slow-health"; readonly ms: number }
  | { readonly kind: "overloaded"; readonly retryAfterS?: number; readonly count?: number }
  | { readonly kind: "misconfigured"; readonly code: 401 | 404 };

/** A node as seen from outside. */
export type NodeReport = {
  readonly id: string;
  readonly engine: EngineKind;
  readonly model: string;
  readonly url: string;
  readonly port: number;
  readonly state: NodeState;
  readonly running: number;
  readonly waiting: number;
  readonly received: number;
};

export function reportOf(node: FakeNode): NodeReport {
  return {
    id: node.id,
    engine: node.engine,
    model: node.settings.model,
    url: node.url,
    port: node.port,
    state: node.state,
    running: node.runningCount,
    waiting: node.waitingCount,
    received: node.received.count,
  };
}

/** Does one command. Resolves when it has taken effect (a start: when the node listens). */
export async function commandNode(node: FakeNode, command: NodeCommand): Promise<NodeReport> {
  const { faults } = node;
  switch (command.kind) {
    case "kill":
      node.kill(command.how);
      break;
    case "terminate":
      node.terminate();
      break;
    case "start":
      await node.start();
      break;
    case "engine-death":
      node.engineDeath();
      break;
    case "report":
      break;
    case "clear":
      await faults.clear();
      break;
    case "hang":
      faults.hang();
      break;
    case "blackhole":
      faults.blackhole();
      break;
    case "refuse":
      faults.refuse();
      break;
    case "green-but-dead":
      faults.greenButDead();
      break;
    case "gzip":
      faults.gzip();
      break;
    case "status":
      faults.status(command.code, command.body, {}, command.count);
      break;
    case "error-first-event":
      faults.errorFirstEvent(command.count);
      break;
    case "cut":
      faults.cutAfterEvents(command.afterEvents, command.how, command.count);
      break;
    case "stall":
      faults.stallAfterEvents(command.afterEvents, command.ms, command.count);
      break;
    case "abort-finish":
      faults.abortFinish(command.afterEvents, command.count);
      break;
    case "bad-chunk":
      faults.badChunk(command.afterEvents, command.count);
      break;
    case "slow-first-byte":
      faults.slowFirstByte(command.ms);
      break;
    case "slow-health":
      faults.slowHealth(command.ms);
      break;
    case "overloaded":
      faults.overloaded(command.retryAfterS, command.count);
      break;
    case "misconfigured":
      faults.misconfigured(command.code);
      break;
    default: {
      const unknown: { readonly kind?: unknown } = command;
      throw new Error(`unknown command ${String(unknown.kind)}: see NodeCommand for the list`);
    }
  }
  return reportOf(node);
}

/** Fake nodes that live in this process, with an optional HTTP control. */
export type FakeFleet = {
  readonly nodes: readonly FakeNode[];
  /** `GET /nodes`, `POST /nodes/<id>` with a `NodeCommand`; empty without a control port. */
  readonly controlUrl: string;
  node(id: string): FakeNode;
  command(id: string, command: NodeCommand): Promise<NodeReport>;
  stop(): Promise<void>;
};

/** Starts all nodes of a spec; rejects when one can't start, with the others stopped. */
export async function runFakeFleet(spec: FakeFleetSpec): Promise<FakeFleet> {
  const started = await Promise.allSettled(spec.nodes.map((options) => startFakeNode(options)));
  const nodes = started.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = started.find((result) => result.status === "rejected");
  if (failed !== undefined) {
    await Promise.all(nodes.map((node) => node.stop()));
    throw failed.reason;
  }
  const node = (id: string): FakeNode => {
    const found = nodes.find((candidate) => candidate.id === id);
    if (found === undefined) throw new Error(`no node ${id}: use one of ${nodes.map((one) => one.id).join(", ")}`);
    return found;
  };
  const control = spec.controlPort === undefined ? undefined : await startControl(node, nodes, spec.controlPort);
  return {
    nodes,
    controlUrl: control === undefined ? "" : `http://127.0.0.1:${(control.address() as AddressInfo).port}`,
    node,
    command: (id, command) => commandNode(node(id), command),
    stop: async () => {
      control?.close();
      control?.closeAllConnections();
      await Promise.all(nodes.map((one) => one.stop()));
    },
  };
}

async function startControl(find: (id: string) => FakeNode, nodes: readonly FakeNode[], port: number): Promise<Server> {
  const server = createServer((request, response) => {
    const answer = (status: number, value: unknown) => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    };
    controlAnswer(request, find, nodes).then(
      (value) => answer(200, value),
      (error: unknown) => answer(400, { error: error instanceof Error ? error.message : String(error) }),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return server;
}

async function controlAnswer(
  request: IncomingMessage,
  find: (id: string) => FakeNode,
  nodes: readonly FakeNode[],
): Promise<unknown> {
  const [, collection, id] = (request.url ?? "").split("/");
  if (collection !== "nodes") throw new Error("unknown path: use /nodes or /nodes/<id>");
  if (request.method === "GET") return nodes.map(reportOf);
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const command = JSON.parse(Buffer.concat(parts).toString("utf8")) as NodeCommand;
  return commandNode(find(decodeURIComponent(id ?? "")), command);
}
