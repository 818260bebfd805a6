import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { FakeFleetSpec, NodeCommand, NodeReport } from "./fleet.ts";
import type { FleetReply, FleetRequest } from "./fleet-messages.ts";

/** A fleet of fake nodes in a child process. */
export type SpawnedFleet = {
  readonly nodes: readonly NodeReport[];
  readonly controlUrl: string;
  readonly pid: number;
  command(id: string, command: NodeCommand): Promise<NodeReport>;
  /** Ends the child; resolves when it is gone. */
  stop(): Promise<void>;
};

/** Starts a fleet in a child process; resolves when all nodes listen, rejects when one can't. */
export async function spawnFakeFleet(spec: FakeFleetSpec): Promise<SpawnedFleet> {
  const child = fork(fileURLToPath(new URL("../fake-fleet-process.ts", import.meta.url)));
  const pending = new Map<number, { resolve(reply: FleetReply): void; reject(error: Error): void }>();
  let callCount = 0;
  child.on("message", (reply: FleetReply) => {
    const call = pending.get(reply.call);
    pending.delete(reply.call);
    if (reply.kind === "failed") call?.reject(new Error(reply.message));
    else call?.resolve(reply);
  });
  child.on("exit", (code, signal) => {
    for (const call of pending.values()) call.reject(new Error(`the fleet's process ended (${signal ?? code})`));
    pending.clear();
  });
  const ask = (request: FleetRequest): Promise<FleetReply> =>
    new Promise((resolve, reject) => {
      if (!child.connected) {
        reject(new Error("the fleet's process is gone"));
        return;
      }
      pending.set(request.call, { resolve, reject });
      child.send(request);
    });
  const nextCall = () => {
    callCount += 1;
    return callCount;
  };
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    if (child.connected) child.disconnect();
    await exit;
  };
  try {
    const ready = await ask({ kind: "run", call: nextCall(), spec });
    if (ready.kind !== "ready") throw new Error(`the fleet answered ${ready.kind} to a spec`);
    return {
      nodes: ready.nodes,
      controlUrl: ready.controlUrl,
      pid: child.pid ?? -1,
      command: async (id, command) => {
        const reply = await ask({ kind: "command", call: nextCall(), id, command });
        if (reply.kind !== "done") throw new Error(`the fleet answered ${reply.kind} to a command`);
        return reply.report;
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
