/** Why a wait for room ended without any; admission finds out, failover tells the caller. */
export type WaitRefusal = "requests_full" | "bytes_full" | "queues_full" | "queue_timeout" | "stopped";
