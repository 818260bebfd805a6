/**
 * The dashboard's three files. They hold no data, so that they are served without a key; what they ask for is asked of
 * the admin API, with one. Read and compressed at the first visit.
 */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

/** By path; everything else is the API's. */
const FILES: Readonly<Record<string, { readonly name: string; readonly type: string }>> = {
  "/": { name: "index.html", type: "text/html; charset=utf-8" },
  "/assets/app.js": { name: "assets/app.js", type: "text/javascript; charset=utf-8" },
  "/assets/app.css": { name: "assets/app.css", type: "text/css; charset=utf-8" },
};

/** Nothing from elsewhere, nothing inline but the styles that charts set, and no frame around it. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** A file as it is sent. */
export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

interface Page {
  readonly plain: Buffer;
  readonly zipped: Buffer;
  readonly tag: string;
}

export class DashboardFiles {
  readonly #folder: URL;
  readonly #pages = new Map<string, Promise<Page>>();

  constructor(folder: URL) {
    this.#folder = folder;
  }

  /** Whether the path is one of them. */
  static has(path: string): boolean {
    return Object.hasOwn(FILES, path);
  }

  /**
   * @param path one that `has` knows.
   * @throws what the file system said; the pages were not built then.
   */
  async answer(path: string, headers: IncomingHttpHeaders): Promise<PageAnswer> {
    const file = FILES[path];
    if (file === undefined) throw new Error(`${path} is no page`);
    let page = this.#pages.get(path);
    if (page === undefined) {
      page = this.#load(file.name);
      this.#pages.set(path, page);
      // pages that are built later are found then
      page.catch(() => this.#pages.delete(path));
    }
    const { plain, zipped, tag } = await page;
    const common = {
      etag: tag,
      // another version of the gateway has other pages under the same names
      "cache-control": "no-cache",
      vary: "accept-encoding",
      "content-security-policy": PAGE_POLICY,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    };
    if (headers["if-none-match"] === tag) return { status: 304, headers: common, body: Buffer.alloc(0) };
    const isZipped = /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
    const body = isZipped ? zipped : plain;
    return {
      status: 200,
      headers: {
        ...common,
        "content-type": file.type,
        "content-length": String(body.length),
        ...(isZipped ? { "content-encoding": "gzip" } : {}),
      },
      body,
    };
  }

  async #load(name: string): Promise<Page> {
    const plain = await readFile(new URL(name, this.#folder));
    const tag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 16)}"`;
    return { plain, zipped: await promisify(gzip)(plain), tag };
  }
}
