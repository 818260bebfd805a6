/**
 * The product's worker, which dies when its process is told so (an exception that nobody catches, in any moment), and says
 * what its heap holds.
 */

import { workerData } from "node:worker_threads";
import "../../src/worker.ts";
import { answerHeapOrders } from "./soak-heap.ts";

const { worker } = workerData as { worker: number };
const orders = new BroadcastChannel("zml-soak");
orders.onmessage = ({ data }: { data: unknown }) => {
  if (data === worker) throw new Error("told to die");
};
orders.unref();
answerHeapOrders(`worker ${worker}`);
