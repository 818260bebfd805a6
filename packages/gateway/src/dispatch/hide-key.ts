/** Keys shorter than this stand in ordinary words too; replacing them would tell more than it hides. */
const KEY_BYTES_MIN = 8;

/** The text of a node's error with the node's own key made unreadable: some servers repeat a key that they refuse. */
export function hideKey(text: Buffer, apiKey: string | null): Buffer {
  if (apiKey === null || apiKey.length < KEY_BYTES_MIN || !text.includes(apiKey)) return text;
  return Buffer.from(text.toString("latin1").replaceAll(apiKey, "*".repeat(apiKey.length)), "latin1");
}
