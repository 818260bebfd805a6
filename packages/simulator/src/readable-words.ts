import type { RandomSource } from "./seeded-random.ts";

const WORDS = (
  "the a one this that each every some light river stone garden window morning paper letter road bridge market " +
  "engine signal table clock cloud harbour forest winter summer sound colour number answer question story worker " +
  "reader city island moves opens holds keeps finds carries follows brings turns waits stands falls grows returns " +
  "meets crosses slowly quickly often always early late again together alone near far under over between through " +
  "against toward without within because while when before after and but so then still quiet bright long short old " +
  "new small large warm cold simple clear open"
).split(" ");

/** The text of one output token: a readable word with a space before it, and a full stop now and then. */
export function nextWord(random: RandomSource, index: number): string {
  const word = WORDS[Math.floor(random() * WORDS.length)] ?? "word";
  const stop = index > 0 && index % 12 === 11 ? "." : "";
  return `${index === 0 ? "" : " "}${word}${stop}`;
}

/** The number of tokens that the fakes count for a text: one for four UTF-16 units, at least one. */
export function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / 4));
}
