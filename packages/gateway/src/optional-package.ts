/** Packages that few configurations need, loaded on use: nobody else pays for them, and they may be missing. */

/**
 * Loads a package.
 *
 * @param missing makes the error for a package that is not installed, out of the text that says what to do.
 * @throws what `missing` made, or what the package threw while it was loaded.
 */
export async function loadOptional<T>(
  name: string,
  load: () => Promise<T>,
  missing: (text: string, cause: unknown) => Error,
): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    if (code !== "ERR_MODULE_NOT_FOUND" && code !== "MODULE_NOT_FOUND") throw cause;
    throw missing(`the package ${name} is not installed: npm install ${name} beside zml`, cause);
  }
}
