/** What a command sees of its process; `main.ts` hands in the real one. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  out(text: string): void;
  error(text: string): void;
}
