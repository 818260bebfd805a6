import type { ComponentChildren } from "preact";

/** One number with its name, and what it is compared with. */
export function Tile(props: { name: string; value: string; note?: ComponentChildren; tone?: "good" | "warn" | "bad" }) {
  return (
    <div class={`tile ${props.tone ?? ""}`}>
      <dt>{props.name}</dt>
      <dd>
        <strong>{props.value}</strong>
        {props.note !== undefined && <small>{props.note}</small>}
      </dd>
    </div>
  );
}
