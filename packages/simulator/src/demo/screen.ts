import type { WriteStream } from "node:tty";

const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";
const CLEAR_TO_LINE_END = "\u001b[K";
const CLEAR_BELOW = "\u001b[J";
const CLEAR_ALL = "\u001b[2J\u001b[H";

/** A frame at the bottom of a terminal that is drawn over itself. */
export class Screen {
  readonly #stream: WriteStream;
  readonly #onResize = (): void => {
    // Lines that were wrapped anew can't be counted: begin on an empty screen.
    this.#stream.write(CLEAR_ALL);
    this.#height = 0;
  };
  #height = 0;

  constructor(stream: WriteStream) {
    this.#stream = stream;
    stream.write(HIDE_CURSOR);
    stream.on("resize", this.#onResize);
  }

  get width(): number {
    return this.#stream.columns || 80;
  }

  /** One less than the terminal has: the cursor stands on the line below the frame. */
  get height(): number {
    return (this.#stream.rows || 24) - 1;
  }

  draw(lines: readonly string[]): void {
    const up = this.#height === 0 ? "" : `\u001b[${this.#height}A`;
    const text = lines.map((line) => `${line}${CLEAR_TO_LINE_END}\n`).join("");
    this.#stream.write(`${up}\r${text}${CLEAR_BELOW}`);
    this.#height = lines.length;
  }

  /** Leaves the last frame where it is and gives the cursor back. */
  close(): void {
    this.#stream.off("resize", this.#onResize);
    this.#stream.write(SHOW_CURSOR);
  }
}
