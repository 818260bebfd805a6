/** Reads and checks the certificate files that a configuration names, so that a wrong one is told with line and path. */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Config, ConfigIssue, ConfigPath, NodeTlsConfig, ServerTlsConfig } from "@zml/protocol";
import { completeNodeTls } from "@zml/protocol";
import type { ConfigSecrets } from "./resolve-secrets.ts";
import { Secret } from "./secret.ts";

/** TLS of the data port, read: PEM. */
export interface ServerTlsFiles {
  readonly cert: string;
  readonly key: Secret;
  /** Authorities of callers' certificates; null: callers need none. */
  readonly clientCa: string | null;
}

/** True when the certificate files of two readings say the same, so that a reload need not put them in force. */
export function hasSameFiles(one: ConfigSecrets, other: ConfigSecrets): boolean {
  return isSameTls(one.dataTls, other.dataTls) && areSameFiles(one.tlsFiles, other.tlsFiles);
}

/** Files whose contents are part of the configuration, beside the file that names them. */
export function namedFiles({ data: { tls } }: Config, { tlsFiles }: ConfigSecrets): string[] {
  const own = tls === null ? [] : [tls.certFile, tls.keyFile, ...(tls.clientCaFile === null ? [] : [tls.clientCaFile])];
  return [...own, ...tlsFiles.keys()];
}

export interface TlsFilesRead {
  /** Null: none is configured, or there are errors. */
  readonly files: ServerTlsFiles | null;
  readonly errors: readonly ConfigIssue[];
  readonly warnings: readonly ConfigIssue[];
}

const DATA_TLS: ConfigPath = ["data", "tls"];

/** Reads what `data.tls` names. Never throws. @param nowMs wall clock, for the certificate's term. */
export function readDataTls(tls: ServerTlsConfig | null, nowMs = Date.now()): TlsFilesRead {
  if (tls === null) return NONE;
  const reader = new PemReader(DATA_TLS);
  const cert = reader.read("cert_file", tls.certFile);
  const key = reader.read("key_file", tls.keyFile);
  const clientCa = tls.clientCaFile === null ? null : reader.read("client_ca_file", tls.clientCaFile);
  const parsed = cert === null ? null : reader.certificate("cert_file", cert);
  if (key !== null) reader.key("key_file", key, parsed);
  if (clientCa !== null) reader.certificate("client_ca_file", clientCa);
  if (parsed !== null) reader.term("cert_file", parsed, nowMs);
  if (cert === null || key === null || reader.errors.length > 0)
    return { files: null, errors: reader.errors, warnings: reader.warnings };
  // what only OpenSSL knows to refuse, such as a key that is too short
  reader.check("cert_file", () => createSecureContext({ cert, key, ...(clientCa === null ? {} : { ca: clientCa }) }));
  const { errors, warnings } = reader;
  return { files: errors.length > 0 ? null : { cert, key: new Secret(key), clientCa }, errors, warnings };
}

/** Files that nodes' `tls` sections name, by path, with what is wrong with them. */
export interface NodeTlsRead {
  readonly files: ReadonlyMap<string, Secret>;
  readonly errors: readonly ConfigIssue[];
  readonly warnings: readonly ConfigIssue[];
}

/** Reads what the `tls` sections of nodes and of discovery's templates name, each file once. Never throws. */
export function readNodeTls({ nodes, discovery }: Config): NodeTlsRead {
  const files = new Map<string, Secret>();
  const errors: ConfigIssue[] = [];
  const warnings: ConfigIssue[] = [];
  const look = (tls: NodeTlsConfig, path: ConfigPath, isTls: boolean): void => {
    const reader = new PemReader(path, files);
    const ca = tls.caFile === null ? null : reader.read("ca_file", tls.caFile);
    const cert = tls.certFile === null ? null : reader.read("cert_file", tls.certFile);
    const key = tls.keyFile === null ? null : reader.read("key_file", tls.keyFile);
    if (ca !== null) reader.certificate("ca_file", ca);
    const parsed = cert === null ? null : reader.certificate("cert_file", cert);
    if (key !== null) reader.key("key_file", key, parsed);
    errors.push(...reader.errors);
    if (!isTls) {
      const hint = "write https://, or take tls out";
      errors.push({ path, at: "key", message: "the node's url is http://: tls has no effect", hint });
    }
    if (tls.insecureSkipVerify) {
      const message = "insecure_skip_verify: whoever is on the way to the node can read and change everything";
      warnings.push({
        path: [...path, "insecure_skip_verify"],
        at: "key",
        message,
        hint: "name its authority in ca_file",
      });
    }
  };
  for (const [index, { tls, url }] of nodes.entries()) {
    if (tls !== null) look(tls, ["nodes", index, "tls"], url.startsWith("https:"));
  }
  for (const [index, { node, scheme }] of discovery.sources.entries()) {
    if (node.tls === undefined) continue;
    look(completeNodeTls(node.tls), ["discovery", "sources", index, "node", "tls"], scheme === "https");
  }
  return { files, errors, warnings };
}

/** Reads PEM files, and keeps what is wrong with them. */
class PemReader {
  readonly errors: ConfigIssue[] = [];
  readonly warnings: ConfigIssue[] = [];
  readonly #section: ConfigPath;
  readonly #known: Map<string, Secret>;

  /** @param known files by path, which is added to. */
  constructor(section: ConfigPath, known = new Map<string, Secret>()) {
    this.#section = section;
    this.#known = known;
  }

  read(field: string, path: string): string | null {
    const known = this.#known.get(path);
    if (known !== undefined) return known.reveal();
    try {
      const text = readFileSync(path, "utf8");
      this.#known.set(path, new Secret(text));
      return text;
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
      const why = code === "ENOENT" ? "there is no such file" : `the file can't be read (${code})`;
      this.#fail(field, `${why}: ${path}`, "paths are beside the configuration file");
      return null;
    }
  }

  certificate(field: string, pem: string): X509Certificate | null {
    try {
      return new X509Certificate(pem);
    } catch {
      this.#fail(field, "the file holds no certificate in PEM", "it begins with -----BEGIN CERTIFICATE-----");
      return null;
    }
  }

  key(field: string, pem: string, certificate: X509Certificate | null): void {
    try {
      const key = createPrivateKey(pem);
      if (certificate === null || certificate.checkPrivateKey(key)) return;
      this.#fail(field, "the key is not that of the certificate", "name the key that the certificate was made for");
    } catch {
      this.#fail(field, "the file holds no key in PEM that can be used", "a key with a passphrase can't be read");
    }
  }

  term(field: string, { validFrom, validTo }: X509Certificate, nowMs: number): void {
    const path = [...this.#section, field];
    const hint = "callers will refuse it";
    if (Date.parse(validTo) < nowMs) {
      this.warnings.push({ path, at: "value", message: `the certificate ended at ${validTo}`, hint });
    } else if (Date.parse(validFrom) > nowMs) {
      this.warnings.push({ path, at: "value", message: `the certificate begins at ${validFrom}`, hint });
    }
  }

  check(field: string, use: () => unknown): void {
    try {
      use();
    } catch (error) {
      this.#fail(field, `TLS can't use it: ${error instanceof Error ? error.message : "unknown"}`, null);
    }
  }

  #fail(field: string, message: string, hint: string | null): void {
    this.errors.push({ path: [...this.#section, field], at: "value", message, hint });
  }
}

const NONE: TlsFilesRead = { files: null, errors: [], warnings: [] };

function areSameFiles(one: ReadonlyMap<string, Secret>, other: ReadonlyMap<string, Secret>): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([path, text]) => other.get(path)?.equals(text) === true);
}

function isSameTls(one: ServerTlsFiles | null, other: ServerTlsFiles | null): boolean {
  if (one === null || other === null) return one === other;
  return one.cert === other.cert && one.key.equals(other.key) && one.clientCa === other.clientCa;
}
