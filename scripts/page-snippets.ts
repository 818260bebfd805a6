// The snippets of a page, and what the page says that they print.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** A block of code. */
export interface Snippet {
  /** Where it stands, for messages: `docs/quickstart.md:42`. */
  readonly place: string;
  readonly code: string;
  /** The output that is shown for it, with `…` for what differs between runs; `undefined` when none is. */
  readonly shown: string | undefined;
}

/** Blocks of one language, in order. A `text` block is the output of the blocks above it, up to the last heading. */
export function snippetsOf(page: string, language: string): Snippet[] {
  const text = readFileSync(join(root, page), "utf8");
  const snippets: Snippet[] = [];
  let line = 1;
  for (const section of text.split(/^(?=## )/m)) {
    const blocks = [...section.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
    for (const [at, { 1: found, 2: code = "", index }] of blocks.entries()) {
      if (found !== language) continue;
      const shown = blocks.slice(at).find(([, later]) => later === "text")?.[2];
      snippets.push({ place: `${page}:${line + section.slice(0, index).split("\n").length - 1}`, code, shown });
    }
    line += section.split("\n").length - 1;
  }
  return snippets;
}

/** The one block of a language that has this part. */
export function onlySnippet(page: string, language: string, part: string): Snippet {
  const [snippet, ...others] = snippetsOf(page, language).filter(({ code }) => code.includes(part));
  assert.ok(snippet !== undefined && others.length === 0, `${page} has one ${language} block with ${part}`);
  return snippet;
}

/** Fails unless a snippet printed what the page shows, or anything when it shows nothing. */
export function assertPrinted({ place, shown }: Snippet, printed: string): void {
  const lines = printed.replaceAll("\r\n", "\n").trim();
  assert.notEqual(lines, "", `${place} prints something`);
  if (shown === undefined) return;
  const pattern = shown
    .trim()
    .split("…")
    .map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  assert.match(lines, new RegExp(`^${pattern.join("[^]*?")}$`), `${place} prints what is shown`);
}
