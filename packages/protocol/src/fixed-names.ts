/** Names that exist without a configuration. Free of zod, for the data plane. */

/** The account of everything that names none. It always exists. */
export const DEFAULT_ACCOUNT = "default";

/** The built-in policy; its name can't be taken. */
export const BUILT_IN_POLICY = "zml-default";

/** Stands in a file that was made for nodes whose family nobody has named yet; a file that keeps it draws a warning. */
export const PLACEHOLDER_FAMILY = "unnamed";
