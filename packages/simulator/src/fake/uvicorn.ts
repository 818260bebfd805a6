import type { HttpHabits, NodeSettings } from "./engine-behaviour.ts";

/** uvicorn, which four of the engines run on: HTTP/1.1, closes idle connections after 5 s and doesn't say so. */
export function uvicornHabits(settings: NodeSettings, maxBodyBytes = Infinity): HttpHabits {
  return {
    headers: { server: "uvicorn" },
    jsonType: "application/json",
    keepAliveMs: settings.keepAliveMs,
    maxRequestsPerConnection: 0,
    hasConnectionHint: false,
    maxBodyBytes,
  };
}
