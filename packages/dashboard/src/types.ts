/** Answers of the admin API, as far as these pages read them. Members of a newer gateway are ignored. */

export interface Live {
  readonly at: string;
  readonly clock_ms: number;
  readonly version: number;
  readonly nodes_tag: string;
  readonly nodes: NodeNames | null;
  readonly states: readonly string[];
  readonly columns: NodeColumns;
  readonly totals: LiveTotals;
  readonly flows: readonly Flow[];
}

export interface NodeNames {
  readonly id: readonly string[];
  readonly family: readonly string[];
  readonly account: readonly string[];
  readonly engine: readonly (string | null)[];
}

export type Column = readonly (number | null)[];

export interface NodeColumns {
  readonly state: readonly number[];
  readonly depth: Column;
  readonly in_flight: Column;
  readonly waiting: Column;
  readonly max_in_flight: Column;
  readonly tokens_per_second: Column;
  readonly health_score: Column;
  readonly price_usd_per_hour: Column;
  readonly data_age_ms: Column;
  readonly cooldown_ms: Column;
  readonly attempts: readonly number[];
  readonly failed: readonly number[];
}

export interface LiveTotals {
  readonly requests: number;
  readonly endings: Readonly<Record<string, number>>;
  readonly redispatches: number;
  readonly judged: number;
  readonly within_target: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly parked: number;
  readonly in_flight: number;
  readonly depth: number;
  readonly price_usd_per_hour: number | null;
}

export interface Flow {
  readonly account: string;
  readonly policy: string;
  readonly family: string;
  readonly requests: number;
  readonly delivered: number;
}

export interface HistoryColumns {
  readonly step_ms: number;
  readonly at_ms: readonly number[];
  readonly requests_per_second: readonly number[];
  readonly attainment: Column;
  readonly output_tokens_per_second: readonly number[];
  readonly redispatches_per_second: readonly number[];
  readonly failed_per_second: readonly number[];
  readonly parked: readonly number[];
  readonly depth: readonly number[];
  readonly healthy_nodes: readonly number[];
  readonly price_usd_per_hour: Column;
}

export interface Outcome {
  readonly kind: string;
  readonly status: number | null;
  readonly fault: string | null;
  readonly first_token_ms: number | null;
  readonly duration_ms: number | null;
  readonly output_tokens: number | null;
}

export interface FamilyEvidence {
  readonly family: string;
  readonly tier: number;
  readonly nodes: number;
  readonly best_node: string | null;
  readonly depth: number | null;
  readonly estimate_ms: number | null;
  readonly cost_usd: number | null;
  readonly headroom_ms: number | null;
  readonly is_chosen: boolean;
  readonly excluded: Readonly<Record<string, number>>;
}

export interface Decision {
  readonly decision: string;
  readonly decided_at: string;
  readonly version: number;
  readonly request: {
    readonly account: string | null;
    readonly model: string | null;
    readonly endpoint: string;
    readonly stream: boolean;
    readonly prompt_tokens: number | null;
    readonly max_tokens: number | null;
    readonly waited_ms: number | null;
  };
  readonly policy: {
    readonly name: string | null;
    readonly source: string;
    readonly cost_priority: string;
    readonly latency_target_ms: number | null;
  };
  readonly hint: { readonly family: string | null; readonly use: string } | null;
  readonly choice: {
    readonly reason: string;
    readonly node: string | null;
    readonly family: string | null;
    readonly depth: number | null;
    readonly estimate_ms: number | null;
    readonly cost_usd: number | null;
    readonly headroom_ms: number | null;
    readonly data_age_ms: number | null;
    readonly is_trial: boolean;
    readonly booking_races: number;
  };
  readonly families: readonly FamilyEvidence[];
  readonly runner_up: string | null;
  readonly outside_chain: number;
  readonly are_prices_unknown: boolean;
  readonly attempt: number;
  readonly earlier: readonly {
    readonly node: string | null;
    readonly family: string | null;
    readonly reason: string;
    readonly outcome: Outcome;
  }[];
  readonly outcome: Outcome;
}

export interface ManagedObject {
  readonly kind: string;
  readonly account: string;
  readonly name: string;
  readonly owner: string;
  readonly revision: string;
  readonly spec: Readonly<Record<string, unknown>>;
}
