/** The product's worker, which dies when its process is told so: an exception that nobody catches, in any moment. */

import { workerData } from "node:worker_threads";
import "../../src/worker.ts";

const orders = new BroadcastChannel("zml-soak");
orders.onmessage = ({ data }: { data: unknown }) => {
  if (data === (workerData as { worker: number }).worker) throw new Error("told to die");
};
orders.unref();
