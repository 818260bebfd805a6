/** What a command sees of its process; `main.ts` hands in the real one. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  out(text: string): void;
  error(text: string): void;
  /** The window that `out` writes to, as it is now; null: a file or a pipe. */
  screen(): Screen | null;
  /** All of standard input, to its end. */
  input(): Promise<string>;
  /** One line that a person types as the answer to a question; null: nobody is there to ask, or they left. */
  ask(question: string): Promise<string | null>;
}

/** A window. */
export interface Screen {
  /** Characters. */
  readonly columns: number;
  /** Lines. */
  readonly rows: number;
}

/** Colours are for a window, and for who has not switched them off (https://no-color.org). */
export function hasColour(terminal: Terminal): boolean {
  return terminal.screen() !== null && !terminal.env["NO_COLOR"] && terminal.env["TERM"] !== "dumb";
}

/** Characters that a line may have; Infinity where nobody looks through a window. */
export function widthOfScreen(terminal: Terminal): number {
  return terminal.screen()?.columns ?? Number.POSITIVE_INFINITY;
}
