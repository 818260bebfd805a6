/** TLS and HTTP/2 of both sides, in the file and as the product uses it. */

import { z } from "zod";
import * as field from "./config-fields.ts";

const TLS_VERSIONS = ["1.2", "1.3"] as const;

/** TLS of the data port. */
export const serverTlsSchema = z
  .strictObject(
    {
      cert_file: field.text("a path").describe("PEM: the certificate, then those between it and the root."),
      key_file: field.text("a path").describe("PEM: the key of the certificate, without a passphrase."),
      client_ca_file: field
        .text("a path")
        .optional()
        .describe("PEM: authorities of callers. With it a caller needs a certificate of one of them."),
      min_version: field.oneOf(TLS_VERSIONS).default("1.2").describe("The oldest version of TLS that callers may use."),
    },
    field.mapping,
  )
  .describe("TLS on the data port, HTTP/1.1 and HTTP/2 by ALPN. Default: clear text.");

/** HTTP/2 of the data port. */
export const http2Schema = z
  .strictObject(
    {
      max_streams: field
        .count({ min: 1, max: 65_536 })
        .default(256)
        .describe("Requests of one connection at one time; further ones are refused, which clients retry."),
      stream_window_bytes: field
        .byteCount({ min: 1024, max: 2 ** 24 })
        // a prompt of 256 KiB in one round trip
        .default(2 ** 18)
        .describe("Bytes of a request body that may be on the way, per request."),
      connection_window_bytes: field
        .byteCount({ min: 65_535, max: 2 ** 30 })
        .default(2 ** 22)
        .describe("Bytes of all request bodies of a connection that may be on the way."),
      connection_memory_bytes: field
        .byteCount({ min: 2 ** 20, max: 2 ** 30 })
        .default(2 ** 24)
        .describe("What a connection may take for its streams, frames and header tables; beyond, streams are refused."),
      reset_burst: field
        .count({ min: 1, max: 1_000_000 })
        .default(1000)
        .describe("Requests of a connection that may be reset at once; more end the connection."),
      resets_per_second: field
        .count({ min: 1, max: 1_000_000 })
        .default(100)
        .describe("Requests of a connection that may be reset per second, in the long run."),
      control_frames_per_second: field
        .count({ min: 1, max: 1_000_000 })
        .default(100)
        .describe(
          "PING and SETTINGS frames of a connection per second, and ten times as many at once; more end the connection.",
        ),
    },
    field.mapping,
  )
  .prefault({})
  .describe("Limits of callers' HTTP/2 connections. They hold for connections that are made after a change.");

/** TLS towards a node. */
export const nodeTlsSchema = z
  .strictObject(
    {
      ca_file: field
        .text("a path")
        .optional()
        .describe("PEM: authorities of its certificate, in place of the system's."),
      server_name: field
        .hostName("a host name")
        .optional()
        .describe("The name in its certificate. Default: server_name of the node, else the host of the url."),
      cert_file: field.text("a path").optional().describe("PEM: our certificate, where the node asks for one."),
      key_file: field.text("a path").optional().describe("PEM: the key of cert_file."),
      insecure_skip_verify: field
        .flag()
        .default(false)
        .describe(
          "Take any certificate: whoever is on the way can read and change everything. Warned of at each load.",
        ),
    },
    field.mapping,
  )
  .refine((tls) => (tls.cert_file === undefined) === (tls.key_file === undefined), {
    error: "cert_file and key_file go together: name both, or neither",
  })
  .describe("TLS towards the node, for traffic and polls. Only with https://.");

/** HTTP/2 towards a node. */
export const nodeHttp2Schema = z
  .strictObject(
    {
      max_streams: field
        .count({ min: 1, max: 65_536 })
        .default(256)
        .describe("Requests of one connection at one time, if the node takes as many; then another is opened."),
      stream_window_bytes: field
        .byteCount({ min: 1024, max: 2 ** 24 })
        .default(2 ** 18)
        .describe("Bytes of an answer that may be on the way or wait for a slow caller, per request."),
      ping_ms: field
        .durationMs({ min: 10, max: 3_600_000 })
        .default(15_000)
        .describe(
          "A connection on which nothing comes for so long is asked; without an answer as long after, it is dead.",
        ),
    },
    field.mapping,
  )
  .prefault({})
  .describe('Only with http_version: "2".');

/** TLS towards a node; paths as written, or absolute once the file's place is known. `null`: not set. */
export interface NodeTlsConfig {
  readonly caFile: string | null;
  readonly serverName: string | null;
  readonly certFile: string | null;
  readonly keyFile: string | null;
  readonly insecureSkipVerify: boolean;
}

export function completeNodeTls(tls: z.output<typeof nodeTlsSchema>): NodeTlsConfig {
  return {
    caFile: tls.ca_file ?? null,
    serverName: tls.server_name ?? null,
    certFile: tls.cert_file ?? null,
    keyFile: tls.key_file ?? null,
    insecureSkipVerify: tls.insecure_skip_verify,
  };
}

/** TLS of the data port; paths as written, or absolute once the file's place is known. */
export interface ServerTlsConfig {
  readonly certFile: string;
  readonly keyFile: string;
  /** `null`: callers need no certificate. */
  readonly clientCaFile: string | null;
  readonly minVersion: (typeof TLS_VERSIONS)[number];
}

export function completeServerTls(tls: z.output<typeof serverTlsSchema>): ServerTlsConfig {
  return {
    certFile: tls.cert_file,
    keyFile: tls.key_file,
    clientCaFile: tls.client_ca_file ?? null,
    minVersion: tls.min_version,
  };
}
