/** What the process ends with. */
export const EXIT = {
  ok: 0,
  /** It could not be done: a bad configuration, a taken port, an unknown decision. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
} as const;

/** For `--help`. */
export const EXIT_HELP = `
Exit codes:
  0  done; serve: drained and ended
  1  failed: bad configuration, port taken, unknown decision, gateway not reachable, fatal error
  2  wrong command line`;
