/** The nodes of all sources beside those of the file: who comes first has the place. Pure. */

import type { NodeConfig } from "@zml/protocol";
import type { Dropped } from "./source.ts";

/** What a source found. */
export interface SourceNodes {
  readonly source: string;
  readonly nodes: readonly NodeConfig[];
}

/**
 * Which of the found nodes join those of the file. An id is there once, and so is a server: the same address under two
 * ids would be counted twice and get more than its limit. The file wins, then the first source.
 *
 * @returns the nodes that join, and per source those that don't.
 */
export function mergeNodes(
  fileNodes: readonly NodeConfig[],
  sources: readonly SourceNodes[],
): { found: NodeConfig[]; clashes: Map<string, readonly Dropped[]> } {
  const byId = new Map(fileNodes.map((node) => [node.id, node]));
  const servers = new Servers();
  for (const node of fileNodes) servers.add(node);
  const found: NodeConfig[] = [];
  const clashes = new Map<string, readonly Dropped[]>();
  for (const { source, nodes } of sources) {
    const dropped: Dropped[] = [];
    for (const node of nodes) {
      const namesake = byId.get(node.id);
      const twin = namesake ?? servers.find(node);
      if (twin !== undefined) {
        const what = namesake === undefined ? `the node ${twin.id} has the same url` : "a node has the same id";
        const where = twin.origin === source ? "" : `, from ${twin.origin}`;
        dropped.push({ target: node.id, reason: `${what}${where}` });
        continue;
      }
      byId.set(node.id, node);
      servers.add(node);
      found.push(node);
    }
    if (dropped.length > 0) clashes.set(source, dropped);
  }
  return { found, clashes };
}

/** Servers by address. Two names at one address may be two servers behind one door; an address alone is any of them. */
class Servers {
  readonly #byUrl = new Map<string, NodeConfig>();
  readonly #byName = new Map<string, NodeConfig>();

  add(node: NodeConfig): void {
    const { account, url, serverName } = node;
    const urlKey = JSON.stringify([account, url]);
    if (!this.#byUrl.has(urlKey)) this.#byUrl.set(urlKey, node);
    this.#byName.set(JSON.stringify([account, url, serverName]), node);
  }

  find({ account, url, serverName }: NodeConfig): NodeConfig | undefined {
    if (serverName === null) return this.#byUrl.get(JSON.stringify([account, url]));
    const named = (name: string | null) => this.#byName.get(JSON.stringify([account, url, name]));
    return named(serverName) ?? named(null);
  }
}
