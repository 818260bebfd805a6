/** Judgements as text and JSON, without a secret in them. Pure. */

import { known } from "../control/node-truth.ts";
import type { Findings, Level, Point } from "./check-nodes-findings.ts";
import { POINTS } from "./check-nodes-findings.ts";
import { counted } from "./nodes-words.ts";
import { oneLine, padded, painted } from "./table-text.ts";

/** A node and all that is said about it. */
export interface CheckedNode {
  readonly findings: Findings;
  /** In the order of `POINTS`. */
  readonly points: readonly Point[];
  readonly level: Level;
}

/** Words of a node may be long; more than this says nothing more. */
const TEXT_MAX = 240;

/** Puts judgements in order, and takes out what must not be shown. @param apiKey the node's own key; null: none. */
export function checkedNode(findings: Findings, points: readonly Point[], apiKey: string | null): CheckedNode {
  const clean = (text: string): string => {
    // an engine may repeat the key that it refuses
    const open = apiKey === null || apiKey === "" ? text : text.replaceAll(apiKey, "[secret]");
    const line = oneLine(open).trim();
    return line.length > TEXT_MAX ? `${line.slice(0, TEXT_MAX)}…` : line;
  };
  const rank = ({ point }: Point) => POINTS.indexOf(point);
  const ordered = points
    .toSorted((a, b) => rank(a) - rank(b))
    .map((one) => ({ ...one, text: clean(one.text), advice: one.advice === null ? null : clean(one.advice) }));
  return { findings, points: ordered, level: worstOf(ordered.map(({ level }) => level)) };
}

/** The worst of some levels; green of none. */
export function worstOf(levels: readonly Level[]): Level {
  if (levels.includes("red")) return "red";
  return levels.includes("yellow") ? "yellow" : "green";
}

/** Lines about one node. @param problemsOnly leave green points out. */
export function nodeLines(
  { findings, points, level }: CheckedNode,
  { isColoured, problemsOnly }: { isColoured: boolean; problemsOnly: boolean },
): string[] {
  const { id, family, url } = findings.config;
  const shown = problemsOnly ? points.filter((one) => one.level !== "green") : points;
  const word = (of: Level) => painted(padded(of, LEVEL_SIZE), isColoured, of);
  return [
    `${word(level)}  ${id}  ${family}  ${addressOf(url)}`,
    ...shown.flatMap(({ point, model, level: own, text, advice }) => [
      `  ${word(own)}  ${padded(point, POINT_SIZE)}  ${model === null ? "" : `${oneLine(model)}: `}${text}`,
      ...(advice === null ? [] : [`${" ".repeat(2 + LEVEL_SIZE + 2 + POINT_SIZE + 2)}→ ${advice}`]),
    ]),
  ];
}

const LEVEL_SIZE = "yellow".length;
const POINT_SIZE = Math.max(...POINTS.map((name) => name.length));

/** The last line. */
export function summaryLine(all: readonly CheckedNode[], isStrict: boolean): string {
  const count = (level: Level) => all.filter((node) => node.level === level).length;
  const [green, yellow, red] = [count("green"), count("yellow"), count("red")];
  const strict = isStrict && yellow > 0 ? " (--strict: yellow fails)" : "";
  return `${counted(all.length, "node")}: ${green} green, ${yellow} yellow, ${red} red${strict}`;
}

/** One object for scripts. Unknown numbers are null. */
export function checkJson(all: readonly CheckedNode[], exitCode: number): object {
  return {
    ok: exitCode === 0,
    nodes: all.map(({ findings, points, level }) => {
      const { config, polled, models } = findings;
      return {
        id: config.id,
        address: addressOf(config.url),
        family: config.family,
        origin: config.origin,
        level,
        engine: polled?.engine ?? null,
        version: polled?.reading.version ?? null,
        platform: polled?.reading.platform ?? null,
        models: models.map(({ served, asked }) => ({
          name: served.name,
          upstream_model: served.upstreamModel,
          endpoint: asked.endpoint,
          ok: asked.verdict === "success",
          first_ms: known(asked.firstMs),
          tokens: known(asked.tokens),
          tokens_per_second: known(asked.tokensPerSecond),
        })),
        points,
      };
    }),
  };
}

/** Without path and query, which may hold a key. */
function addressOf(url: string): string {
  return new URL(url).origin;
}
