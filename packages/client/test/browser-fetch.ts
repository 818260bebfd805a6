/** A fetch that lets a page do what a browser would: the CORS protocol of fetch.spec.whatwg.org, on Node's sockets. */

const SAFE_METHODS = new Set(["GET", "HEAD", "POST"]);
const SAFE_CONTENT_TYPES = /^(application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)(;|$)/i;
const SAFE_REQUEST_FIELDS = new Set(["accept", "accept-language", "content-language"]);
/** Set by browsers alone. */
const FORBIDDEN =
  /^(origin|user-agent|cookie|host|connection|content-length|access-control-request-.*|sec-.*|proxy-.*)$/;
/** What a page may always read. */
const SAFE_RESPONSE_FIELDS = new Set([
  "cache-control",
  "content-language",
  "content-length",
  "content-type",
  "expires",
  "last-modified",
  "pragma",
]);

/** What was sent, in order: `OPTIONS /v1/models`. */
export interface BrowserFetch {
  (url: string, init: RequestInit): Promise<Response>;
  readonly sent: string[];
}

/** The fetch of a page of this origin, without a cache of preflights. */
export function browserFetch(origin: string): BrowserFetch {
  const sent: string[] = [];
  const send = (url: string, init: RequestInit): Promise<Response> => {
    sent.push(`${init.method ?? "GET"} ${new URL(url).pathname}`);
    return fetch(url, init);
  };
  const fetchAsPage = async (url: string, init: RequestInit): Promise<Response> => {
    const { method = "GET" } = init;
    const headers = new Headers(init.headers);
    for (const name of headers.keys()) if (FORBIDDEN.test(name)) headers.delete(name);
    const unsafe = [...headers].filter(([name, value]) => !isSafe(name, value)).map(([name]) => name);
    if (!SAFE_METHODS.has(method) || unsafe.length > 0) {
      const asked = {
        "access-control-request-method": method,
        "access-control-request-headers": unsafe.sort().join(","),
      };
      const answer = await send(url, { method: "OPTIONS", headers: { origin, ...asked } });
      if (!answer.ok || !allows(answer.headers, origin)) throw blocked("the preflight allows no such origin");
      const allowed = listOf(answer.headers, "access-control-allow-headers");
      // the wildcard is no permission for a key
      const isAllowed = (name: string) => allowed.has(name) || (allowed.has("*") && name !== "authorization");
      if (!unsafe.every(isAllowed)) throw blocked(`the preflight allows no ${unsafe.find((name) => !isAllowed(name))}`);
      const methods = listOf(answer.headers, "access-control-allow-methods");
      if (!SAFE_METHODS.has(method) && !methods.has(method.toLowerCase())) throw blocked(`no method ${method}`);
    }
    headers.set("origin", origin);
    const response = await send(url, { ...init, headers });
    if (!allows(response.headers, origin)) {
      await response.body?.cancel();
      throw blocked("the answer allows no such origin");
    }
    const exposed = listOf(response.headers, "access-control-expose-headers");
    const shown = [...response.headers].filter(([name]) => SAFE_RESPONSE_FIELDS.has(name) || exposed.has(name));
    const { status, statusText } = response;
    return new Response(response.body, { status, statusText, headers: shown });
  };
  return Object.assign(fetchAsPage, { sent });
}

function isSafe(name: string, value: string): boolean {
  if (name === "content-type") return SAFE_CONTENT_TYPES.test(value);
  return SAFE_REQUEST_FIELDS.has(name);
}

function allows(headers: Headers, origin: string): boolean {
  const allowed = headers.get("access-control-allow-origin");
  return allowed === "*" || allowed === origin;
}

function listOf(headers: Headers, name: string): Set<string> {
  return new Set((headers.get(name) ?? "").split(",").map((item) => item.trim().toLowerCase()));
}

/** All that a page is told. */
function blocked(why: string): TypeError {
  return new TypeError("Failed to fetch", { cause: new Error(why) });
}
