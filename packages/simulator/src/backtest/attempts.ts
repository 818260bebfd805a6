/** Attempts that were recorded, by node and model. */

/** An attempt that succeeded. Times in ms, since any moment. */
export interface RecordedAttempt {
  readonly sentAtMs: number;
  /** NaN: its answer did not stream. */
  readonly firstTokenMs: number;
  readonly durationMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** What the gateway had predicted, ms; NaN or absent: nothing. */
  readonly predictedFirstMs?: number;
  readonly predictedTokenMs?: number;
}

/** Attempts of one model on one node, by time of sending. */
export interface NodeAttempts {
  readonly node: number;
  readonly model: number;
  /** Models of one kin are one model to their nodes, under the names of several accounts: they share its steps. */
  readonly kin: number;
  readonly family: number;
  readonly concurrencyLimit: number;
  readonly kvCapacityTokens: number;
  readonly attempts: readonly RecordedAttempt[];
}

export interface KinGroup {
  readonly group: NodeAttempts;
  readonly models: readonly number[];
  /** The model of each attempt. */
  readonly modelOf: readonly number[];
}

/** Groups of one node and kin as one, by time of sending. */
export function byKin(groups: readonly NodeAttempts[]): KinGroup[] {
  const together = new Map<string, NodeAttempts[]>();
  for (const group of groups) {
    const key = `${group.node} ${group.kin}`;
    const known = together.get(key);
    if (known === undefined) together.set(key, [group]);
    else known.push(group);
  }
  return Array.from(together.values(), (members) => {
    const all = members.flatMap(({ model, attempts }) => attempts.map((attempt) => ({ model, attempt })));
    all.sort((a, b) => a.attempt.sentAtMs - b.attempt.sentAtMs);
    const group = { ...(members[0] as NodeAttempts), attempts: all.map(({ attempt }) => attempt) };
    return { group, models: members.map(({ model }) => model), modelOf: all.map(({ model }) => model) };
  });
}
