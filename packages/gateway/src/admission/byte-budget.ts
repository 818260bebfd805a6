/** A bound on the bytes that all bodies together may hold (`limits.body_bytes_total`). */
export interface ByteBudget {
  /** Takes that many bytes, or none and returns false. */
  tryReserve(bytes: number): boolean;
  /** Gives back what was taken. */
  release(bytes: number): void;
}
