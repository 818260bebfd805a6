import type { ComponentChildren } from "preact";

/** The title of a page and what it is for. */
export function PageHead({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <>
      <h1>{title}</h1>
      <p class="lead">{children}</p>
    </>
  );
}
