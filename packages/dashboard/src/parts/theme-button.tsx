import { useState } from "preact/hooks";
import { setTheme, type Theme, theme } from "../theme.ts";

const NEXT: Readonly<Record<Theme, Theme>> = { auto: "light", light: "dark", dark: "auto" };

export function ThemeButton() {
  const [wished, setWished] = useState(theme);
  return (
    <button
      type="button"
      title="Light, dark, or as the system has it"
      onClick={() => {
        setTheme(NEXT[wished]);
        setWished(NEXT[wished]);
      }}
    >
      {wished === "auto" ? "Theme: system" : `Theme: ${wished}`}
    </button>
  );
}
