// What the page offers for a kind of model: settings by the names of `lacuna run`, with values to begin with.
// The server has the last word: GET /props lists every setting, and what does not fit is refused with a sentence.

const COMMON = ["temperature"];

const KINDS = {
  masked: {
    fields: ["steps", "block-length", "unmask", "cache", "refresh", "lock", ...COMMON],
    methods: {
      "Every row in every step": {},
      "Confident tokens at once": { unmask: "threshold=0.9" },
      "Prefix cache": { "block-length": 16, cache: "prefix" },
      "Dual cache": { "block-length": 16, cache: "dual" },
      "Dual cache, confident tokens at once": { "block-length": 16, cache: "dual", unmask: "threshold=0.9" },
      "FreeCache": { "block-length": 16, cache: "free" },
      "SureLock": { lock: "eps=5e-3" },
    },
  },
  uniform: {
    fields: ["steps", "block-length", "tokens-per-step", "cache", "refresh", "self-correct", ...COMMON],
    methods: {
      "Every row in every step": {},
      "UniformCache": { cache: "uniform" },
      "UniformCache, pages by drift": { cache: "uniform", drift: "tau=0.01,page=16,budget=64" },
      "Self-correction": { "self-correct": "on" },
    },
  },
  block: {
    fields: ["steps", "block-length", "unmask", "edit", "sparse", ...COMMON],
    methods: {
      "As trained": {},
      "Confident tokens at once": { unmask: "dynamic=0.9" },
      "MAGE": { sparse: "mage=512" },
      "Quest": { sparse: "quest=512,page=16" },
      "SparseD": { sparse: "sparsed=512,exact=0.2" },
    },
  },
  slots: {
    fields: ["block-length", "refusion", "slot-size", "slot-threshold", "token-threshold", "fill"],
    methods: {
      "Slots, verified": {},
      "By the paper's rules": { refusion: "paper" },
      "By the released rules": { refusion: "released" },
      "Slots side by side": { fill: "side-by-side" },  // words: meant
    },
  },
  causal: { fields: ["top-p", "top-k", ...COMMON], methods: { "Left to right": {} } },
};

const GUIDED = { "Confirmed by the guide": { guide: true, "guide-match": "relative=0.5" } };

/// Values that a field suggests; anything else may be typed.
export const SUGGESTIONS = {
  unmask: ["low-confidence", "random", "margin", "entropy", "maskgit", "origin", "threshold=0.9", "factor=1.0", "dynamic=0.9"],
  cache: ["none", "prefix", "dual", "free", "dkv", "uniform", "block"],
  lock: ["eps=5e-3", "eps=5e-4", "eps=5e-4,gate=20,min-age=1"],
  sparse: ["exact", "mage=512", "quest=512,page=16", "sparsed=512,exact=0.2"],
  edit: ["tau=0.5,most=16"],
  refusion: ["lacuna", "paper", "released"],
  fill: ["verified", "side-by-side"],
  "self-correct": ["on"],
  temperature: ["0", "0.7", "1"],
};

/// {fields: [name], methods: {title: settings}} for the model that GET /props describes.
export function offerOf(props) {
  const { fields, methods } = KINDS[kindOf(props)];
  return { fields, methods: props.has_guide ? { ...methods, ...GUIDED } : methods };
}

function kindOf(props) {
  if (props.can_infill) return "masked";
  if (props.family.startsWith("gidd")) return "uniform";
  if (["sdar", "llada2", "fast-dllm"].includes(props.family)) return "block";
  return props.mask_id >= 0 ? "slots" : "causal";
}

/// The `lacuna` object of a request, from the fields' texts; empty ones are the model's default.
///   types  of settings, by name: "integer", "number", "boolean", "string", "strings"
export function settingsOf(texts, types) {
  const settings = {};
  for (const [name, text] of Object.entries(texts)) {
    if (text !== "") settings[name] = valueOf(text, types[name]);
  }
  return settings;
}

/// A text that is not a number stays one, so that the server says what it expected.
function valueOf(text, type) {
  const isNumber = (type === "integer" || type === "number") && !Number.isNaN(Number(text));
  return isNumber ? Number(text) : text;
}
