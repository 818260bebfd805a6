import assert from "node:assert/strict";
import { test } from "node:test";
import { formatProblems } from "./config-problem.ts";
import { readConfig } from "./read-config.ts";

function read(text: string) {
  return readConfig(text, { fileName: "zml.yaml", env: {}, cores: 4 });
}

test("a wrong source of numbers is told with its line and place", () => {
  const text = `nodes:
  - id: a
    url: http://169.254.169.254/
    family: F
    engine: custom
    custom:
      metrics:
        running: sum(jobs)
        free_memory_gib: a
        free_memory_bytes: b
    metrics_url: ftp://h/
    gpu_exporter: { url: "http://[fd00:ec2::254]/", match: { gpu: 0 } }
`;
  assert.deepEqual(formatProblems(read(text).errors).split("\n"), [
    'zml.yaml:8:18 nodes[0].custom.metrics.running: expected the name of a metric such as my_queue or my_queue{model="x"}, got "sum(jobs)"',
    "zml.yaml:10:28 nodes[0].custom.metrics.free_memory_bytes: free_memory_gib and free_memory_bytes stand for the same number: give one of them",
    'zml.yaml:11:18 nodes[0].metrics_url: expected a URL with http:// or https://, got the scheme "ftp"',
    'zml.yaml:12:67 nodes[0].gpu_exporter.match.gpu: expected a value such as "0" or a list of such, got 0',
  ]);
  const mended = text
    .replace("sum(jobs)", "jobs")
    .replace("        free_memory_bytes: b\n", "")
    .replace("ftp:", "http:")
    .replace("gpu: 0", 'gpu: "0"');
  const WHY = "where clouds hand out credentials: use the node's own address, or set allow_link_local: true";
  assert.deepEqual(formatProblems(read(mended).errors).split("\n"), [
    `zml.yaml:3:10 nodes[0].url: 169.254.169.254 is a link-local address, ${WHY}`,
    `zml.yaml:11:26 nodes[0].gpu_exporter.url: [fd00:ec2::254] is an address of a cloud's metadata service, ${WHY}`,
  ]);
});
