/** Prints a number the way one kind of server does. */
export type NumberFormat = (value: number) => string;

export type Labels = Readonly<Record<string, string>>;

/** Builds an answer of `/metrics` line by line (Prometheus text format 0.0.4). */
export class PrometheusText {
  readonly #lines: string[] = [];
  readonly #format: NumberFormat;

  constructor(format: NumberFormat) {
    this.#format = format;
  }

  family(name: string, type: string, help?: string): void {
    if (help !== undefined) this.#lines.push(`# HELP ${name} ${help}`);
    this.#lines.push(`# TYPE ${name} ${type}`);
  }

  /** One sample; labels are printed in the order of their names. */
  sample(name: string, labels: Labels, value: number): void {
    const pairs = Object.keys(labels)
      .sort()
      .map((key) => `${key}="${escapeLabel(labels[key] ?? "")}"`);
    this.#lines.push(`${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${this.#format(value)}`);
  }

  histogram(name: string, labels: Labels, histogram: Histogram): void {
    let cumulative = 0;
    for (let i = 0; i < histogram.bounds.length; i += 1) {
      cumulative += histogram.counts[i] ?? 0;
      const bound = histogram.bounds[i] ?? Number.NaN;
      this.sample(`${name}_bucket`, { ...labels, le: this.#format(bound) }, cumulative);
    }
    this.sample(`${name}_bucket`, { ...labels, le: "+Inf" }, histogram.count);
    this.sample(`${name}_count`, labels, histogram.count);
    this.sample(`${name}_sum`, labels, histogram.sum);
  }

  text(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}

/** Observations in buckets with the given upper bounds; the last bucket (+Inf) is `count`. */
export class Histogram {
  readonly bounds: readonly number[];
  readonly counts: number[];
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.sum += value;
    this.count += 1;
    const index = this.bounds.findIndex((bound) => value <= bound);
    if (index >= 0) this.counts[index] = (this.counts[index] ?? 0) + 1;
  }
}

/** `1.0`, `0.25`, `1.7e+09`: Python's prometheus_client. */
export function pythonNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (Number.isNaN(value)) return "NaN";
  const text = Number.isInteger(value) ? `${value}.0` : String(value);
  const dot = text.indexOf(".");
  if (value > 0 && dot > 6 && !text.includes("e")) {
    const digits = `${text[0]}.${text.slice(1, dot)}${text.slice(dot + 1)}`.replace(/\.?0+$/, "");
    return `${digits}e+${String(dot - 1).padStart(2, "0")}`;
  }
  return text;
}

/** Six significant digits and `e+06` from a million on: C++ streams (llama.cpp). */
export function streamNumber(value: number): string {
  if (value === 0) return "0";
  const [mantissa = "0", exponent = "0"] = value.toExponential(5).split("e");
  const power = Number(exponent);
  if (power < -4 || power >= 6) {
    const short = mantissa.replace(/\.?0+$/, "");
    return `${short}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return String(Number(value.toPrecision(6)));
}

/** The shortest decimal form: Rust (TGI). */
export function rustNumber(value: number): string {
  return String(value);
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
