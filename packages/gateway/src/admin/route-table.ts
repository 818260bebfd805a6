/** Which methods a path has, for answers to those that it has not. */

import type { RouteContract } from "@zml/protocol/admin";

export class RouteTable {
  readonly #paths: readonly { readonly pattern: RegExp; readonly methods: readonly string[] }[];

  constructor(routes: readonly RouteContract[]) {
    const byShape = new Map<string, string[]>();
    for (const { path, method } of routes) {
      const shape = path.replaceAll(/\{\w+\}/g, "{}");
      const methods = byShape.get(shape) ?? [];
      methods.push(...(method === "GET" ? ["GET", "HEAD"] : [method]));
      byShape.set(shape, methods);
    }
    this.#paths = Array.from(byShape, ([shape, methods]) => ({
      pattern: new RegExp(`^${shape.split("{}").map(escaped).join("[^/]+")}$`),
      methods,
    }));
  }

  /** Empty: there is no such path. */
  methodsAt(path: string): readonly string[] {
    return [...new Set(this.#paths.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))];
  }
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\-]/g, "\\$&");
}
