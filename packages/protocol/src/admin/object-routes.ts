import { z } from "zod";
import {
  COLLECTION_NAMES,
  type CollectionName,
  listQuery,
  mintBody,
  mintedSchema,
  nameParams,
  objectPageSchema,
  objectSchema,
  oneQuery,
  putBody,
  RESOURCES,
  rotateBody,
  writtenSchema,
} from "./objects.ts";
import { type RouteContract, route } from "./route-contract.ts";

/** The routes of each collection: list, get, put, delete. */

const ifMatch = z
  .string()
  .max(4096)
  .optional()
  .describe("Only if it is still at this entity tag, or `*`: if it is there.");
const ifNoneMatch = z.string().max(4096).optional();

const getHeaders = z.object({ "if-none-match": ifNoneMatch.describe("304 while it is at one of these entity tags.") });
const putHeaders = z.object({
  "if-match": ifMatch,
  "if-none-match": ifNoneMatch.describe("`*`: only if it is not there."),
});
const deleteHeaders = z.object({ "if-match": ifMatch });

const WRITE_PROBLEMS = [
  "owned_by_file",
  "owned_by_discovery",
  "in_use",
  "needs_restart",
  "precondition_failed",
  "invalid_object",
  "store_unavailable",
] as const;

const written = (description: string) => ({ description, schema: writtenSchema, headers: ["etag"] }) as const;
const PENDING = "Stored, and in force on some workers; the others will follow.";

/** One collection. */
export function collectionRoutes<N extends CollectionName>(name: N) {
  const { kind, one, read, write } = RESOURCES[name];
  const base = { tag: "objects" } as const;
  const path = `/admin/v1/${name}/{name}`;
  const params = nameParams(name);
  const query = oneQuery(name);
  return {
    list: route({
      ...base,
      id: `list_${name.replace("-", "_")}`,
      method: "GET",
      path: `/admin/v1/${name}`,
      summary: `List ${name.replace("-", " ")}`,
      access: read,
      query: listQuery(name),
      answers: { 200: { description: "A page.", schema: objectPageSchema } },
      problems: ["other_account"],
    }),
    get: route({
      ...base,
      id: `get_${kind}`,
      method: "GET",
      path,
      summary: `Get ${one}`,
      access: read,
      params,
      query,
      headers: getHeaders,
      answers: {
        200: { description: "The object.", schema: objectSchema, headers: ["etag"] },
        304: { description: "It has not changed.", schema: null },
      },
      problems: ["not_found", "other_account"],
    }),
    put: route({
      ...base,
      id: `put_${kind}`,
      method: "PUT",
      path,
      summary: `Make or change ${one}`,
      description:
        "The whole entry is replaced. The same body again changes nothing. Keys that are left out have their defaults.",
      access: write,
      params,
      query,
      headers: putHeaders,
      body: { schema: putBody(name), types: ["application/json"], size: "object" },
      answers: {
        200: written("It is changed, or was so already."),
        201: { description: "It is made.", schema: writtenSchema, headers: ["etag", "location"] },
        202: written(PENDING),
      },
      // a key is made by POST, which tells its value
      problems: [...(kind === "key" ? (["not_found"] as const) : []), "other_account", ...WRITE_PROBLEMS],
    }),
    delete: route({
      ...base,
      id: `delete_${kind}`,
      method: "DELETE",
      path,
      summary: `Delete ${one}`,
      access: write,
      params,
      query,
      headers: deleteHeaders,
      answers: {
        200: { description: "It is gone.", schema: writtenSchema },
        202: { description: PENDING, schema: writtenSchema },
      },
      problems: ["not_found", "other_account", ...WRITE_PROBLEMS],
    }),
  };
}

/** By collection. */
export const OBJECT_ROUTES = Object.fromEntries(COLLECTION_NAMES.map((name) => [name, collectionRoutes(name)])) as {
  [N in CollectionName]: ReturnType<typeof collectionRoutes<N>>;
};

const minted = (description: string) => ({ description, schema: mintedSchema, headers: ["etag", "location"] }) as const;

export const KEY_ROUTES = {
  mint: route({
    id: "mint_key",
    method: "POST",
    path: "/admin/v1/keys",
    tag: "objects",
    summary: "Make a key",
    description: "The answer holds the key's value, once: it is stored as a keyed hash and can't be shown again.",
    access: "write",
    body: { schema: mintBody, types: ["application/json"], size: "object" },
    answers: { 201: minted("The key, with its value."), 202: minted(PENDING) },
    problems: ["other_account", ...WRITE_PROBLEMS],
  }),
  rotate: route({
    id: "rotate_key",
    method: "POST",
    path: "/admin/v1/keys/{name}/rotate",
    tag: "objects",
    summary: "Give a key a new value",
    access: "write",
    params: nameParams("keys"),
    query: oneQuery("keys"),
    body: { schema: rotateBody, types: ["application/json"], size: "object" },
    answers: { 200: minted("The key, with its new value."), 202: minted(PENDING) },
    problems: ["not_found", "other_account", ...WRITE_PROBLEMS],
  }),
};

export const ALL_OBJECT_ROUTES: readonly RouteContract[] = [
  ...COLLECTION_NAMES.flatMap((name) => Object.values(OBJECT_ROUTES[name])),
  ...Object.values(KEY_ROUTES),
];
