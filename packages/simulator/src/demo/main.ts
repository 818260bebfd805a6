/** `npm run demo`. */
import { setTimeout as delay } from "node:timers/promises";
import { report } from "../../../../bench/report.ts";
import type { DemoResult } from "./demo.ts";
import { figuresOf } from "./figures.ts";
import type { DemoOptions } from "./options.ts";
import { HELP, readOptions } from "./options.ts";
import { frameOutput, lineOutput } from "./output.ts";
import { renderFrame } from "./render.ts";

/** Longest that an interrupted demo takes to stop its processes; what is left then ends with this one. */
const STOP_MS = 1000;
const SIGNAL_LAG_MS = 50;
const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
/** Of a summary that goes to no terminal. */
const SUMMARY_WIDTH = 120;

const read = readOptions(process.argv.slice(2));
switch (read.kind) {
  case "help":
    process.stdout.write(HELP);
    break;
  case "refused":
    process.stderr.write(`zml: demo: ${read.message}\n`);
    process.exitCode = 1;
    break;
  case "run":
    await main(read.options);
    break;
}

async function main(options: DemoOptions): Promise<void> {
  // With --json standard output belongs to the object.
  const stream = options.isJson ? process.stderr : process.stdout;
  stream.write("ZML demo: starting a fleet, a gateway in front of it and its callers\n");
  const firstOutputMs = performance.now();
  const isFrame = !options.isJson && process.stdout.isTTY && process.env["TERM"] !== "dumb";
  const isColoured = isFrame && !process.env["NO_COLOR"] && process.stdout.hasColors();
  const output = isFrame ? frameOutput(process.stdout, { isColoured }) : lineOutput(stream);
  const abort = new AbortController();
  stopOn(abort, { isEndless: !options.isOnce, close: () => output.close() });
  // The reader of a pipe may go: nobody looks any more.
  stream.on("error", () => abort.abort(new Error("the output is closed")));
  try {
    // Loaded late: the first line must not wait for it.
    const { runDemo } = await import("./demo.ts");
    const result = await runDemo(options, output, abort.signal);
    if (isFrame) output.show(result.view);
    output.close();
    summarize(options, { ...result, firstOutputMs, isFrame });
  } catch (error) {
    output.close();
    // Ctrl-C reaches the children too, and may be seen by what it did to them first.
    await delay(SIGNAL_LAG_MS);
    if (abort.signal.aborted) return;
    process.stderr.write(`zml: demo: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}

/** A first signal stops everything in order, within a second; another one at once. */
function stopOn(abort: AbortController, options: { isEndless: boolean; close(): void }): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      // Ctrl-C is how an endless demo ends.
      process.exitCode = signal === "SIGINT" && options.isEndless ? 0 : 128 + SIGNAL_NUMBERS[signal];
      const exit = (): void => {
        options.close();
        process.exit();
      };
      if (abort.signal.aborted) exit();
      abort.abort(new Error(`ended by ${signal}`));
      setTimeout(exit, STOP_MS).unref();
    });
  }
}

type Summary = DemoResult & { readonly firstOutputMs: number; readonly isFrame: boolean };

function summarize(options: DemoOptions, summary: Summary): void {
  const { statistics, outages, view, isFrame } = summary;
  if (!options.isJson) {
    const lines = isFrame ? [] : renderFrame(view, { width: SUMMARY_WIDTH, isColoured: false });
    process.stdout.write(`\n${[...lines, ""].join("\n")}\n`);
  }
  report({ bench: "demo", figures: figuresOf({ ...summary, outage: outages[0] }), json: options.isJson });
  for (const error of statistics.errors) process.stderr.write(`zml: demo: failed call: ${error}\n`);
  const hasServedAgain = !Number.isNaN(outages[0]?.servedAtMs ?? Number.NaN);
  if (!hasServedAgain) process.stderr.write("zml: demo: the killed node did not serve again\n");
  if (statistics.failed > 0 || !hasServedAgain) process.exitCode = 1;
}
