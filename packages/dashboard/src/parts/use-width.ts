import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Width of an element as it is laid out, px. */
export function useWidth<E extends HTMLElement>(first: number): [RefObject<E | null>, number] {
  const place = useRef<E>(null);
  const [width, setWidth] = useState(first);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const look = (): void => setWidth(element.clientWidth);
    look();
    const watch = new ResizeObserver(look);
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return [place, width];
}
