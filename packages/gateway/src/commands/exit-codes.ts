/** What the process ends with. */
export const EXIT = {
  ok: 0,
  /** It could not be done, or a check found red: a bad configuration, a taken port, a node that does not serve. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
} as const;

/** For `--help`. */
export const EXIT_HELP = `
Exit codes:
  0  done; serve: drained and ended
  1  failed: bad configuration, port taken, unknown decision or node, gateway not reachable, fatal error;
     nodes check: a node is red (with --strict: or yellow)
  2  wrong command line`;
