/** Light, dark, or as the system has it: the page's `data-theme` always says which of the two holds. */

const ITEM = "zml-theme";
export type Theme = "auto" | "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");

/** What was wished for. */
export function theme(): Theme {
  const item = localStorage.getItem(ITEM);
  return item === "light" || item === "dark" ? item : "auto";
}

export function setTheme(wished: Theme): void {
  localStorage.setItem(ITEM, wished);
  apply();
}

/** Follows the system from now on, as long as nothing else is wished for. */
export function followTheme(): void {
  system.addEventListener("change", apply);
  apply();
}

function apply(): void {
  const wished = theme();
  document.documentElement.dataset["theme"] = wished === "auto" ? (system.matches ? "dark" : "light") : wished;
  // charts take their colours from the page when they are drawn
  dispatchEvent(new Event("zml-theme"));
}
