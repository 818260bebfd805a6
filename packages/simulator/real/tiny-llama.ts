/**
 * A tiny Llama model with random weights: the real llama-server loads it and answers at full speed, so that tests run a
 * real engine without downloading a model.
 *
 * Random weights alone would answer with control characters and stop at random. Two things make the replies readable
 * words that end at `max_tokens` (finish_reason "length"):
 *
 * 1. Dimension 0 of the residual stream is a constant. Every embedding has it, and no layer changes it, because the
 *    rows of the two matrices that write to it (attention output, feed-forward down) are zero.
 * 2. The output matrix weighs that constant with +1 for words and with −6 for everything else (bytes, control tokens,
 *    parts of words, the end token), so that their logits stay far below those of any word.
 *
 * The end token has its own weight, `eosBias`: near the words' +1 it competes with them, and replies end by themselves
 * (measured with the default sizes: after 20–600 tokens at 1, after 5–300 at 1.3).
 *
 * Words are kept whole by the tokenizer, since all their beginnings are tokens too and longer ones score higher; any
 * other prompt falls back to one token per byte.
 */
import { seededRandom } from "../src/seeded-random.ts";
import { encodeGguf, type GgufTensor, type GgufValue } from "./gguf-file.ts";

export type TinyLlamaOptions = {
  /** Width of the model; speed falls with its square. A multiple of 2 × `heads`. Default 64. */
  dim?: number;
  /** Default 2. */
  layers?: number;
  /** Default 4. */
  heads?: number;
  /** Longest context that the model admits to, in tokens. Default 32,768. */
  contextTokens?: number;
  /** `general.name` of the file. Default "tiny-llama". */
  name?: string;
  /** Weight of the end token; see above. Default −6: never ends by itself. */
  eosBias?: number;
  /** Same options and seed, same bytes. A 32-bit integer. Default 1. */
  seed?: number;
};

// Short, common, harmless words; their number also sets how fast the output matrix is.
const words = (
  "about above after again air all also always and animal answer around ask away back because before begin below " +
  "between big bird both bring build call came carry change city close cold come could country cut day does done door " +
  "down draw each early earth eat end enough even every eye face fall family far farm fast father feel few field find " +
  "fire first fish five food foot form four free from garden gave girl give go good great green ground group grow half " +
  "hand hard have head hear help here high hold home horse hour house how idea island keep kind king know land large " +
  "last late learn leave left letter life light like line list listen little long look made make many map mark mean " +
  "measure men might mile money moon morning most mother mountain move much music must name near need never new next " +
  "night north nothing notice now number off often old once only open order other our out over own page paper part " +
  "people piece place plain plan plant play point press problem pull put question quick rain ran reach read ready real " +
  "red rest right river road rock room round rule run said same saw say school sea second see seem set seven several " +
  "ship short should show side simple sing six sleep slow small snow some song soon sound south space spell stand star " +
  "start state stay step still stop story street strong study such sun sure table take talk teach tell ten test than " +
  "that the their them then there these they thing think this those though thought three through time together told " +
  "too took top town travel tree true try turn two under unit until use very voice vowel walk wall want warm watch " +
  "water wave way week well went were west what wheel when where which while white who whole why will wind with wonder " +
  "wood word work world would write year yes you young your"
).split(" ");

const wordStart = "\u2581";
const tokenKind = { normal: 1, unknown: 2, control: 3, byte: 6 } as const;
const controlTokens = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"];
const tokenId = { unknown: 0, begin: 1, end: 2 } as const;

const chatTemplate =
  "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// After normalisation the constant is worth about 2.7, the random part of a logit has a deviation of 2: −6 against +1
// leaves about nine deviations between a word and anything else.
const constantInput = 4;
const wordWeight = 1;
const otherWeight = -6;

/**
 * Makes the model as the parts of a GGUF file, in order (see `encodeGguf`).
 * @throws RangeError when `dim` is not a multiple of 2 × `heads`.
 */
export function tinyLlama(options: TinyLlamaOptions = {}): Uint8Array[] {
  const { dim = 64, layers = 2, heads = 4, contextTokens = 32_768, name = "tiny-llama" } = options;
  const { eosBias = otherWeight, seed = 1 } = options;
  if (!(dim > 0 && heads > 0 && dim % (2 * heads) === 0)) {
    throw new RangeError(`dim must be a multiple of 2 × heads (${2 * heads}), got ${dim}: heads hold pairs of values`);
  }
  const hidden = 2 * dim;
  const vocabulary = makeVocabulary();

  const metadata = new Map<string, GgufValue>([
    ["general.architecture", { kind: "string", value: "llama" }],
    ["general.name", { kind: "string", value: name }],
    ["general.file_type", { kind: "uint32", value: 0 }],
    ["llama.block_count", { kind: "uint32", value: layers }],
    ["llama.context_length", { kind: "uint32", value: contextTokens }],
    ["llama.embedding_length", { kind: "uint32", value: dim }],
    ["llama.feed_forward_length", { kind: "uint32", value: hidden }],
    ["llama.attention.head_count", { kind: "uint32", value: heads }],
    ["llama.attention.head_count_kv", { kind: "uint32", value: heads }],
    ["llama.attention.layer_norm_rms_epsilon", { kind: "float32", value: 1e-5 }],
    ["llama.rope.dimension_count", { kind: "uint32", value: dim / heads }],
    ["llama.vocab_size", { kind: "uint32", value: vocabulary.tokens.length }],
    ["tokenizer.ggml.model", { kind: "string", value: "llama" }],
    ["tokenizer.ggml.tokens", { kind: "strings", value: vocabulary.tokens }],
    ["tokenizer.ggml.scores", { kind: "float32s", value: vocabulary.scores }],
    ["tokenizer.ggml.token_type", { kind: "int32s", value: vocabulary.kinds }],
    ["tokenizer.ggml.bos_token_id", { kind: "uint32", value: tokenId.begin }],
    ["tokenizer.ggml.eos_token_id", { kind: "uint32", value: tokenId.end }],
    ["tokenizer.ggml.unknown_token_id", { kind: "uint32", value: tokenId.unknown }],
    ["tokenizer.ggml.add_bos_token", { kind: "bool", value: true }],
    ["tokenizer.chat_template", { kind: "string", value: chatTemplate }],
  ]);

  const random = seededRandom(seed);
  const tensors: GgufTensor[] = [];
  const addMatrix = (tensorName: string, rows: number, columns: number, deviation: number): Float32Array => {
    const data = new Float32Array(rows * columns);
    // Uniform with the wanted deviation: as good as Gaussian here, and several times faster to draw.
    const width = 2 * Math.sqrt(3) * deviation;
    for (let index = 0; index < data.length; index += 1) data[index] = (random() - 0.5) * width;
    tensors.push({ name: tensorName, rows, columns, data });
    return data;
  };
  const addOnes = (tensorName: string): void => {
    tensors.push({ name: tensorName, rows: null, columns: dim, data: new Float32Array(dim).fill(1) });
  };

  const rows = vocabulary.tokens.length;
  const unitDeviation = dim ** -0.5;
  const embedding = addMatrix("token_embd.weight", rows, dim, 1);
  for (let row = 0; row < rows; row += 1) embedding[row * dim] = constantInput;
  for (let layer = 0; layer < layers; layer += 1) {
    const prefix = `blk.${layer}.`;
    addOnes(`${prefix}attn_norm.weight`);
    addMatrix(`${prefix}attn_q.weight`, dim, dim, unitDeviation);
    addMatrix(`${prefix}attn_k.weight`, dim, dim, unitDeviation);
    addMatrix(`${prefix}attn_v.weight`, dim, dim, unitDeviation);
    addMatrix(`${prefix}attn_output.weight`, dim, dim, unitDeviation).fill(0, 0, dim);
    addOnes(`${prefix}ffn_norm.weight`);
    addMatrix(`${prefix}ffn_gate.weight`, hidden, dim, unitDeviation);
    addMatrix(`${prefix}ffn_up.weight`, hidden, dim, unitDeviation);
    addMatrix(`${prefix}ffn_down.weight`, dim, hidden, hidden ** -0.5).fill(0, 0, hidden);
  }
  addOnes("output_norm.weight");
  const output = addMatrix("output.weight", rows, dim, 2 * unitDeviation);
  for (let row = 0; row < rows; row += 1) {
    output[row * dim] = row >= vocabulary.firstWord ? wordWeight : row === tokenId.end ? eosBias : otherWeight;
  }
  return encodeGguf(metadata, tensors);
}

/** Control tokens, the 256 bytes, the beginnings of words, then the words: `firstWord` is where those start. */
function makeVocabulary(): { tokens: string[]; scores: number[]; kinds: number[]; firstWord: number } {
  const whole = new Set(words);
  const beginnings = new Set<string>();
  for (const word of words) {
    for (let length = 1; length < word.length; length += 1) {
      const beginning = word.slice(0, length);
      if (!whole.has(beginning)) beginnings.add(beginning);
    }
  }
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  const texts = [...beginnings, ...whole];
  const special = controlTokens.length + bytes.length;
  return {
    tokens: [...controlTokens, ...bytes, ...texts.map((text) => wordStart + text)],
    scores: [...new Array<number>(special).fill(0), ...texts.map((text) => text.length)],
    kinds: [
      tokenKind.unknown,
      ...new Array<number>(controlTokens.length - 1).fill(tokenKind.control),
      ...new Array<number>(bytes.length).fill(tokenKind.byte),
      ...new Array<number>(texts.length).fill(tokenKind.normal),
    ],
    firstWord: special + beginnings.size,
  };
}
