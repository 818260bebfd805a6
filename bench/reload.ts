/**
 * What a change of the configuration costs those who are being served: 200 streams run through one gateway while its file
 * and its objects change. Node, gateway and readers are processes of their own.
 *
 * - `streams_touched`: streams that ended, broke or missed a token, over the whole run.
 * - `apply_ms`: from the word to read the file again, or from the request to the admin API, to the acknowledgment of every
 *   serving thread. `one_of_each` is six requests: a node, a policy and a key are made and deleted.
 * - `longest_gap_ms`: longest time between two tokens of one stream as its reader sees it, quiet and during applies, in
 *   turns. What else runs on the machine lengthens both.
 * - `longest_pause_ms`: longest time that a serving thread's event loop stood still, as `reload/measured-worker.ts` says.
 *
 * `--quick` takes a tenth of the nodes and one round, so that a change can be tried in some seconds; its figures carry
 * other names and have no goals.
 */

import { measureReload } from "./reload/measure-reload.ts";
import { type Figure, isJsonAsked, report } from "./report.ts";

const args = process.argv.slice(2);
const json = isJsonAsked(args);
const isQuick = args.includes("--quick");

/** `--rounds N`: more rounds take longer, and find rarer pauses. */
const rounds = args.includes("--rounds") ? Number(args[args.indexOf("--rounds") + 1]) : 3;
if (!(rounds >= 1 && rounds <= 100)) throw new Error("--rounds takes a number from 1 to 100");
const plan = isQuick
  ? { streams: 50, nodes: 1_000, rounds: 1, quietMs: 1_000 }
  : { streams: 200, nodes: 10_000, rounds, quietMs: 2_000 };
const measured = await measureReload({ ...plan, say: (text) => json || process.stderr.write(`${text}\n`) });
const streams = `streams=${plan.streams}`;
const nodes = `nodes=${plan.nodes}`;
const figures: Figure[] = [
  { name: `streams_touched{${streams}}`, value: measured.touched, unit: "streams" },
  { name: `longest_pause_ms{${nodes}}`, value: measured.pauseMs, unit: "ms" },
  { name: `longest_pause_wall_ms{${nodes}}`, value: measured.pauseWallMs, unit: "ms" },
  { name: `longest_gap_ms{${streams},during=quiet}`, value: measured.quietGapMs, unit: "ms" },
  { name: `longest_gap_ms{${streams},during=applies}`, value: measured.applyGapMs, unit: "ms" },
  ...measured.steps.map(({ name, tookMs }) => ({ name: `apply_ms{${nodes},step=${name}}`, value: tookMs, unit: "ms" })),
];
report({ bench: "reload", json, figures });
