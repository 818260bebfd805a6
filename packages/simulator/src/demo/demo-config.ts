import type { CostPriority } from "@zml/engine/reasons";

/** A node of the demo, as the gateway's file names it. */
export type DemoNode = {
  readonly id: string;
  readonly url: string;
  readonly family: string;
  readonly engine: "vllm" | "tgi" | "llamacpp";
  readonly gpus: number;
  readonly usdPerGpuHour: number;
};

export type DemoPolicy = {
  readonly name: string;
  readonly costPriority: CostPriority;
  /** Whole response. */
  readonly targetMs: number;
  /** Families by priority; those in one list are equal. */
  readonly tiers: readonly (readonly string[])[];
  /** Share of the calls. */
  readonly share: number;
};

export type DemoConfig = {
  readonly model: string;
  readonly nodes: readonly DemoNode[];
  readonly policies: readonly DemoPolicy[];
  readonly cooldownMs: number;
};

/** Polls far more often than the 5 s of a real fleet, so that a node's end and return can be watched. */
const POLL_INTERVAL_MS = 500;

/** The gateway's file, as an operator would write it. */
export function configText({ model, nodes, policies, cooldownMs }: DemoConfig): string {
  const lines = [
    "# Made by `npm run demo`, which deletes it when it ends. Only polls and cooldown are quicker than usual.",
    "data: { listen: 127.0.0.1:0 }",
    "admin: { listen: 127.0.0.1:0 }",
    "workers: 1",
    `health: { poll_interval_ms: ${POLL_INTERVAL_MS}, timeout_ms: ${POLL_INTERVAL_MS} }`,
    `failover: { cooldown_ms: ${cooldownMs} }`,
    'store: { path: ":memory:" }',
    "nodes:",
  ];
  for (const { id, url, family, engine, gpus, usdPerGpuHour } of nodes) {
    lines.push(`  - id: ${id}`, `    url: ${url}`, `    family: ${family}`, `    engine: ${engine}`);
    lines.push(`    gpus: ${gpus}`, `    cost: { usd_per_gpu_hour: ${usdPerGpuHour} }`, `    models: [${model}]`);
  }
  lines.push("policies:");
  for (const { name, costPriority, targetMs, tiers } of policies) {
    lines.push(`  - name: ${name}`, "    accelerator_preference:");
    tiers.forEach((families, tier) => {
      for (const family of families) lines.push(`      - { family: ${family}, priority: ${tier + 1} }`);
    });
    lines.push(`    latency_target_ms: ${targetMs}`, `    cost_priority: ${costPriority}`);
    // A burst waits for room instead of failing.
    lines.push("    queue_on_saturation: true");
  }
  lines.push("models:", `  - { name: ${model}, policy: ${policies[0]?.name} }`, "");
  return lines.join("\n");
}
