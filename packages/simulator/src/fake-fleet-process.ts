import type { FakeFleet } from "./fake/fleet.ts";
import { reportOf, runFakeFleet } from "./fake/fleet.ts";
import type { FleetReply, FleetRequest } from "./fake/fleet-messages.ts";

/**
 * Entry of a child process that holds a fleet of fake nodes, so that their work doesn't slow what is measured. Speaks
 * the messages of `fleet-messages.ts` over IPC and ends when the parent disconnects.
 */
let fleet: FakeFleet | undefined;

function reply(message: FleetReply): void {
  if (process.connected) process.send?.(message);
}

async function serve(request: FleetRequest): Promise<FleetReply> {
  switch (request.kind) {
    case "run": {
      if (fleet !== undefined) throw new Error("the fleet runs already: one spec for each process");
      fleet = await runFakeFleet(request.spec);
      return { kind: "ready", call: request.call, nodes: fleet.nodes.map(reportOf), controlUrl: fleet.controlUrl };
    }
    case "command": {
      if (fleet === undefined) throw new Error("no fleet yet: send a spec first");
      return { kind: "done", call: request.call, report: await fleet.command(request.id, request.command) };
    }
  }
}

process.on("message", (request: FleetRequest) => {
  serve(request).then(reply, (error: unknown) => {
    reply({ kind: "failed", call: request.call, message: error instanceof Error ? error.message : String(error) });
  });
});

/** Longest that closing the nodes' connections takes, ms. */
const STOP_MS = 2000;

// Not by letting the event loop run empty: Node 24 then closes what is left by itself, and when the parent was killed at a
// bad moment it spins in that (`Environment::CleanupHandles`) for ever, at full speed and with the parent's pipes open.
process.on("disconnect", () => {
  setTimeout(() => process.exit(1), STOP_MS).unref();
  Promise.resolve(fleet?.stop()).finally(() => process.exit(0));
});
