/**
 * What a request obliges the model to write instead of words: the arguments of a tool call, or JSON of a schema. The
 * fakes stand for a model that calls the first tool it is offered until it has seen a result, as the shared cause of
 * every agent's loop.
 */
import type { JsonObject } from "./json-object.ts";
import { isObject } from "./json-object.ts";

export type ForcedOutput = {
  /** Null: structured output, which is the answer's text. */
  readonly tool: { readonly name: string; readonly isNamedByCaller: boolean } | null;
  /** JSON: the arguments, or the answer. */
  readonly text: string;
};

/** Reads the three dialects (chat, Responses, Anthropic); null when the model writes what it likes. */
export function readForcedOutput(body: JsonObject): ForcedOutput | null {
  const tool = chosenTool(body);
  if (tool !== null) {
    const { name, schema, isNamedByCaller } = tool;
    return { tool: { name, isNamedByCaller }, text: JSON.stringify(exampleOf(schema)) };
  }
  const schema = outputSchema(body);
  return schema === null ? null : { tool: null, text: JSON.stringify(exampleOf(schema)) };
}

type Tool = { readonly name: string; readonly schema: JsonObject };

function chosenTool(body: JsonObject): (Tool & { readonly isNamedByCaller: boolean }) | null {
  const tools = (Array.isArray(body["tools"]) ? body["tools"] : []).flatMap(toolOf);
  const choice = body["tool_choice"];
  const word = isObject(choice) ? choice["type"] : choice;
  const named = isObject(choice) ? nameOf(choice) : undefined;
  if (word === "none") return null;
  const found = tools.find(({ name }) => name === named);
  if (found !== undefined) return { ...found, isNamedByCaller: true };
  const mustCall = word === "required" || word === "any";
  const [first] = tools;
  if (first === undefined || (!mustCall && hasToolResult(body))) return null;
  return { ...first, isNamedByCaller: false };
}

function toolOf(value: unknown): Tool[] {
  if (!isObject(value)) return [];
  const name = nameOf(value);
  const inner = isObject(value["function"]) ? value["function"] : value;
  const schema = inner["parameters"] ?? inner["input_schema"];
  return name === undefined ? [] : [{ name, schema: isObject(schema) ? schema : {} }];
}

/** `{function: {name}}` in the chat API, `{name}` in the others. */
function nameOf(value: JsonObject): string | undefined {
  const inner = isObject(value["function"]) ? value["function"] : value;
  return typeof inner["name"] === "string" ? inner["name"] : undefined;
}

function hasToolResult(body: JsonObject): boolean {
  const items = body["messages"] ?? body["input"];
  const last: unknown = Array.isArray(items) ? items.at(-1) : undefined;
  if (!isObject(last)) return false;
  if (last["role"] === "tool" || last["type"] === "function_call_output") return true;
  const content = last["content"];
  return Array.isArray(content) && content.some((part) => isObject(part) && part["type"] === "tool_result");
}

function outputSchema(body: JsonObject): JsonObject | null {
  const inside = (name: string): unknown => {
    const outer = body[name];
    return isObject(outer) ? outer["format"] : undefined;
  };
  const format = body["response_format"] ?? inside("text") ?? inside("output_config");
  if (!isObject(format)) return null;
  if (format["type"] === "json_object") return { type: "object", properties: { answer: { type: "string" } } };
  if (format["type"] !== "json_schema") return null;
  const wrapped = isObject(format["json_schema"]) ? format["json_schema"] : format;
  return isObject(wrapped["schema"]) ? wrapped["schema"] : null;
}

/** Depth at which recursive schemas end. */
const DEPTH_MAX = 8;

/** The first value that a schema allows, with every property that it names. Keywords beyond the usual are not looked at. */
export function exampleOf(schema: JsonObject, root: JsonObject = schema, depth = 0): unknown {
  if (depth > DEPTH_MAX) return null;
  const inner = (value: unknown): unknown => exampleOf(isObject(value) ? value : {}, root, depth + 1);
  if (typeof schema["$ref"] === "string") return inner(resolve(root, schema["$ref"]));
  if ("const" in schema) return schema["const"];
  if (Array.isArray(schema["enum"])) return schema["enum"][0];
  for (const word of ["anyOf", "oneOf", "allOf"]) {
    const options: unknown = schema[word];
    if (Array.isArray(options)) return inner(options.find((option) => isObject(option) && option["type"] !== "null"));
  }
  const type: unknown = Array.isArray(schema["type"]) ? schema["type"][0] : schema["type"];
  switch (type) {
    case "string":
      return "light".padEnd(numberOf(schema["minLength"], 0), "-");
    case "integer":
    case "number":
      return numberOf(schema["minimum"], numberOf(schema["exclusiveMinimum"], 0) + 1);
    case "boolean":
      return true;
    case "null":
      return null;
    case "array":
      return Array.from({ length: numberOf(schema["minItems"], 1) }, () => inner(schema["items"]));
    default: {
      const properties = isObject(schema["properties"]) ? schema["properties"] : {};
      return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, inner(value)]));
    }
  }
}

/** A reference within the document: `#/$defs/name`. */
function resolve(root: JsonObject, reference: string): unknown {
  let at: unknown = root;
  for (const part of reference.split("/").slice(1)) at = isObject(at) ? at[part] : undefined;
  return at;
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}
