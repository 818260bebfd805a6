/** How much of a whole: a bar beside its number, which says the same. */
export function Bar(props: {
  /** 0 to 1; what is beyond fills the bar. Null: unknown. */
  share: number | null;
  /** Where a limit stands, 0 to 1. */
  limit?: number | null;
  tone?: "warn" | "bad" | undefined;
  isLong?: boolean;
}) {
  const { share, limit = null, tone, isLong = false } = props;
  return (
    <span class={`bar ${tone ?? ""} ${isLong ? "long" : ""}`} aria-hidden="true">
      {share !== null && <i style={{ width: `${Math.min(1, Math.max(0, share)) * 100}%` }} />}
      {limit !== null && <b style={{ left: `calc(${Math.min(1, limit) * 100}% - 1px)` }} />}
    </span>
  );
}
