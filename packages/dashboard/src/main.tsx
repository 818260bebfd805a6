import { render } from "preact";
import { App } from "./app.tsx";
import { followTheme } from "./theme.ts";

followTheme();
const place = document.getElementById("app");
if (place !== null) {
  place.replaceChildren();
  render(<App />, place);
}
