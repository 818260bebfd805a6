// What reading metrics costs the control thread: MB/s on captured texts, and how long the worst texts of the largest
// accepted body hold it. Run: node metrics-text.bench.ts
import { readFileSync } from "node:fs";
import { foldMetric, parseMetrics } from "./metrics-text.ts";

const BODY_BYTES = 4 * 2 ** 20;
const RUNNING = "vllm:num_requests_running";
const WANTED: ReadonlySet<string> = new Set([
  RUNNING,
  "vllm:num_requests_waiting",
  "vllm:kv_cache_usage_perc",
  "vllm:generation_tokens_total",
  "vllm:prompt_tokens_total",
  "vllm:engine_sleep_state",
]);

const sample = (name: string) => readFileSync(new URL(`./adapters/samples/${name}`, import.meta.url), "latin1");
const filled = (line: string) => line.repeat(Math.floor(BODY_BYTES / line.length));
const series = (labels: number) => (at: number) =>
  `${RUNNING}{${Array.from({ length: labels }, (_, index) => `l${index}="${at}"`).join(",")}} 1\n`;

const texts: Record<string, string> = {
  vLLM: sample("vllm-load.prom"),
  "vLLM, two ranks": sample("vllm-two-ranks.prom"),
  "4 MiB of vLLM": filled(sample("vllm-load.prom")),
  "4 MiB of wanted series": filled(series(3)(1)),
  "1,024 series, 16 labels": Array.from({ length: 1024 }, (_, at) => series(16)(at)).join(""),
  "one line of labels": `${RUNNING}{${filled('a="b",')}`,
  blanks: filled(" "),
  "empty lines": filled("\n"),
  "lines of 20 bytes": filled(`${"x".repeat(19)}\n`),
  "a label without end": `${RUNNING}{a="${filled("x")}`,
  "a number without end": `${RUNNING} ${filled("9")}`,
  noise: Buffer.from(Uint8Array.from({ length: BODY_BYTES }, (_, at) => (at * 2_654_435_761) >>> 13)).toString(),
};

for (const [name, text] of Object.entries(texts)) {
  const times = Array.from({ length: text.length > 1e6 ? 15 : 500 }, () => {
    const startMs = performance.now();
    foldMetric(parseMetrics(text, WANTED), [RUNNING], "sum");
    return performance.now() - startMs;
  }).sort((a, b) => a - b);
  const [best = Number.NaN] = times;
  const median = times[times.length >> 1] ?? Number.NaN;
  const size = `${(text.length / 1e6).toFixed(2)} MB`;
  const rate = `${(text.length / 1e3 / best).toFixed(0)} MB/s`;
  console.log(
    `${name.padEnd(26)}${size.padStart(10)}  best ${best.toFixed(3)} ms  median ${median.toFixed(3)} ms  ${rate}`,
  );
}
