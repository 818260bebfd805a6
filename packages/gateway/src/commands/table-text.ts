/** Text as a terminal shows it: its width, and without what would move the cursor. */

import { stripVTControlCharacters } from "node:util";

const COLOURS = { red: 31, green: 32, yellow: 33, dim: 2 } as const;
/** A colour, or a faint text. */
export type Colour = keyof typeof COLOURS;

/** In colour, where there are colours. */
export function painted(text: string, isColoured: boolean, colour: Colour | null): string {
  return isColoured && colour !== null ? `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : text;
}

/** What came from a node may hold line breaks and terminal escapes; a cell may not. */
export function oneLine(text: string): string {
  return stripVTControlCharacters(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
}

/** Cut or filled up to a width. */
export function padded(text: string, size: number, isRight = false): string {
  const fit = widthOf(text) <= size ? text : cut(text, size);
  const fill = " ".repeat(Math.max(0, size - widthOf(fit)));
  return isRight ? fill + fit : fit + fill;
}

/** Lines of at most so many characters, cut at spaces; what goes on is set in. Infinity: one line. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line.trim() === "" || widthOf(longer) <= width) line = longer;
    else {
      lines.push(line);
      line = `  ${word}`;
    }
  }
  return [...lines, line];
}

function cut(text: string, size: number): string {
  let kept = "";
  for (const { segment } of graphemes.segment(text)) {
    if (widthOf(kept + segment) > size - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

const graphemes = new Intl.Segmenter();
const WIDE =
  /^(?:\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6])/u;

/** Characters that a text takes on a terminal: wide ones are two. */
export function widthOf(text: string): number {
  if (/^[ -~–…]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}
