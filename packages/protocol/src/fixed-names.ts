/** Names that exist without a configuration. Free of zod, for the data plane. */

/** The account of everything that names none. It always exists. */
export const DEFAULT_ACCOUNT = "default";

/** The built-in policy; its name can't be taken. */
export const BUILT_IN_POLICY = "zml-default";
