/**
 * Records outside the ring, a column per number: what a chunk of the database is made of and what a back-test reads.
 * Names of columns and the closed lists stand beside the cells, so that a chunk stays readable when either grows.
 */

import {
  COST_PRIORITIES,
  createEvidenceCells,
  ENDPOINTS,
  EVIDENCE_SHAPE,
  type EvidenceCells,
  type EvidenceFamily,
  type EvidenceRecord,
  EXCLUSIONS,
  type Exclusion,
  HINT_USES,
  OUTCOMES,
  POLICY_SOURCES,
  REASONS,
  TRANSPORT_FAULTS,
} from "@zml/engine";

/** Closed lists whose indexes stand in records. */
const LISTS = {
  policySource: POLICY_SOURCES,
  costPriority: COST_PRIORITIES,
  hint: HINT_USES,
  endpoint: ENDPOINTS,
  reason: REASONS,
  outcome: OUTCOMES,
  fault: TRANSPORT_FAULTS,
  exclusions: EXCLUSIONS,
} as const;

/** What the cells of a chunk are. */
export interface ChunkHead {
  readonly count: number;
  /** Families of all records. */
  readonly families: number;
  readonly numbers: readonly string[];
  readonly integers: readonly string[];
  readonly familyNumbers: readonly string[];
  readonly familyIntegers: readonly string[];
  readonly lists: Readonly<Record<keyof typeof LISTS, readonly string[]>>;
}

/** Some records of one ring. */
export interface DecisionColumns {
  readonly head: ChunkHead;
  readonly sequences: Int32Array;
  /** Parallel to `head.numbers`, each with `head.count` cells. */
  readonly numbers: readonly Float64Array[];
  readonly integers: readonly Int32Array[];
  /** Cells of all families, record after record; how many a record has is its integer `families`. */
  readonly familyNumbers: readonly Float64Array[];
  readonly familyIntegers: readonly Int32Array[];
  /** Family × exclusions + index. */
  readonly excluded: Uint16Array;
}

/** Collects records. Grows to what it was made for and no further. */
export class ColumnWriter {
  readonly capacity: number;
  count = 0;
  #families = 0;
  readonly #sequences: Int32Array;
  readonly #numbers: readonly Float64Array[];
  readonly #integers: readonly Int32Array[];
  readonly #familyNumbers: readonly Float64Array[];
  readonly #familyIntegers: readonly Int32Array[];
  readonly #excluded: Uint16Array;
  readonly cells: EvidenceCells = createEvidenceCells();

  constructor(capacity: number) {
    this.capacity = capacity;
    const families = capacity * (this.cells.familyIntegers.length / EVIDENCE_SHAPE.familyIntegers.length);
    this.#sequences = new Int32Array(capacity);
    this.#numbers = EVIDENCE_SHAPE.numbers.map(() => new Float64Array(capacity));
    this.#integers = EVIDENCE_SHAPE.integers.map(() => new Int32Array(capacity));
    this.#familyNumbers = EVIDENCE_SHAPE.familyNumbers.map(() => new Float64Array(families));
    this.#familyIntegers = EVIDENCE_SHAPE.familyIntegers.map(() => new Int32Array(families));
    this.#excluded = new Uint16Array(families * EXCLUSIONS.length);
  }

  get isFull(): boolean {
    return this.count === this.capacity;
  }

  /** Takes what stands in `cells`. There must be room. */
  take(sequence: number): void {
    const { cells } = this;
    const at = this.count;
    this.#sequences[at] = sequence;
    for (let index = 0; index < this.#numbers.length; index++) {
      (this.#numbers[index] as Float64Array)[at] = cells.numbers[index] as number;
    }
    for (let index = 0; index < this.#integers.length; index++) {
      (this.#integers[index] as Int32Array)[at] = cells.integers[index] as number;
    }
    for (let family = 0; family < cells.families; family++) {
      const to = this.#families + family;
      for (let index = 0; index < this.#familyNumbers.length; index++) {
        (this.#familyNumbers[index] as Float64Array)[to] = cells.familyNumbers[
          family * this.#familyNumbers.length + index
        ] as number;
      }
      for (let index = 0; index < this.#familyIntegers.length; index++) {
        (this.#familyIntegers[index] as Int32Array)[to] = cells.familyIntegers[
          family * this.#familyIntegers.length + index
        ] as number;
      }
      for (let index = 0; index < EXCLUSIONS.length; index++) {
        this.#excluded[to * EXCLUSIONS.length + index] = cells.excluded[family * EXCLUSIONS.length + index] as number;
      }
    }
    this.#families += cells.families;
    this.count += 1;
  }

  /** What was collected, as views that the next `take` after `clear` overwrites. */
  columns(): DecisionColumns {
    const { count } = this;
    const families = this.#families;
    return {
      head: {
        count,
        families,
        numbers: EVIDENCE_SHAPE.numbers,
        integers: EVIDENCE_SHAPE.integers,
        familyNumbers: EVIDENCE_SHAPE.familyNumbers,
        familyIntegers: EVIDENCE_SHAPE.familyIntegers,
        lists: LISTS,
      },
      sequences: this.#sequences.subarray(0, count),
      numbers: this.#numbers.map((column) => column.subarray(0, count)),
      integers: this.#integers.map((column) => column.subarray(0, count)),
      familyNumbers: this.#familyNumbers.map((column) => column.subarray(0, families)),
      familyIntegers: this.#familyIntegers.map((column) => column.subarray(0, families)),
      excluded: this.#excluded.subarray(0, families * EXCLUSIONS.length),
    };
  }

  clear(): void {
    this.count = 0;
    this.#families = 0;
  }
}

/** Reads records out of columns that this version or an older one wrote. */
export class ColumnReader {
  readonly columns: DecisionColumns;
  readonly #firstFamily: Int32Array;
  readonly #numberAt: ReadonlyMap<string, Float64Array>;
  readonly #integerAt: ReadonlyMap<string, Int32Array>;

  constructor(columns: DecisionColumns) {
    const { head } = columns;
    this.columns = columns;
    this.#numberAt = new Map(head.numbers.map((name, index) => [name, columns.numbers[index] as Float64Array]));
    this.#integerAt = new Map(head.integers.map((name, index) => [name, columns.integers[index] as Int32Array]));
    this.#firstFamily = new Int32Array(head.count + 1);
    const families = this.#integerAt.get("families");
    for (let index = 0; index < head.count; index++) {
      this.#firstFamily[index + 1] = (this.#firstFamily[index] as number) + (families?.[index] ?? 0);
    }
  }

  /** A column of numbers; null: this chunk has none of that name. */
  number(name: string): Float64Array | null {
    return this.#numberAt.get(name) ?? null;
  }

  integer(name: string): Int32Array | null {
    return this.#integerAt.get(name) ?? null;
  }

  /** One record with its names. Null: it holds a word that this version does not know. */
  record(index: number): EvidenceRecord | null {
    const { head, sequences } = this.columns;
    const int = (name: string): number => this.#integerAt.get(name)?.[index] ?? -1;
    const word = <K extends keyof typeof LISTS>(name: K): (typeof LISTS)[K][number] | null => {
      const found = head.lists[name][int(name)];
      return found !== undefined && (LISTS[name] as readonly string[]).includes(found)
        ? (found as (typeof LISTS)[K][number])
        : null;
    };
    const numbers = Object.fromEntries(
      EVIDENCE_SHAPE.numbers.map((name) => [name, this.#numberAt.get(name)?.[index] ?? Number.NaN]),
    ) as Record<(typeof EVIDENCE_SHAPE.numbers)[number], number>;
    const [policySource, costPriority, hint] = [word("policySource"), word("costPriority"), word("hint")];
    const [endpoint, reason, outcome] = [word("endpoint"), word("reason"), word("outcome")];
    if (policySource === null || costPriority === null || hint === null) return null;
    if (endpoint === null || reason === null || outcome === null) return null;
    return {
      ...numbers,
      sequence: sequences[index] as number,
      directoryVersion: int("directoryVersion"),
      model: int("model"),
      policy: int("policy"),
      policySource,
      costPriority,
      hintFamily: int("hintFamily"),
      hint,
      endpoint,
      isStream: int("isStream") === 1,
      hasImages: int("hasImages") === 1,
      answers: Math.max(1, int("answers")),
      key: int("key"),
      reason,
      identity: int("identity"),
      family: int("family"),
      bookingRaces: int("bookingRaces"),
      attempt: int("attempt"),
      previous: int("previous"),
      outsideChain: int("outsideChain"),
      arePricesUnknown: int("arePricesUnknown") === 1,
      isTrial: int("isTrial") === 1,
      outcome,
      status: int("status"),
      fault: int("fault") < 0 ? null : word("fault"),
      families: this.#families(index),
    };
  }

  #families(index: number): EvidenceFamily[] {
    const { head, familyNumbers, familyIntegers, excluded } = this.columns;
    const from = this.#firstFamily[index] as number;
    const to = this.#firstFamily[index + 1] as number;
    const number = (name: string, at: number) => familyNumbers[head.familyNumbers.indexOf(name)]?.[at] ?? Number.NaN;
    const integer = (name: string, at: number) => familyIntegers[head.familyIntegers.indexOf(name)]?.[at] ?? -1;
    const words = head.lists.exclusions;
    return Array.from({ length: to - from }, (_, position) => {
      const at = from + position;
      const counts: Partial<Record<Exclusion, number>> = {};
      words.forEach((exclusion, wordIndex) => {
        const count = excluded[at * words.length + wordIndex] ?? 0;
        if (count > 0 && (EXCLUSIONS as readonly string[]).includes(exclusion)) counts[exclusion as Exclusion] = count;
      });
      return {
        depth: number("depth", at),
        estimateMs: number("estimateMs", at),
        costUsd: number("costUsd", at),
        family: integer("family", at),
        tier: integer("tier", at),
        nodes: integer("nodes", at),
        bestIdentity: integer("bestIdentity", at),
        excluded: counts,
      };
    });
  }
}
