/** Bodies of plain answers, never more than a bound. */

/** The largest answer, bytes: some thousand embeddings of the longest kind, and a bound for a body that never ends. */
export const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** The largest body of an error, bytes; what follows is not read. */
export const MAX_ERROR_BYTES = 1024 * 1024;

/** A body as text, without its byte order mark. */
export interface BodyText {
  readonly text: string;
  /** Bytes that were read. */
  readonly bytes: number;
  /** There was more than the bound. */
  readonly isCut: boolean;
}

/** Reads a body to its end or to the bound. Rejects as the platform's reader does. */
export async function readBody(response: Response, maxBytes: number): Promise<BodyText> {
  const { body } = response;
  if (body === null) return { text: "", bytes: 0, isCut: false };
  const length = Number(response.headers.get("content-length") ?? Number.NaN);
  if (length <= maxBytes && !response.headers.has("content-encoding")) {
    // the platform's own way is the fastest, and it drops a byte order mark
    return { text: await response.text(), bytes: length, isCut: false };
  }
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), bytes, isCut: false };
    bytes += value.length;
    if (bytes > maxBytes) {
      reader.cancel().catch(() => {});
      return { text, bytes, isCut: true };
    }
    text += decoder.decode(value, { stream: true });
  }
}
