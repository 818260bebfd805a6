/** What a thread's heap holds once its garbage is gone: asked of all threads of a process at once. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** What lives in a thread, bytes: its heap, and the buffers and all else that hangs on its objects. */
export interface LiveHeap {
  readonly thread: string;
  readonly heapBytes: number;
  readonly externalBytes: number;
}

const ORDERS = "zml-soak-heap";
const ANSWERS = "zml-soak-heap-answers";

/** This thread answers from now on; each answer costs it a whole collection. */
export function answerHeapOrders(thread: string): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const answers = new BroadcastChannel(ANSWERS);
  const orders = new BroadcastChannel(ORDERS);
  orders.onmessage = () => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    const live: LiveHeap = { thread, heapBytes: heapUsed, externalBytes: external };
    answers.postMessage(live);
  };
  orders.unref();
  answers.unref();
}

/** Asks the other threads; each answer is told as it comes. */
export function orderHeaps(onAnswer: (live: LiveHeap) => void): { order(): void } {
  const orders = new BroadcastChannel(ORDERS);
  const answers = new BroadcastChannel(ANSWERS);
  answers.onmessage = ({ data }: { data: unknown }) => onAnswer(data as LiveHeap);
  orders.unref();
  answers.unref();
  return { order: () => orders.postMessage(null) };
}
