/** Load whose times count: requests at a steady rate, and many streams at once whose events are counted. */

import { connect, type Socket } from "node:net";
import { readAnswers } from "../overhead/load.ts";

/** Longest run, ms. */
const DEADLINE_MS = 120_000;

/**
 * Sends requests at a steady rate, whatever becomes of those before.
 *
 * @returns the times of their answers, ms, sorted. Rejects when one fails.
 */
export async function answerTimes(options: {
  port: number;
  request: Buffer;
  perSecond: number;
  total: number;
  connections: number;
  deadlineMs?: number;
}): Promise<Float64Array> {
  const { port, request, perSecond, total, connections, deadlineMs = DEADLINE_MS } = options;
  const free: { socket: Socket; sentAtMs: number }[] = [];
  const times: number[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<Float64Array>();
  const sockets = await Promise.all(Array.from({ length: connections }, () => openSocket(port)));
  const deadline = setTimeout(() => reject(new Error("answers did not come")), deadlineMs);
  let timer: NodeJS.Timeout | null = null;
  const stop = (): void => {
    clearTimeout(deadline);
    if (timer !== null) clearInterval(timer);
    for (const socket of sockets) socket.destroy();
  };
  for (const socket of sockets) {
    const slot = { socket, sentAtMs: 0 };
    free.push(slot);
    readAnswers(socket, (isGood) => {
      if (!isGood) reject(new Error("an answer was no 200"));
      times.push(performance.now() - slot.sentAtMs);
      free.push(slot);
      if (times.length === total) resolve(Float64Array.from(times).sort());
    });
    socket.on("error", reject);
  }
  const startedAtMs = performance.now();
  let sent = 0;
  timer = setInterval(() => {
    const due = Math.min(total, ((performance.now() - startedAtMs) * perSecond) / 1000);
    while (sent < due) {
      const slot = free.shift();
      if (slot === undefined) break;
      sent += 1;
      slot.sentAtMs = performance.now();
      slot.socket.write(request);
    }
  }, 1);
  return promise.finally(stop);
}

const EVENT_MARK = "data: {";
const END_MARK = "data: [DONE]";

/** What many streams at once brought. */
export interface StreamsSeen {
  /** Streams that reached their end. */
  whole: number;
  events: number;
  /** Times to the first event, ms, sorted. */
  firstEventMs: Float64Array;
}

/** Opens `count` streams, `perTick` each 10 ms, and reads each to its end. */
export function readStreams(options: {
  port: number;
  request: Buffer;
  count: number;
  perTick: number;
  onTick: () => void;
}): Promise<StreamsSeen> {
  const { port, request, count, perTick, onTick } = options;
  return new Promise((resolve, reject) => {
    const sockets: Socket[] = [];
    const first: number[] = [];
    let [whole, events, closed] = [0, 0, 0];
    const end = (): void => {
      clearInterval(timer);
      clearTimeout(deadline);
      for (const socket of sockets) socket.destroy();
      resolve({ whole, events, firstEventMs: Float64Array.from(first).sort() });
    };
    const open = (): void => {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      sockets.push(socket);
      let startedAtMs = Number.NaN;
      let isWhole = false;
      // what a mark may have begun with; shorter than it, so that none counts twice
      let [eventTail, endTail] = ["", ""];
      socket.on("connect", () => {
        startedAtMs = performance.now();
        socket.write(request);
      });
      socket.on("data", (chunk: Buffer) => {
        const bytes = chunk.toString("latin1");
        const text = eventTail + bytes;
        for (let at = text.indexOf(EVENT_MARK); at >= 0; at = text.indexOf(EVENT_MARK, at + 1)) events += 1;
        if (!Number.isNaN(startedAtMs) && text.includes(EVENT_MARK)) {
          first.push(performance.now() - startedAtMs);
          startedAtMs = Number.NaN;
        }
        if (!isWhole && (endTail + bytes).includes(END_MARK)) {
          isWhole = true;
          whole += 1;
          socket.destroy();
        }
        eventTail = text.slice(1 - EVENT_MARK.length);
        endTail = (endTail + bytes).slice(1 - END_MARK.length);
      });
      socket.on("error", () => undefined);
      socket.on("close", () => {
        closed += 1;
        if (closed === count) end();
      });
    };
    const timer = setInterval(() => {
      for (let index = 0; index < perTick && sockets.length < count; index++) open();
      onTick();
    }, 10);
    const deadline = setTimeout(() => {
      end();
      reject(new Error("streams did not end"));
    }, DEADLINE_MS);
  });
}

function openSocket(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    socket.once("connect", () => resolve(socket));
    socket.once("error", reject);
  });
}
