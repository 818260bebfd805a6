/** Who may use a route of the admin port. Each route names one of these; a route without one can't be registered. */
export const ACCESS_RULES = {
  open: "Nobody is asked for a key.",
  read: "A key with the scope `read` or `admin`. Of an account other than `default` it sees what belongs to that account.",
  write: "A key with the scope `admin`. Of an account other than `default` it changes what belongs to that account.",
  operator_read: "A key of the account `default` with the scope `read` or `admin`.",
  operator_write: "A key of the account `default` with the scope `admin`.",
} as const;

/** Who may use a route. */
export type AccessRule = keyof typeof ACCESS_RULES;

/** Whether a value is a rule of the list. */
export function isAccessRule(value: unknown): value is AccessRule {
  return typeof value === "string" && Object.hasOwn(ACCESS_RULES, value);
}
