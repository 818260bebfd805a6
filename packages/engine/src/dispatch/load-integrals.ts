/**
 * Time integrals of what stands on a node, so that an attempt can tell in what company it ran. Nobody samples: a count
 * that changes by n at time t leaves −n·t in a cell, so that the integral up to now is `count × now + cell`. All of it is
 * Int32 arithmetic modulo 2^32, which `Atomics.add` does anyway: of two looks only the difference means anything, and it
 * is right as long as it stays below 2^31.
 */

import type { FleetTable } from "../fleet-table.ts";

/** Unit of time of the KV integral: 4 M tokens may stand for half a minute, 100,000 for twenty, before 2^31 is reached. */
const KV_TIME_SHIFT = 6;

/** One look at a node. */
export interface LoadMark {
  atMs: number;
  /** Requests × ms, modulo 2^32. */
  depthTime: number;
  /** KV tokens × 64 ms, modulo 2^32. */
  kvTime: number;
  /** Prompt tokens computed so far, modulo 2^32. */
  prefilledTokens: number;
}

/** A request comes to a node (`sign` 1) or leaves it (−1). O(1). */
export function noteChange(table: FleetTable, row: number, kvTokens: number, nowMs: number, sign: 1 | -1): void {
  Atomics.sub(table.depthTime, row, sign * (Math.floor(nowMs) | 0));
  Atomics.sub(table.kvTime, row, Math.imul(sign * kvTokens, kvTick(nowMs)));
}

/** Looks at a node. O(1). */
export function markLoad(table: FleetTable, row: number, nowMs: number, into: LoadMark): void {
  const ms = Math.floor(nowMs) | 0;
  into.atMs = nowMs;
  into.depthTime = (Math.imul(table.total.inFlight[row] as number, ms) + (table.depthTime[row] as number)) | 0;
  into.kvTime = (Math.imul(table.total.kvTokens[row] as number, kvTick(nowMs)) + (table.kvTime[row] as number)) | 0;
  into.prefilledTokens = table.prefilledTokens[row] as number;
}

/** Mean requests on the node between two looks; NaN when no time passed, or more than the cells hold. */
export function meanDepth(from: LoadMark, to: LoadMark): number {
  const ms = ((Math.floor(to.atMs) | 0) - (Math.floor(from.atMs) | 0)) | 0;
  const integral = (to.depthTime - from.depthTime) | 0;
  return ms > 0 && integral >= 0 ? integral / ms : Number.NaN;
}

/** Mean KV tokens between two looks; NaN as for `meanDepth`. */
export function meanKvTokens(from: LoadMark, to: LoadMark): number {
  const ticks = (kvTick(to.atMs) - kvTick(from.atMs)) | 0;
  const integral = (to.kvTime - from.kvTime) | 0;
  return ticks > 0 && integral >= 0 ? integral / ticks : Number.NaN;
}

/** Prompt tokens that were computed between two looks. */
export function prefilledBetween(from: LoadMark, to: LoadMark): number {
  return Math.max(0, (to.prefilledTokens - from.prefilledTokens) | 0);
}

function kvTick(nowMs: number): number {
  return Math.floor(nowMs / (1 << KV_TIME_SHIFT)) | 0;
}
