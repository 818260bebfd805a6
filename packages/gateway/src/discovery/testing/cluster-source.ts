/** Sources of the kind kubernetes for tests. */

import type { TestContext } from "node:test";
import { startKubernetesSource } from "../sources/kubernetes.ts";
import { type ApiServer, type ApiServerOptions, apiServer, kubeconfigFor } from "./api-server.ts";
import { runningSource, sourceConfig } from "./running-source.ts";

/** The endpoints of one service. */
export const SERVICE = "service: vllm";

/** A source that follows an API server of its own. */
export async function started(
  t: TestContext,
  more = SERVICE,
  options: ApiServerOptions = {},
  prepare: (api: ApiServer) => void = () => {},
) {
  const api = await apiServer(t, options);
  prepare(api);
  const running = follow(t, kubeconfigFor(t, api), more);
  return { api, running };
}

/** A source that follows where a kubeconfig leads. */
export function follow(t: TestContext, kubeconfig: string, more = SERVICE) {
  const config = sourceConfig(
    `kind: kubernetes\nkubeconfig: ${JSON.stringify(kubeconfig)}\nnode: { family: F }\n${more}`,
  );
  return runningSource(t, startKubernetesSource, config);
}
