import type { ComponentChildren } from "preact";

/** A part of a page with a heading of its own. */
export function Card({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <section class="card">
      <h2>{title}</h2>
      {children}
    </section>
  );
}
