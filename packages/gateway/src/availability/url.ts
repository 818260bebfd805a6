/** A base whose last segment is an API version (`/v1`, `/v4`) already is the API's root: `/v1` must not come twice. */
const VERSION_SEGMENT = /^v\d+$/;

/**
 * Path and query on a node: the one join for traffic, polls, models and metrics.
 *
 * A path prefix of the base is kept. A base that ends in a version segment stands for the API's root, so `/v1/models`
 * on `http://host/llm/v4` is `/llm/v4/models`, and `/health`, which lies beside the API, is `/llm/health`. A query of
 * the base is kept on every path.
 *
 * @param base URL of the node as configured, with or without prefix, version and trailing slash.
 * @param path absolute path, such as `/v1/chat/completions` or `/health`, with or without a query.
 * @throws TypeError when `base` is not a URL.
 */
export function pathOf(base: string, path: string): string {
  const url = new URL(base);
  const segments = url.pathname.split("/").filter((segment) => segment !== "");
  const last = segments.at(-1) ?? "";
  let joined = path;
  if (VERSION_SEGMENT.test(last)) {
    segments.pop();
    if (path === "/v1" || path.startsWith("/v1/")) joined = `/${last}${path.slice("/v1".length)}`;
  }
  const prefix = segments.map((segment) => `/${segment}`).join("");
  if (url.search === "") return prefix + joined;
  return `${prefix}${joined}${joined.includes("?") ? "&" : "?"}${url.search.slice(1)}`;
}
