/** Folder of the dashboard's files, made by `scripts/build-dashboard.ts`: beside `src`, and beside `dist` in the package. */
export const PAGES_FOLDER = new URL("../pages/", import.meta.url);
