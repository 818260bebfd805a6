/** Plays a gateway for what consumer.ts asks. */
import {
  answering,
  chatAnswer,
  chunk,
  DONE,
  head,
  LAST_CHUNK,
  type ScriptedNode,
  startScriptedNode,
  token,
} from "../../gateway/test/scripted-node.ts";

const ROUTING_TEXT =
  'node="a", policy="p", family="H100", decision="0198c0de-7000-7000-8000-000000000001", queue_depth=0, attempt=1, ' +
  "reason=first_acceptable";

/** What consumer.ts prints when all is well. */
export const USED = JSON.stringify({ text: "hi", node: "a", streamed: "hi!", error: "NotFoundError" });

export function startFakeGateway(): Promise<ScriptedNode> {
  const routed = { "x-zml-routing": ROUTING_TEXT };
  return startScriptedNode((call, index) => {
    if (call.requestLine.startsWith("GET")) {
      const error = {
        message: "there is no model",
        type: "invalid_request_error",
        param: null,
        code: "model_not_found",
      };
      return answering(404, JSON.stringify({ error }))(call, index);
    }
    if (!call.body.includes('"stream":true')) return answering(200, chatAnswer("hi"), routed)(call, index);
    call.write(head(200, { ...routed, "content-type": "text/event-stream", "transfer-encoding": "chunked" }));
    for (const event of [token("hi"), token("!", "stop"), DONE]) call.write(chunk(event));
    call.write(LAST_CHUNK);
  });
}
