/** Nodes that come and go by themselves: from DNS, files and Kubernetes. */

export { Discovery, type FoundEntry } from "./discovery.ts";
export { type DiscoveryReportJson, discoveryReport } from "./discovery-report.ts";
