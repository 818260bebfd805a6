/** What the process ends with, one meaning each for all commands. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  unreachable: 3,
  denied: 4,
  notFound: 5,
  conflict: 6,
  differs: 7,
  timedOut: 8,
} as const;

/** For people; `zml --help` and docs/reference/cli.md show them. */
export const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  ok: "done; serve: drained and ended",
  failed: "it could not be done: bad configuration, port taken, refused, fatal error; nodes check: a node is red",
  usage: "wrong command line, or a question that nobody is there to answer",
  unreachable: "no gateway answers at the admin address",
  denied: "the key is missing, unknown, or may not do that",
  notFound: "there is no such object, node or decision",
  conflict: "somebody else changed it, or something else owns or needs it",
  differs: "diff: the file would change something",
  timedOut: "the deadline of --wait passed",
};

/** For `--help`. */
export const EXIT_HELP = `
Exit codes:
${(Object.keys(EXIT) as (keyof typeof EXIT)[]).map((name) => `  ${EXIT[name]}  ${EXIT_MEANINGS[name]}`).join("\n")}`;
