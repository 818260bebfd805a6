/** Why a wait for room ended without any; admission finds out, failover tells the caller. */
export type WaitRefusal = "queue_full" | "queue_timeout" | "stopped";
