import { useState } from "preact/hooks";
import { setTheme, type Theme, theme } from "../theme.ts";

const NEXT: Readonly<Record<Theme, Theme>> = { auto: "light", light: "dark", dark: "auto" };
const SHOWN: Readonly<Record<Theme, string>> = { auto: "as the system", light: "light", dark: "dark" };

export function ThemeButton() {
  const [wished, setWished] = useState(theme);
  return (
    <button
      type="button"
      class="plain"
      title="Light, dark, or as the system has it"
      onClick={() => {
        setTheme(NEXT[wished]);
        setWished(NEXT[wished]);
      }}
    >
      Theme: {SHOWN[wished]}
    </button>
  );
}
