/** The version of this package; goes into `user-agent`. */
export const VERSION = "0.1.0";
