import { parseArgs } from "node:util";

/** What the command line asks for, with every default filled in. */
export type DemoOptions = {
  readonly isOnce: boolean;
  readonly isJson: boolean;
  readonly isReal: boolean;
  readonly seed: number;
  /** Length of the traffic; Infinity: until Ctrl-C. */
  readonly seconds: number;
  /** How much faster the fake accelerators are than real ones. */
  readonly speedUp: number;
  /** How much faster than recorded the trace is replayed. */
  readonly rate: number;
};

export type ReadOptions =
  | { readonly kind: "run"; readonly options: DemoOptions }
  | { readonly kind: "help" }
  | { readonly kind: "refused"; readonly message: string };

export const HELP = `npm run demo [-- FLAGS]

A mixed fleet behind one gateway, with live traffic; one node is killed and comes back. Ctrl-C ends everything.

  --once         end by itself after 20 seconds and print a summary
  --json         with --once: print one JSON object on standard output instead
  --real         two real llama.cpp servers with tiny models instead of fake nodes (installed on first use)
  --seconds N    length of the traffic (3 to 86400; default: 20 with --once, else until Ctrl-C)
  --rate N       how much faster than recorded the trace is replayed (0.1 to 20; default 2, with --real 1)
  --speed-up N   how much faster than real ones the fake accelerators are (0.1 to 100; default 1)
  --seed N       same seed, same calls (a whole number; default 1)
  --help         this text

Dollars are list price times tokens over the capacity that the gateway learned: what the tokens cost on nodes that are
kept busy (the capacity meter), not a bill. For JSON without npm's own lines: npm run -s demo -- --once --json
`;

const FLAGS = {
  once: { type: "boolean" },
  json: { type: "boolean" },
  real: { type: "boolean" },
  seed: { type: "string" },
  seconds: { type: "string" },
  "speed-up": { type: "string" },
  rate: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;

const ONCE_SECONDS = 20;

/** Reads the command line. Never throws; what it can't use is refused with one line that says what to do. */
export function readOptions(args: readonly string[]): ReadOptions {
  const { tokens } = parseArgs({ args: [...args], options: FLAGS, strict: false, tokens: true });
  const given = new Map<string, string>();
  for (const token of tokens) {
    if (token.kind === "option-terminator") continue;
    if (token.kind === "positional") return refused(`unknown argument "${token.value}"`);
    if (!Object.hasOwn(FLAGS, token.name)) return refused(`unknown flag ${token.rawName}`);
    const isNumber = FLAGS[token.name as keyof typeof FLAGS].type === "string";
    if (isNumber && token.value === undefined) return refused(`${token.rawName} needs a number`);
    if (!isNumber && token.value !== undefined) return refused(`${token.rawName} takes no value`);
    given.set(token.name, token.value ?? "");
  }
  if (given.has("help")) return { kind: "help" };
  if (given.has("json") && !given.has("once")) return refused("--json needs --once");
  if (given.has("real") && given.has("speed-up")) return refused("--speed-up is for fake nodes: not with --real");
  const problems: string[] = [];
  const number = (name: string, otherwise: number, { min, max }: { min: number; max: number }): number => {
    const text = given.get(name);
    if (text === undefined) return otherwise;
    const value = text.trim() === "" ? Number.NaN : Number(text);
    if (!(value >= min && value <= max)) problems.push(`--${name} needs a number from ${min} to ${max}, got "${text}"`);
    return value;
  };
  const isOnce = given.has("once");
  const isReal = given.has("real");
  const options: DemoOptions = {
    isOnce,
    isJson: given.has("json"),
    isReal,
    seed: number("seed", 1, { min: 0, max: 2 ** 31 }),
    seconds: number("seconds", isOnce ? ONCE_SECONDS : Number.POSITIVE_INFINITY, { min: 3, max: 86_400 }),
    speedUp: number("speed-up", 1, { min: 0.1, max: 100 }),
    rate: number("rate", isReal ? 1 : 2, { min: 0.1, max: 20 }),
  };
  if (!Number.isInteger(options.seed)) problems.push(`--seed needs a whole number, got "${given.get("seed")}"`);
  return problems[0] === undefined ? { kind: "run", options } : refused(problems[0]);
}

function refused(problem: string): ReadOptions {
  return { kind: "refused", message: `${problem}; npm run demo -- --help lists the flags` };
}
