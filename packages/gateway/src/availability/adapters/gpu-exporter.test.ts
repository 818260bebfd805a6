import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { GpuExporterConfig } from "@zml/protocol";
import fc from "fast-check";
import { readGpuMemory } from "./gpu-exporter.ts";

const exporter = (match: GpuExporterConfig["match"] = {}): GpuExporterConfig => ({
  url: "http://h/",
  match,
  metric: null,
});

const gpu = (number: number, more = "") =>
  `gpu="${number}",UUID="GPU-${number}",device="nvidia${number}",modelName="NVIDIA H100 80GB HBM3"${more}`;
const NVIDIA = [
  "# TYPE DCGM_FI_DEV_FB_FREE gauge",
  `DCGM_FI_DEV_FB_FREE{${gpu(0, ',hostname="n-17"')}} 4211`,
  `DCGM_FI_DEV_FB_FREE{gpu="1", UUID="GPU-1",device="nvidia1",Hostname="n-17",namespace="llm",pod="vllm-0"} 3907`,
  `DCGM_FI_DEV_FB_FREE{${gpu(0, ',hostname="n-18"').replace("GPU-0", "GPU-8")}} 80000`,
  `DCGM_FI_DEV_MEMORY_TEMP{${gpu(0)}} 9223372036854775794\n`,
].join("\n");
const amd = (id: number, partition: number, free: number) =>
  `gpu_free_vram{card_model="AMD_INSTINCT_MI300X",gpu_id="${id}",gpu_partition_id="${partition}",hostname="m-03"} ${free}\n`;

describe("free memory by an exporter", () => {
  it("is the sum over the GPUs that match, whatever the case of a label", () => {
    assert.deepEqual(readGpuMemory(NVIDIA, exporter({ hostname: ["n-17"] })), {
      freeGib: (4211 + 3907) / 1024,
      gpus: 2,
    });
    assert.deepEqual(readGpuMemory(NVIDIA, exporter({ hostname: ["n-17"], gpu: ["0"] })), {
      freeGib: 4211 / 1024,
      gpus: 1,
    });
    assert.deepEqual(readGpuMemory(NVIDIA, exporter({ uuid: ["GPU-1", "GPU-8"] })), { freeGib: 83907 / 1024, gpus: 2 });
    assert.equal(readGpuMemory(NVIDIA, exporter()).gpus, 3);
  });

  it("reads AMD's names, with a prefix too, and adds the partitions of a card", () => {
    const text = amd(0, 0, 11874) + amd(0, 1, 0) + amd(1, 0, 500);
    assert.deepEqual(readGpuMemory(text, exporter()), { freeGib: 12374 / 1024, gpus: 2 });
    assert.deepEqual(readGpuMemory(text.replaceAll("gpu_free", "amd_gpu_free"), exporter()), {
      freeGib: 12374 / 1024,
      gpus: 2,
    });
    const own = { url: "http://h/", match: {}, metric: { name: "x_gpu_free_vram", labels: { gpu_id: "1" } } };
    assert.deepEqual(readGpuMemory(text.replaceAll("gpu_free", "x_gpu_free"), own), { freeGib: 500 / 1024, gpus: 1 });
  });

  it("counts a card once that several pods share, and not its MIG instances beside it", () => {
    const shared = ["a", "b"].map((pod) => `DCGM_FI_DEV_FB_FREE{${gpu(0, `,pod="${pod}"`)}} 1024\n`).join("");
    assert.deepEqual(readGpuMemory(shared, exporter()), { freeGib: 1, gpus: 1 });
    const slices = [1, 2].map((id) => `DCGM_FI_DEV_FB_FREE{${gpu(0, `,GPU_I_ID="${id}"`)}} 512\n`).join("");
    assert.deepEqual(readGpuMemory(slices, exporter()), { freeGib: 1, gpus: 1 });
    assert.deepEqual(readGpuMemory(`${slices}DCGM_FI_DEV_FB_FREE{${gpu(0)}} 2048\n`, exporter()), {
      freeGib: 2,
      gpus: 1,
    });
    assert.deepEqual(readGpuMemory(slices, exporter({ gpu_i_id: ["2"] })), { freeGib: 0.5, gpus: 1 });
  });

  it("is unknown where one card's is: a part of a sum would be a wrong number", () => {
    for (const odd of ["9223372036854775794", "NaN", "-1", "+Inf", "1e12"]) {
      const text = `DCGM_FI_DEV_FB_FREE{${gpu(0)}} 100\nDCGM_FI_DEV_FB_FREE{${gpu(1)}} ${odd}\n`;
      assert.deepEqual(readGpuMemory(text, exporter()), { freeGib: Number.NaN, gpus: 2 }, odd);
    }
  });

  it("is unknown where nothing matches, and on a page that is empty while the exporter reloads", () => {
    assert.deepEqual(readGpuMemory(NVIDIA, exporter({ hostname: ["n-19"] })), { freeGib: Number.NaN, gpus: 0 });
    assert.deepEqual(readGpuMemory(NVIDIA, exporter({ rack: ["1"] })), { freeGib: Number.NaN, gpus: 0 });
    assert.deepEqual(readGpuMemory("", exporter()), { freeGib: Number.NaN, gpus: 0 });
  });

  it("survives any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (noise) => {
        const { freeGib } = readGpuMemory(`${noise}\nDCGM_FI_DEV_FB_FREE ${noise}`, exporter());
        assert.ok(Number.isNaN(freeGib) || freeGib >= 0);
      }),
    );
  });
});
