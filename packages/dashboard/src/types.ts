/** Answers of the admin API by the names that these pages use. Types only: nothing of the schemas is shipped. */

import type { DecisionJson, HistoryJson, ObjectJson, WhoamiJson } from "@zml/protocol/admin";

export type HistoryColumns = HistoryJson;
export type Decision = DecisionJson;
export type FamilyEvidence = DecisionJson["families"][number];
export type Outcome = DecisionJson["outcome"];
export type ManagedObject = ObjectJson;
export type Whoami = WhoamiJson;
