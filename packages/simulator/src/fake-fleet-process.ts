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

process.on("disconnect", () => {
  fleet?.stop();
});
