/** What a check found, judged point by point, with what to do about it. Pure. */

import { DEFAULT_MAX_IN_FLIGHT } from "@zml/engine";
import type { NodeConfig } from "@zml/protocol";
import { defaultMaxInFlight } from "../availability/adapters/adapter.ts";
import { isOk } from "../availability/adapters/poll-answers.ts";
import { known } from "../control/node-truth.ts";
import { ENGINE_ADVICE } from "./check-nodes-advice.ts";
import { type Findings, type Point, point } from "./check-nodes-findings.ts";
import { modelPoints } from "./check-nodes-models.ts";
import type { Polled } from "./check-nodes-poll.ts";
import { counted, numberText } from "./nodes-words.ts";

/** All judgements about one node, but for what the router says. */
export function judge(findings: Findings): Point[] {
  const { config, reach, polled } = findings;
  const points = reachPoints(findings);
  if (polled === null || !reach.isReached) return points;
  return [
    ...points,
    ...http2Point(findings),
    readyPoint(config, polled),
    enginePoint(config, polled),
    ...platformPoint(config, polled),
    ...modelPoints(findings, polled),
    limitPoint(config, polled),
    metricsPoint(config, polled),
    ...keepAlivePoint(findings),
    pricePoint(config),
  ];
}

/** A certificate that ends sooner than this is worth a word, ms. */
const CERTIFICATE_MS_MIN = 14 * 86_400_000;

function reachPoints({ config, reach, nowMs }: Findings): Point[] {
  if (!reach.isReached) {
    const { stage, code } = reach;
    if (stage === "tls") return [point("reachable", "green", "it takes connections"), tlsFailure(code)];
    return [point("reachable", "red", ...unreachableWords(stage, code))];
  }
  const { address, addresses, tookMs, tls } = reach;
  const more = addresses > 1 ? `, the first of ${addresses} addresses` : "";
  const points = [point("reachable", "green", `${address} took a connection in ${tookMs.toFixed(1)} ms${more}`)];
  if (tls === null) return points;
  const { protocol, validTo } = tls;
  if (validTo === null) return [...points, point("tls", "green", `${protocol}, its certificate is valid`)];
  const days = Math.floor((validTo.getTime() - nowMs) / 86_400_000);
  const isShort = validTo.getTime() - nowMs < CERTIFICATE_MS_MIN;
  const text = `${protocol}, its certificate is valid for ${counted(days, "day")}`;
  const tlsPoint = isShort ? point("tls", "yellow", text, "renew it") : point("tls", "green", text);
  return config.serverName === null
    ? [...points, tlsPoint]
    : [...points, { ...tlsPoint, text: `${text}, for ${config.serverName}` }];
}

function unreachableWords(stage: "name" | "connect", code: string): [string, string] {
  if (code === "link_local") {
    return ["its address is link-local, where no node is", "correct url, or set allow_link_local: true on the node"];
  }
  if (stage === "name") return [`its name can't be looked up (${code})`, "correct the host in url, or the DNS record"];
  if (code === "ECONNREFUSED")
    return ["nothing listens there (ECONNREFUSED)", "start the engine, or correct the port in url"];
  if (code === "timeout" || code === "ETIMEDOUT") {
    return ["no connection in time", "look for a firewall between, a wrong address, or a host that is down"];
  }
  return [`no connection (${code})`, "look for the route to the host, or correct url"];
}

function tlsFailure(code: string): Point {
  const isUnknownIssuer = /SELF_SIGNED|UNABLE_TO_(GET|VERIFY)/.test(code);
  if (isUnknownIssuer) {
    return point(
      "tls",
      "red",
      `its certificate is of an authority that is not known here (${code})`,
      "start zml with NODE_EXTRA_CA_CERTS=FILE, the authority's certificate",
    );
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return point("tls", "red", "its certificate is for another name", "set server_name on the node to a name in it");
  }
  if (code === "CERT_HAS_EXPIRED") return point("tls", "red", "its certificate has expired", "renew it");
  if (code === "ECONNRESET" || /^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH)/.test(code)) {
    const advice = "write http:// in url, or name the port that speaks TLS";
    return point("tls", "red", `it does not speak TLS there (${code})`, advice);
  }
  return point("tls", "red", `the TLS handshake failed (${code})`, "compare with openssl s_client -connect HOST:PORT");
}

function http2Point({ config, http2 }: Findings): Point[] {
  if (http2 === null) return [];
  const isTls = config.url.startsWith("https:");
  if (http2 === "spoken")
    return [point("http2", "green", isTls ? "it speaks HTTP/2" : "it speaks HTTP/2 in clear text")];
  const text = {
    alpn: "the handshake did not choose HTTP/2",
    answer: "what it answers is no HTTP/2",
    closed: "it closes a connection that begins with HTTP/2",
    timeout: "it does not answer HTTP/2 in time",
  }[http2];
  return [point("http2", "red", `${text}: every request would fail`, "take http_version out, or let it speak HTTP/2")];
}

function readyPoint({ engine }: NodeConfig, { reading, result }: Polled): Point {
  if (reading.isReady) return point("ready", "green", "it says that it takes requests");
  const { health } = result.responses;
  if (health === null) {
    const advice = "look into the engine's log: a connection is taken, and nothing is answered";
    return point("ready", "red", `its health page gave no answer (${result.healthFault ?? "timeout"})`, advice);
  }
  if (result.healthFault !== null)
    return point("ready", "red", `its health page can't be read: ${result.healthFault}`, "correct url");
  if (health.status === 401 || health.status === 403) {
    return point(
      "ready",
      "red",
      `its health page asks for a key (${health.status})`,
      "name the key's variable in api_key_env",
    );
  }
  const advice =
    engine === "custom"
      ? "wait, or correct custom.health_path"
      : "wait until the model is loaded, or look into its log";
  return point("ready", "red", `its health page says ${health.status}`, advice);
}

function enginePoint({ engine: stated }: NodeConfig, { engine, shown, reading }: Polled): Point {
  const version = reading.version === null ? "" : ` ${reading.version}`;
  if (stated === null) {
    if (engine === null)
      return point("engine", "red", "it can't be told which engine it is", "state engine: on the node");
    if (engine === "custom") {
      return point(
        "engine",
        "yellow",
        "it is no engine that ZML knows: load and limits stay unknown",
        "state engine: custom, and map its metrics under custom.metrics",
      );
    }
    return point("engine", "green", `${engine}${version}, detected`);
  }
  if (shown === stated || (stated === "custom" && (shown === "custom" || shown === null))) {
    return point("engine", "green", `${stated}${version}, as stated`);
  }
  if (shown === null || shown === "custom") {
    return point(
      "engine",
      "yellow",
      `stated as ${stated}, and nothing in its answers shows that`,
      ENGINE_ADVICE[stated].metrics,
    );
  }
  // any engine may be run as custom, which only loses its numbers
  const level = stated === "custom" ? "yellow" : "red";
  return point(
    "engine",
    level,
    `stated as ${stated}, and it is ${shown}`,
    `state engine: ${shown}, or leave engine out`,
  );
}

function platformPoint({ platform: wanted }: NodeConfig, { engine, reading }: Polled): Point[] {
  const { platform } = reading;
  if (wanted === null) return platform === null ? [] : [point("platform", "green", `built for ${platform}`)];
  if (platform === wanted) return [point("platform", "green", `built for ${platform}, as it has to be`)];
  if (platform === null) {
    const advice = engine === null ? "look at the image that runs there" : ENGINE_ADVICE[engine].platform;
    return [
      point("platform", "yellow", `it has to be built for ${wanted}, and does not tell what it is built for`, advice),
    ];
  }
  return [
    point(
      "platform",
      "red",
      `built for ${platform}, and it has to be for ${wanted}`,
      `run the engine's ${wanted} build there, or correct platform`,
    ),
  ];
}

function limitPoint({ maxInFlight: stated }: NodeConfig, { engine, reading }: Polled): Point {
  const known = defaultMaxInFlight(reading);
  const { admissionLimit, concurrencyLimit } = reading;
  if (stated !== null && stated > admissionLimit) {
    return point(
      "limit",
      "yellow",
      `max_in_flight is ${stated}, and the engine refuses beyond ${admissionLimit}`,
      `set max_in_flight to ${admissionLimit} or less`,
    );
  }
  const runs = Number.isNaN(concurrencyLimit) ? "" : `; the engine runs ${concurrencyLimit} at once`;
  if (stated !== null) return point("limit", "green", `max_in_flight ${stated}, as stated${runs}`);
  if (!Number.isNaN(known)) return point("limit", "green", `max_in_flight ${known}, from the engine${runs}`);
  const advice = `set max_in_flight${engine === null ? "" : ` ${ENGINE_ADVICE[engine].limit}`}`;
  return point(
    "limit",
    "yellow",
    `the engine does not tell its limit, and ${DEFAULT_MAX_IN_FLIGHT} is assumed`,
    advice,
  );
}

function metricsPoint({ metricsUrl }: NodeConfig, { engine, adapter, reading, result }: Polled): Point {
  const { metrics } = result.responses;
  const status = metrics?.status ?? 0;
  const load = `${numberText(known(reading.running))} running, ${numberText(known(reading.waiting))} waiting`;
  const advice = engine === null ? "state engine: on the node" : ENGINE_ADVICE[engine].metrics;
  const isKnown = !Number.isNaN(reading.running);
  if (adapter.probes.metrics === null) {
    return point("metrics", "yellow", "no metrics are read: the load of others there is not seen", advice);
  }
  if (isOk(metrics) && !result.usesFallback) {
    if (isKnown) return point("metrics", "green", load);
    return point("metrics", "yellow", "its metrics hold no load: the load of others there is not seen", advice);
  }
  if (isKnown) return point("metrics", "yellow", `${load}, without counters: its metrics are off`, advice);

  const text =
    status > 0 ? `its metrics page says ${status}` : `its metrics can't be read: ${result.metricsFault ?? "timeout"}`;
  return point(
    "metrics",
    "yellow",
    `${text}: the load of others there is not seen`,
    metricsUrl === null ? advice : "correct metrics_url",
  );
}

function keepAlivePoint({ config, keepAlive }: Findings): Point[] {
  const { keepAliveMs } = config;
  switch (keepAlive?.kind) {
    case undefined:
    case "unknown":
      return [];
    case "none":
      return [
        point(
          "keep_alive",
          "yellow",
          "it closes the connection after each answer",
          "let it keep connections open: each request pays for a connect now",
        ),
      ];
    case "told":
      if (keepAlive.ms > keepAliveMs) {
        return [
          point(
            "keep_alive",
            "green",
            `it keeps idle connections ${keepAlive.ms} ms; ZML closes them after ${keepAliveMs} ms`,
          ),
        ];
      }
      return [
        point(
          "keep_alive",
          "yellow",
          `it keeps idle connections ${keepAlive.ms} ms, and keep_alive_ms is ${keepAliveMs}`,
          `set keep_alive_ms below ${keepAlive.ms}`,
        ),
      ];
    case "closed":
      return [
        point(
          "keep_alive",
          "yellow",
          `it closed an idle connection after ${keepAlive.afterMs.toFixed(0)} ms, and keep_alive_ms is ${keepAliveMs}`,
          `set keep_alive_ms below ${Math.floor(keepAlive.afterMs)}`,
        ),
      ];
    case "open":
      return [point("keep_alive", "green", `an idle connection was open after ${keepAlive.afterMs.toFixed(0)} ms`)];
  }
}

function pricePoint({ usdPerGpuHour, priceKey, gpus }: NodeConfig): Point {
  if (priceKey !== null) return point("price", "green", `${priceKey}: zml prices tells whether its feed knows it`);
  if (!Number.isNaN(usdPerGpuHour)) {
    return point("price", "green", `USD ${usdPerGpuHour} per GPU and hour, ${counted(gpus, "GPU")}`);
  }
  return point(
    "price",
    "yellow",
    "no price is stated: policies that look at cost can't compare it",
    "set cost.usd_per_gpu_hour, or cost.price for a feed",
  );
}
