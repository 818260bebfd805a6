/** The poller of a gateway: what it finds is noted in the fleet, and told to whom it concerns. */

import type { FleetTable } from "@zml/engine";
import { Poller } from "../availability/index.ts";
import type { Clock } from "../clock.ts";
import type { Fleet } from "./fleet.ts";
import type { GatewayLog } from "./gateway-log.ts";

export interface PollerParts {
  readonly table: FleetTable;
  readonly clock: Clock;
  readonly fleet: Fleet;
  readonly log: GatewayLog;
  /** What was noted has to be put in force. */
  readonly onChange: () => void;
  /** A node refuses connections. */
  readonly onRefused: (row: number) => void;
}

export function createPoller({ table, clock, fleet, log, onChange, onRefused }: PollerParts): Poller {
  return new Poller({
    table,
    clock,
    onModels: (row, models) => {
      fleet.noteModels(row, models);
      onChange();
    },
    onEngine: (row, engine) => {
      fleet.noteEngine(row, engine);
      onChange();
    },
    onReading: (row) => {
      if (fleet.noteAnswer(row)) onChange();
    },
    onDown: (row, cause) => {
      const { id, url } = fleet.nodeAt(row)?.config ?? {};
      log.warn({ node: id, url, cause }, "a node is down");
      if (cause === "refused") onRefused(row);
    },
    onError: (row, error) => {
      const shown = error instanceof Error ? (error.stack ?? error.message) : String(error);
      log.error({ node: fleet.nodeAt(row)?.config.id, error: shown }, "a poll failed inside the gateway");
    },
    onKeptIn: (row, cause) => {
      const { id, url } = fleet.nodeAt(row)?.config ?? {};
      const words = "polls of a node fail, and it stays in: health.max_ejected_share of a model's nodes are out";
      log.warn({ node: id, url, cause }, words);
    },
    onUp: (row) => log.info({ node: fleet.nodeAt(row)?.config.id }, "a node is up"),
  });
}
