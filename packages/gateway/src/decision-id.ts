/**
 * Decision ids: UUIDv7 (RFC 9562) whose random part carries where the record is, so that an id leads to its evidence
 * without an index: 12 bits after the version hold the worker, the next 2 + 30 bits after the variant the sequence
 * number (31 bits), the rest is random.
 */

import { randomBytes } from "node:crypto";

const WORKER_MAX = 0xfff;
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Bits of the random tail. */
const TAIL_BITS = 31;

/** What the ids of one process have in common, so that each thread makes the same id for the same record. */
export interface DecisionIds {
  /** Wall clock at engine time 0, Unix ms. */
  readonly unixOriginMs: number;
  /** 31 random bits: ids of two processes differ. */
  readonly tail: number;
}

/** Draws the tail of a process. */
export function drawIdTail(): number {
  return randomBytes(4).readUInt32BE() >>> (32 - TAIL_BITS);
}

/** Where a decision's record is. */
export interface DecisionPlace {
  worker: number;
  sequence: number;
  /** Wall-clock time of the decision, Unix ms. */
  unixMs: number;
}

/** @param place `worker` 0..4095, `sequence` 0..2^31−1, `unixMs` Unix ms. @param tail 31 bits */
export function encodeDecisionId({ worker, sequence, unixMs }: DecisionPlace, tail: number): string {
  const high = Math.floor(unixMs / 0x10000);
  const low = Math.floor(unixMs) & 0xffff;
  const workerBits = worker & WORKER_MAX;
  // 62 bits follow the variant: 31 of the sequence (30 in the first two groups and the top of the third), 31 random
  const sequenceHigh = (sequence >>> 17) & 0x3fff;
  const sequenceLow = sequence & 0x1ffff;
  const rest = (sequenceLow << 15) | (tail >>> 16);
  return `${hex32(high)}-${hex16(low)}-7${hex12(workerBits)}-${hex16(0x8000 | sequenceHigh)}-${hex32(rest >>> 0)}${hex16(tail & 0xffff)}`;
}

/** Reads an id; null when the text is no UUIDv7. Any UUIDv7 reads as some place: the record tells if it is the one. */
export function decodeDecisionId(id: string): DecisionPlace | null {
  const match = /^([0-9a-f]{8})-([0-9a-f]{4})-7([0-9a-f]{3})-([89ab][0-9a-f]{3})-([0-9a-f]{8})[0-9a-f]{4}$/i.exec(id);
  if (match === null) return null;
  const [high, low, worker, sequenceHigh, rest] = match.slice(1).map((group) => Number.parseInt(group, 16)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  return {
    worker,
    sequence: ((sequenceHigh & 0x3fff) << 17) | (rest >>> 15),
    unixMs: high * 0x10000 + low,
  };
}

function hex12(value: number): string {
  return value.toString(16).padStart(3, "0");
}

function hex16(value: number): string {
  return (HEX[value >>> 8] as string) + (HEX[value & 0xff] as string);
}

function hex32(value: number): string {
  return (
    (HEX[(value >>> 24) & 0xff] as string) +
    (HEX[(value >>> 16) & 0xff] as string) +
    (HEX[(value >>> 8) & 0xff] as string) +
    (HEX[value & 0xff] as string)
  );
}
