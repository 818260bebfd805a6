// Runs Python snippets of the pages.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { succeed } from "../python/test/python-run.ts";
import type { PageGateway } from "./page-gateway.ts";
import type { Snippet } from "./page-snippets.ts";

/** Where a snippet runs. */
export interface PythonPlace {
  readonly python: string;
  /** Folders to import from, for snippets about the openai client. */
  readonly openaiPath: string;
  /** The same for all others; the interpreter's own packages without it. */
  readonly path?: string;
  /** Where its file goes. */
  readonly folder: string;
}

/** Runs a snippet as a file of its own. @returns what it printed. Fails when it fails. */
export function runPython(snippet: Snippet, gateway: PageGateway, place: PythonPlace): Promise<string> {
  const { dataUrl, adminUrl } = gateway;
  const file = `${snippet.place.replaceAll(/\W/g, "-")}.py`;
  writeFileSync(join(place.folder, file), snippet.code.replaceAll("http://127.0.0.1:8080", dataUrl));
  const path = snippet.code.includes("openai") ? place.openaiPath : (place.path ?? "");
  const variables = {
    ZML_BASE_URL: dataUrl,
    ZML_ADMIN_URL: adminUrl,
    OPENAI_BASE_URL: `${dataUrl}/v1`,
    OPENAI_API_KEY: "none",
    PYTHONPATH: path,
    // what pip installed has its byte code beside it
    ...(place.path === undefined && { PYTHONPYCACHEPREFIX: "" }),
  };
  return succeed(place.python, ["-W", "error::DeprecationWarning", file], variables, place.folder);
}
