/**
 * Where the API server of a cluster is, and who we are there: from the official client, whose chain of credentials is what
 * operators rely on.
 */

import type { RequestOptions } from "node:https";
import { loadOptional } from "../../optional-package.ts";
import { SourceError } from "../source.ts";

/** How to reach an API server. */
export interface ClusterAccess {
  /** Base URL without a slash at its end. */
  readonly server: string;
  /** Of the context; null: it names none. */
  readonly namespace: string | null;
  /** Credentials and TLS for one request; the official client reads and renews them. */
  options(): Promise<RequestOptions>;
}

/** The official client, or a stand-in for it. */
export type LoadClient = () => Promise<Pick<typeof import("@kubernetes/client-node"), "KubeConfig">>;

/**
 * Reads where the API server is. In a pod (`kubeconfig` null) that is its service account.
 *
 * @throws SourceError that says what to do.
 */
export async function clusterAccess(
  { kubeconfig, context }: { kubeconfig: string | null; context: string | null },
  load: LoadClient = () => import("@kubernetes/client-node"),
): Promise<ClusterAccess> {
  const { KubeConfig } = await loadOptional(
    "@kubernetes/client-node",
    load,
    (text, cause) => new SourceError(text, cause),
  );
  const config = new KubeConfig();
  try {
    if (kubeconfig === null) config.loadFromCluster();
    else config.loadFromFile(kubeconfig);
  } catch (cause) {
    // the parser's text quotes the file, which holds credentials
    throw new SourceError(`the kubeconfig ${kubeconfig ?? ""} can't be read`, cause);
  }
  if (context !== null) {
    if (config.getContextObject(context) === null) throw new SourceError(`the kubeconfig has no context ${context}`);
    config.setCurrentContext(context);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new SourceError("the kubeconfig names no cluster: set its current-context, or context");
  if (!URL.canParse(cluster.server) || cluster.server.includes("//undefined")) {
    throw new SourceError("this is no pod of a cluster: name a file in kubeconfig");
  }
  if (cluster.server.startsWith("http:") && !cluster.skipTLSVerify) {
    throw new SourceError(
      "the cluster's server is http://: set insecure-skip-tls-verify in the kubeconfig to allow that",
    );
  }
  const namespace = config.getContextObject(config.getCurrentContext())?.namespace?.trim();
  return {
    server: cluster.server.replace(/\/+$/, ""),
    namespace: namespace === undefined || namespace === "" ? null : namespace,
    async options() {
      const options: RequestOptions = {};
      try {
        await config.applyToHTTPSOptions(options);
      } catch (cause) {
        throw new SourceError(
          "the credentials of the cluster can't be had: a file is missing or a helper failed",
          cause,
        );
      }
      return options;
    },
  };
}
