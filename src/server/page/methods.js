// Settings that the page offers for each kind of model: by the names of `lacuna run`, with initial values.
// The server has the last word: GET /props lists presets and settings, and what does not fit is refused with a sentence.

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
      "Sparse-dLLM": { "block-length": 16, cache: "sparse-dllm" },
      "dLLM-Cache": { cache: "dllm-cache" },
      "d2Cache": { cache: "d2cache" },
      "SureLock": { lock: "eps=5e-3" },
    },
  },
  uniform: {
    fields: ["steps", "block-length", "tokens-per-step", "sampler", "cache", "refresh", "self-correct", ...COMMON],
    methods: {
      "Every row in every step": {},
      "Confident tokens at once": { sampler: "threshold=0.99" },
      "UniformCache": { cache: "uniform" },
      "UniformCache, pages by drift": { cache: "uniform", drift: "tau=0.01,page=16,budget=64" },
      "Self-correction": { "self-correct": "on" },
    },
  },
  blocks: {
    fields: ["steps", "block-length", "unmask", "edit", "pipeline", "drafts", "focus", "sparse", "lock", ...COMMON],
    methods: {
      "As trained": {},
      "Confident tokens at once": { unmask: "dynamic=0.9" },
      "Several blocks at once": { pipeline: "on" },
      "Tokens mixed with the mask": { unmask: "soft" },
      "Masks left out early": { unmask: "threshold=0.9", focus: 1.5 },
      "Steps drafted ahead": { unmask: "low-confidence", drafts: 3 },
      "SureLock within the block": { unmask: "low-confidence", lock: "eps=5e-4,gate=20" },
      "MAGE": { sparse: "mage=512" },
      "Quest": { sparse: "quest=512,page=16" },
      "SparseD": { sparse: "sparsed=512,exact=0.2" },
      "FlashBlock": { sparse: "flashblock=2" },
      "LoSA": { sparse: "losa=512,active=0.3125" },
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
  canvases: { fields: ["steps", "unmask", "stop-entropy", "self-conditioning", ...COMMON], methods: { "As published": {} } },
  causal: { fields: ["top-p", "top-k", ...COMMON], methods: { "Left to right": {} } },
};

const GUIDED = {
  masked: { "Confirmed by the guide": { guide: true, "guide-match": "relative=0.5" } },
  blocks: { "Drafted by the guide": { guide: true } },
};

/// Description of each preset (docs/results/README.md).
const PROMISES = {
  exact: "The text of the uncached baseline, with less work",
  balanced: "Faster; lost at most a point of accuracy on the models that ship",
  fast: "Fastest; lost at most ten points",
};
export const DEFAULT_PRESET = "balanced";

/// Values that a field suggests; anything else may be typed.
export const SUGGESTIONS = {
  unmask: ["low-confidence", "random", "margin", "entropy", "maskgit", "origin", "threshold=0.9", "factor=1.0", "local-leap", "eb=0.01", "streaming", "klass", "wino", "saber", "credit", "slow-fast", "dsb", "adablock", "d3llm", "prophet", "dynamic=0.9", "soft"],
  cache: ["none", "prefix", "dual", "free", "delayed", "dkv", "sparse-dllm", "dllm-cache", "d2cache", "uniform", "block"],
  lock: ["eps=5e-3", "eps=5e-4", "eps=5e-4,gate=20,min-age=1"],
  sparse: ["exact", "mage=512", "quest=512,page=16", "sparsed=512,exact=0.2", "flashblock=2", "losa=512,active=0.3125"],
  edit: ["tau=0.5,most=16"],
  pipeline: ["on", "none", "add=0.9,full=0.95"],
  refusion: ["lacuna", "paper", "released"],
  fill: ["verified", "side-by-side"],
  sampler: ["adaptive", "threshold=0.99", "threshold=0.9,least=1", "ancestral", "greedy"],
  "self-correct": ["on"],
  temperature: ["0", "0.7", "1"],
};

/// Settings that have a place of their own on the page.
const ELSEWHERE = ["preset", "gen-length", "seed", "json-schema"];

/// For the model that GET /props describes:
///   presets  [{value, title, note, flags}]; the value "" is the server's own settings
///   methods  {title: settings}, to begin with
///   fields   names of the settings that matter most to this kind of model
///   others   names of all others
export function offerOf(props) {
  const { fields, methods } = KINDS[kindOf(props)];
  const presets = (props.presets ?? Object.keys(PROMISES).map((name) => ({ name, flags: "" }))).map(({ name, flags }) => ({
    value: name, title: name[0].toUpperCase() + name.slice(1), note: PROMISES[name] ?? "",
    flags: flags === "" ? [] : flags.split(/ (?=--)/),
  }));
  const none = { value: "", title: "None", note: "Nothing but what the server was started with", flags: [] };
  const known = props.settings.map(({ name }) => name).filter((name) => !ELSEWHERE.includes(name));
  return {
    presets: [...presets, none], methods: props.has_guide ? { ...methods, ...GUIDED[props.paradigm] } : methods,
    fields: fields.filter((name) => known.includes(name)), others: known.filter((name) => !fields.includes(name)),
  };
}

function kindOf(props) {
  if (props.paradigm in KINDS) return props.paradigm;
  return props.can_infill ? "masked" : "causal";
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
  if (type === "boolean") return text === "true";
  const isNumber = (type === "integer" || type === "number") && !Number.isNaN(Number(text));
  return isNumber ? Number(text) : text;
}
