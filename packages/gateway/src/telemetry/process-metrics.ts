/** The process itself: processor time, memory, age. Names are those of Prometheus's own client libraries. */

import type { MetricFamily } from "./metric-family.ts";

export function processMetrics(unixStartMs: number): MetricFamily[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
  const one = (name: string, help: string, type: MetricFamily["type"], value: number): MetricFamily => ({
    name,
    help,
    type,
    values: [{ labels: {}, value }],
  });
  return [
    one("process_cpu_seconds_total", "Processor time of all threads.", "counter", (user + system) / 1e6),
    one("process_resident_memory_bytes", "Resident memory.", "gauge", rss),
    one("process_start_time_seconds", "Start, Unix time.", "gauge", unixStartMs / 1000),
    one("zml_control_heap_bytes", "Heap in use of the control thread.", "gauge", heapUsed),
    one("zml_control_external_bytes", "Memory outside the heap of the control thread.", "gauge", external),
    one("zml_control_array_buffers_bytes", "Of it, array buffers, shared memory included.", "gauge", arrayBuffers),
  ];
}
