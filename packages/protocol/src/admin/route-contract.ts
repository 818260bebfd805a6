import { z } from "zod";
import type { AccessRule } from "./access.ts";
import type { Json } from "./fields.ts";
import type { AdminProblemCode } from "./problem-codes.ts";

/** What one route takes and answers: checked at run time, and what the documentation is made of. */
export interface RouteContract {
  /** `operationId`. */
  readonly id: string;
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** With `{name}` for parameters. */
  readonly path: string;
  readonly tag: RouteTag;
  readonly summary: string;
  readonly description?: string;
  readonly access: AccessRule;
  readonly params: z.ZodObject;
  readonly query: z.ZodObject;
  readonly headers: z.ZodObject;
  readonly body: RouteBody | null;
  /** By status; problems are not among them. */
  readonly answers: Readonly<Record<number, RouteAnswer>>;
  /** Problems beyond those that every route may answer. */
  readonly problems: readonly AdminProblemCode[];
}

/** Headings of the reference. */
export const ROUTE_TAGS = {
  objects: "What is configured: accounts, nodes, models, policies, keys and price feeds.",
  configuration: "The configuration as a whole.",
  nodes: "What an operator does to a node.",
  fleet: "What the gateway sees.",
  decisions: "Why a request went where it went.",
  gateway: "The process itself.",
} as const;
export type RouteTag = keyof typeof ROUTE_TAGS;

export interface RouteBody {
  readonly schema: z.ZodType;
  readonly types: readonly BodyType[];
  /** `object`: one object, at most 1 MiB. `bulk`: as large as `admin.body_bytes`. */
  readonly size: "object" | "bulk";
}

/** Content types that routes take. */
export type BodyType = "application/json" | "application/yaml";

export interface RouteAnswer {
  readonly description: string;
  /** Null: no body. */
  readonly schema: z.ZodType | null;
  /** Default: JSON. */
  readonly types?: readonly string[];
  /** Names of headers beyond those of every answer. */
  readonly headers?: readonly (keyof typeof ANSWER_HEADERS)[];
}

/** Headers of some answers. */
export const ANSWER_HEADERS = {
  etag: "Entity tag of the object, or of what a dry run showed, for If-Match.",
  location: "Where the object is.",
} as const;

/** What a handler gets, with everything checked. */
export interface RouteInput<C extends RouteContract> {
  readonly params: z.output<C["params"]>;
  readonly query: z.output<C["query"]>;
  readonly headers: z.output<C["headers"]>;
  readonly body: C["body"] extends RouteBody ? z.output<C["body"]["schema"]> : undefined;
}

/** What a handler may answer. */
export type RouteReply<C extends RouteContract> = {
  [S in keyof C["answers"]]: C["answers"][S] extends { readonly schema: infer T }
    ? {
        readonly status: S;
        readonly body: T extends z.ZodType ? Json<z.output<T>> | RawBody : null;
        readonly headers?: Readonly<Record<string, string>>;
      }
    : never;
}[keyof C["answers"]];

/** A body that is text already. */
export interface RawBody {
  readonly text: string;
  readonly type: string;
}

export const none = z.strictObject({});

/** Fills in what most routes leave out, and keeps the literal types. */
export function route<
  const A extends Readonly<Record<number, RouteAnswer>>,
  P extends z.ZodObject = typeof none,
  Q extends z.ZodObject = typeof none,
  H extends z.ZodObject = typeof none,
  B extends RouteBody | null = null,
>(
  contract: Omit<RouteContract, "params" | "query" | "headers" | "body" | "answers" | "problems"> & {
    readonly params?: P;
    readonly query?: Q;
    readonly headers?: H;
    readonly body?: B;
    readonly answers: A;
    readonly problems?: readonly AdminProblemCode[];
  },
): RouteContract & {
  readonly params: P;
  readonly query: Q;
  readonly headers: H;
  readonly body: B;
  readonly answers: A;
} {
  return {
    params: none as unknown as P,
    query: none as unknown as Q,
    headers: none as unknown as H,
    body: null as B,
    problems: [],
    ...contract,
  };
}
