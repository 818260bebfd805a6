import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { DashboardFiles } from "./dashboard-files.ts";

function folder(t: TestContext): { files: DashboardFiles; build: () => void } {
  const path = mkdtempSync(join(tmpdir(), "zml-pages-"));
  t.after(() => rmSync(path, { recursive: true }));
  const build = () => {
    mkdirSync(join(path, "assets"), { recursive: true });
    writeFileSync(join(path, "index.html"), "<title>ZML</title>");
    writeFileSync(join(path, "assets", "app.js"), "let x = 1;".repeat(100));
    writeFileSync(join(path, "assets", "app.css"), "a {}");
  };
  return { files: new DashboardFiles(pathToFileURL(`${path}/`)), build };
}

test("three paths are pages, and nothing that leads elsewhere is", () => {
  for (const path of ["/", "/assets/app.js", "/assets/app.css"]) assert.ok(DashboardFiles.has(path), path);
  for (const path of ["/index.html", "/assets/../index.html", "/assets/", "//", "/constructor", "/admin/v1/fleet"]) {
    assert.ok(!DashboardFiles.has(path), path);
  }
});

test("a page says that nothing from elsewhere may run in it", async (t) => {
  const { files, build } = folder(t);
  build();
  const { status, headers, body } = await files.answer("/", {});
  assert.equal(status, 200);
  assert.equal(body.toString(), "<title>ZML</title>");
  assert.match(headers["content-security-policy"] ?? "", /^default-src 'none'; script-src 'self';/);
  assert.doesNotMatch(headers["content-security-policy"] ?? "", /script-src[^;]*unsafe|https?:/);
});

test("a browser that takes gzip gets it, and one that has the file gets nothing", async (t) => {
  const { files, build } = folder(t);
  build();
  const zipped = await files.answer("/assets/app.js", { "accept-encoding": "br, gzip" });
  assert.equal(zipped.headers["content-encoding"], "gzip");
  assert.equal(gunzipSync(zipped.body).toString(), "let x = 1;".repeat(100));
  const again = await files.answer("/assets/app.js", { "if-none-match": zipped.headers["etag"] ?? "" });
  assert.deepEqual([again.status, again.body.length], [304, 0]);
});

test("pages that are built after the start are found", async (t) => {
  const { files, build } = folder(t);
  await assert.rejects(files.answer("/", {}), { code: "ENOENT" });
  build();
  assert.equal((await files.answer("/", {})).status, 200);
});
