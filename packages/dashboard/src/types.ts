/** Answers of the admin API by the names that these pages use. Types only: nothing of the schemas is shipped. */

import type { DecisionJson, HistoryJson, LiveJson, ObjectJson } from "@zml/protocol/admin";

export type Live = LiveJson;
export type NodeNames = NonNullable<LiveJson["nodes"]>;
/** One number per node or sample; null: unknown. */
export type Column = readonly (number | null)[];
export type HistoryColumns = HistoryJson;
export type Decision = DecisionJson;
export type FamilyEvidence = DecisionJson["families"][number];
export type Outcome = DecisionJson["outcome"];
export type ManagedObject = ObjectJson;
