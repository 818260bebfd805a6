/** Why the gateway can't start, with what to do: for people, in one line. */
export class StartError extends Error {
  override readonly name = "StartError";
}
