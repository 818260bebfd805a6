/** Two ways to call the demo's gateway by hand, and how to ask why, to be pasted into a shell in the clone. */
export function tryItText({ dataUrl, adminUrl, model }: { dataUrl: string; adminUrl: string; model: string }): string {
  const body = JSON.stringify({ model, max_tokens: 40, messages: [{ role: "user", content: "Say something" }] });
  return `with curl:

  curl -si ${dataUrl}/v1/chat/completions -H 'content-type: application/json' -H 'x-zml-policy: batch' -d '${body}'

with the OpenAI SDK:

node --input-type=module -e '
import OpenAI from "openai";
const openai = new OpenAI({ baseURL: "${dataUrl}/v1", apiKey: "none" });
const { data, response } = await openai.chat.completions
  .create({ model: "${model}", max_tokens: 40, messages: [{ role: "user", content: "Say something" }] })
  .withResponse();
console.log(data.choices[0].message.content, "\\n", response.headers.get("x-zml-routing"));
'

why did it go there (the member decision of its x-zml-routing):

  npx zml explain DECISION --admin ${adminUrl.replace("http://", "")}
`;
}
