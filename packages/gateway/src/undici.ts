/**
 * The parts of undici that ZML uses, loaded one by one: the whole of it would bring `fetch`, caches, mocks and web
 * sockets to each thread, 14 MB of memory and 80 ms of every start. undici has no public paths to its parts, so its
 * version is pinned in package.json, and the test of the packed gateway runs on the parts.
 */

import { createRequire } from "node:module";
import type undici from "undici";
import type { Dispatcher, Client as UndiciClient, buildConnector as UndiciConnector } from "undici";

const load = createRequire(import.meta.url);

export const Client = load("undici/lib/dispatcher/client.js") as typeof undici.Client;
export type Client = UndiciClient;
export type ClientOptions = UndiciClient.Options;

/** HTTP/2 by prior knowledge. */
export const H2CClient = load("undici/lib/dispatcher/h2c-client.js") as typeof undici.H2CClient;

export const Agent = load("undici/lib/dispatcher/agent.js") as typeof undici.Agent;

export const buildConnector = load("undici/lib/core/connect.js") as typeof undici.buildConnector;
export type Connector = UndiciConnector.connector;

export const errors = load("undici/lib/core/errors.js") as typeof undici.errors;

type Request = (this: Dispatcher, options: Dispatcher.RequestOptions) => Promise<Dispatcher.ResponseData>;
const requestOf = load("undici/lib/api/api-request.js") as Request;

/** `dispatcher.request(options)`, which only the whole of undici puts on its dispatchers. */
export function request(dispatcher: Dispatcher, options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
  return requestOf.call(dispatcher, options);
}
