import { useEffect, useState } from "preact/hooks";

const ITEM = "zml-theme";
type Theme = "auto" | "light" | "dark";
const NEXT: Readonly<Record<Theme, Theme>> = { auto: "light", light: "dark", dark: "auto" };

/** Light, dark, or as the system has it. */
export function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(() => stored());
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    localStorage.setItem(ITEM, theme);
    // charts take their colours from the page when they are drawn
    dispatchEvent(new Event("zml-theme"));
  }, [theme]);
  return (
    <button type="button" title="Light, dark, or as the system has it" onClick={() => setTheme(NEXT[theme])}>
      {theme === "auto" ? "Theme: system" : `Theme: ${theme}`}
    </button>
  );
}

function stored(): Theme {
  const item = localStorage.getItem(ITEM);
  return item === "light" || item === "dark" ? item : "auto";
}
