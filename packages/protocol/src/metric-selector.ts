/** The name of a metric as an operator writes it, with labels that a series must have: `queue_depth{model="x"}`. */

/** A metric, and what its series must have in their labels. */
export interface MetricSelector {
  readonly name: string;
  /** Label → value; other labels may be there. */
  readonly labels: Readonly<Record<string, string>>;
}

const NAME = /^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\}\s*)?$/s;
const LABEL = /\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\["\\n])*)"\s*(,|$)/y;

/** The parts of a selector; null: it is none. Only equality is known. */
export function parseMetricSelector(text: string): MetricSelector | null {
  const [, name, block] = NAME.exec(text) ?? [];
  if (name === undefined) return null;
  const labels: Record<string, string> = {};
  const inner = block ?? "";
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < inner.length) {
    if (inner.slice(LABEL.lastIndex).trim() === "") break;
    const [, label = "", value] = LABEL.exec(inner) ?? [];
    if (value === undefined || Object.hasOwn(labels, label)) return null;
    labels[label] = value.replace(/\\(["\\n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
  }
  return { name, labels };
}
