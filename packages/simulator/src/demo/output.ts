import type { WriteStream } from "node:tty";
import type { DemoOutput } from "./demo.ts";
import { renderFrame, renderLine } from "./render.ts";
import { Screen } from "./screen.ts";

/** An output that can be left in order. */
export type ClosableOutput = DemoOutput & { close(): void };

const FRAME_MS = 250;
const LINE_MS = 1000;

/** A frame that is drawn over itself, below what was said. */
export function frameOutput(stream: WriteStream, { isColoured }: { isColoured: boolean }): ClosableOutput {
  let screen: Screen | null = null;
  return {
    frameMs: FRAME_MS,
    say: (text) => stream.write(`${text}\n`),
    show: (view) => {
      screen ??= new Screen(stream);
      screen.draw(renderFrame(view, { width: screen.width, height: screen.height, isColoured }));
    },
    close: () => {
      screen?.close();
      screen = null;
    },
  };
}

/** One line a second, and each event once. */
export function lineOutput(stream: NodeJS.WritableStream): ClosableOutput {
  let told = 0;
  return {
    frameMs: LINE_MS,
    say: (text) => stream.write(`${text}\n`),
    show: (view) => {
      const news = Math.min(view.events.length, view.eventCount - told);
      for (const event of view.events.slice(view.events.length - news)) stream.write(`${event}\n`);
      told = view.eventCount;
      stream.write(`${renderLine(view)}\n`);
    },
    close: () => {},
  };
}
