/** `zml get`, and `zml policies`, `models`, `keys`, `accounts`: objects of a running gateway, whoever owns them. */

import { nearestName } from "@zml/protocol";
import { stringify } from "yaml";
import type { AdminProblem } from "./admin-problem.ts";
import { type AdminOptions, type AdminValue, askAdmin, tellProblem } from "./ask-admin.ts";
import { EXIT } from "./exit-codes.ts";
import { counted } from "./nodes-words.ts";
import { columnsOf, OBJECT_KINDS, type ObjectJson, type ObjectKind, objectTitle } from "./object-kinds.ts";
import { tableLines } from "./table.ts";
import { hasColour, type Terminal, widthOfScreen } from "./terminal.ts";
import { showPage, type Watch } from "./watch-page.ts";

/** Which objects. */
export interface ObjectsOptions extends AdminOptions {
  /** Absent: of a name the key's own account, of a list all that the key may see. */
  readonly account?: string;
}

export interface GetOptions extends ObjectsOptions {
  readonly kind: ObjectKind;
  /** Absent: all. */
  readonly name?: string;
  readonly owner?: string;
  readonly json: boolean;
  /** As it stands in zml.yaml. */
  readonly yaml: boolean;
  readonly wide: boolean;
}

/** @returns the exit code. */
export async function getObjects(terminal: Terminal, options: GetOptions, watch: Watch | null): Promise<number> {
  const { kind, name } = options;
  if (name !== undefined) return getOne(terminal, { ...options, name });
  return showPage<readonly ObjectJson[]>(
    terminal,
    {
      ask: async (signal) => {
        const answer = await listObjects(terminal, options, signal);
        return "problem" in answer ? answer : { report: answer.items };
      },
      lines: (items) =>
        options.yaml ? yamlOf(kind, items).trimEnd().split("\n") : listLines(terminal, items, options),
      json: options.json ? (items) => ({ items }) : null,
      less: "a higher one shows all",
    },
    watch,
  );
}

async function getOne(terminal: Terminal, options: GetOptions & { readonly name: string }): Promise<number> {
  const answer = await findObject(terminal, options);
  if ("problem" in answer) return tellProblem(terminal, answer);
  const { object, text } = answer;
  if (options.json) terminal.out(text);
  else if (options.yaml) terminal.out(yamlOf(options.kind, [object]));
  else {
    const changed = object.updated_at === null ? "" : `, changed ${object.updated_at}`;
    const head = `${objectTitle(object)}: owner ${object.owner}, revision ${object.revision}${changed}`;
    terminal.out(`${head}\n\n${indented(stringify(object.spec))}`);
  }
  return EXIT.ok;
}

/** One object, or that it is not there with the nearest that is. */
export async function findObject(
  terminal: Terminal,
  options: ObjectsOptions & { readonly kind: ObjectKind; readonly name: string },
): Promise<(AdminValue & { readonly object: ObjectJson }) | AdminProblem> {
  const { kind, name, account } = options;
  const path = `/admin/v1/${OBJECT_KINDS[kind].collection}/${encodeURIComponent(name)}`;
  const query = account === undefined ? {} : { account };
  const answer = await askAdmin(terminal, options, { path, query, members: ["kind", "name", "spec"] });
  // the other end is this product
  if (!("problem" in answer)) return { ...answer, object: answer.value as ObjectJson };
  if (answer.exit !== EXIT.notFound || answer.code !== "not_found") return answer;
  const all = await listObjects(terminal, options);
  const known = "problem" in all ? [] : all.items.map((object) => object.name);
  const near = nearestName(name, known);
  const hint = near === null ? `zml get ${OBJECT_KINDS[kind].collection} lists them` : `is it ${near}?`;
  return { ...answer, problem: `there is no ${objectTitle({ kind, account: account ?? "", name })}: ${hint}` };
}

/** Objects of one answer. */
const PAGE = 1000;

/** All objects of a kind, page by page. */
async function listObjects(
  terminal: Terminal,
  options: ObjectsOptions & { readonly kind: ObjectKind; readonly owner?: string },
  signal?: AbortSignal,
): Promise<{ readonly items: readonly ObjectJson[] } | AdminProblem> {
  const { account, owner } = options;
  const path = `/admin/v1/${OBJECT_KINDS[options.kind].collection}`;
  const items: ObjectJson[] = [];
  let cursor: string | undefined;
  do {
    const query = {
      limit: PAGE,
      ...(account !== undefined && { account }),
      ...(owner !== undefined && { owner }),
      ...(cursor !== undefined && { cursor }),
    };
    const question = { path, query, members: ["items", "next_cursor"], ...(signal !== undefined && { signal }) };
    const answer = await askAdmin(terminal, options, question);
    if ("problem" in answer) return answer;
    const page = answer.value as { readonly items: readonly ObjectJson[]; readonly next_cursor: string | null };
    items.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return { items };
}

function listLines(terminal: Terminal, items: readonly ObjectJson[], { kind, wide }: GetOptions): string[] {
  const word = kind.replaceAll("_", " ");
  if (items.length === 0) return [`no ${word} is declared by the file or made over the API`];
  const width = wide ? Number.POSITIVE_INFINITY : widthOfScreen(terminal);
  const { lines, left } = tableLines(columnsOf(kind), items, { width, isColoured: hasColour(terminal) });
  const without = left.length === 0 ? "" : `; without ${left.join(", ")}: --wide shows all`;
  return [...lines, `${counted(items.length, word)}${without}`];
}

/** Objects as zml.yaml has them: `zml apply -f` takes it. */
function yamlOf(kind: ObjectKind, items: readonly ObjectJson[]): string {
  const { section, nameKey } = OBJECT_KINDS[kind];
  const entries = items.map(({ name, account, spec }) => {
    const { [nameKey]: _name, account: _account, ...rest } = spec;
    return { [nameKey]: name, ...(account === "" || account === "default" ? {} : { account }), ...rest };
  });
  return stringify(section.toReversed().reduce<unknown>((inner, key) => ({ [key]: inner }), entries));
}

function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, "  ");
}
