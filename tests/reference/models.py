"""Plain, slow forward passes in float64, written from the papers and the published modelling code.

Every family is the same pre-norm transformer:
    x = E[ids]
    x += Wo attention(rope(Wq n1(x)), rope(Wk n1(x)), Wv n1(x))
    x += mlp(n2(x))
    logits = Whead nf(x)
with RMSNorm n, rotate-half RoPE, SwiGLU mlp(h) = Wdown(silu(Wgate h) * Wup h). They differ in:

    family      tensor names   biases   q/k norm   attention       mlp
    llada       OLMo-like      none     none       bidirectional   dense       (LLaDA, arXiv 2502.09992)
    llada_moe   Qwen-like      none     per head   bidirectional   experts     (LLaDA-MoE, arXiv 2509.24389)
    dream       Qwen2          q, k, v  none       bidirectional   dense       (Dream 7B, arXiv 2508.15487)
    qwen2       Qwen2          q, k, v  none       causal          dense       (Qwen2.5, arXiv 2412.15115)
    qwen3       Qwen3          none     per head   causal          dense       (Qwen3, arXiv 2505.09388)
    fast_dllm   Qwen2          q, k, v  none       block-causal    dense       (Fast-dLLM v2, NVlabs/Fast-dLLM)
    qwen3_moe   Qwen3          none     per head   causal          experts     (Qwen3-30B-A3B, arXiv 2505.09388)
    sdar_moe    Qwen3          none     per head   block-causal    experts     (SDAR-30B-A3B, JetAstra/SDAR)
    rnd1        Qwen3          none     per head   bidirectional   experts     (RND1, RadicalNumerics/RND1)
    coda        Qwen3          none     per head   bidirectional   dense       (CoDA, SalesforceAIResearch/CoDA)
    a2d_qwen3   Qwen3          none     per head   bidirectional   dense       (Tiny-A2D, ZHZisZZ/dllm: MDLM)
    a2d_qwen2   Qwen2          q, k, v  none       block-causal    dense       (Tiny-A2D, ZHZisZZ/dllm: BD3LM)
    a2d_llama   Llama          none     none       bidirectional   dense       (Tiny-A2D, ZHZisZZ/dllm: MDLM)
    open_dcoder Qwen2          q, k, v  none       bidirectional   dense       (Open-dCoder, pengzhangzhi/Open-dLLM)
    llama       Llama          none     none       causal          dense
    diffcoder   Llama          none     none       block-causal    dense       (Stable-DiffCoder, ByteDance-Seed)
    nemotron    Llama          maybe    none       causal          squared     (Nemotron-4, arXiv 2402.16819; Minitron)

nemotron, which `Model._nemotron` spells out, has layer norms with offsets and biases, no gate, and turns a part of each head.
The experts of the last families are weighted by the softmax over the chosen ones where norm_topk_prob says so, LLaDA-MoE's by
the softmax over all.

Block-causal: blocks of `block_length` rows, a row sees its own block and those before. LLaDA2 (inclusionAI) is
block-causal too; its layers are spelled out in `Model._llada2` and its experts in `Model._grouped_experts`. LLaDA2.2,
whose config has an `expert_capacity`, chooses experts by windows of positions (`Model._pool`) instead of by groups.
BLOCK_FAMILIES names these: golden files and check_engine.py hold their logits, check_blocks.py their decodes.

GIDD (arXiv 2512.10858) is a transformer of its own, which `Model._gidd` spells out; it is not in FAMILIES, which names
what the golden files and check_engine.py are about. Nor is Sumi (arXiv 2606.19005): Llama, bidirectional, and each softmax has
one more score of 0 whose value is 0.

Logits are raw: row i is what the network puts out at row i. Dream's shift (row i-1 predicts position i)
belongs to its sampler.
"""
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import safetensors_io
from rotations import frequencies, settings

FAMILIES = ("llada", "llada_moe", "dream", "qwen2", "qwen3", "qwen3_moe", "rnd1", "coda", "a2d_qwen3", "llama",
            "a2d_llama", "open_dcoder", "nemotron")
NAMELESS_MASKS = ("a2d_llama", "open_dcoder")  # the tokenizer alone names the mask, so they have no golden files
BLOCK_FAMILIES = ("fast_dllm", "llada2", "sdar_moe", "a2d_qwen2", "diffcoder")
# Seeds are places in this list: new families join at its end.
SEEDED = ("llada", "llada_moe", "dream", "qwen2", "qwen3", "fast_dllm", "llada2", "qwen3_moe", "sdar_moe", "rnd1", "coda",
          "a2d_qwen3", "a2d_qwen2", "llama", "diffcoder", "a2d_llama", "open_dcoder", "nemotron")
EXPERT_FAMILIES = ("llada_moe", "qwen3_moe", "sdar_moe", "rnd1")  # in every layer
QK_NORM_FAMILIES = ("qwen3", "llada_moe", "qwen3_moe", "sdar_moe", "rnd1", "coda", "a2d_qwen3")
LLADA_FAMILIES = ("llada", "llada_moe", "a2d_qwen3", "a2d_llama")  # decoded as LLaDA is
SHIFTED_FAMILIES = ("dream", "rnd1", "coda", "open_dcoder")  # decoded as Dream is
ARCHITECTURES = {
    "LLaDAModelLM": "llada",
    "LLaDAMoEModelLM": "llada_moe",
    "DreamModel": "dream",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Fast_dLLM_QwenForCausalLM": "fast_dllm",
    "LLaDA2MoeModelLM": "llada2",
    "GiddForDiffusionLM": "gidd",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "SDARMoeForCausalLM": "sdar_moe",
    "RND1LM": "rnd1",
    "CoDALanguageModel": "coda",
    "A2DQwen3LMHeadModel": "a2d_qwen3",
    "A2DQwen2LMHeadModel": "a2d_qwen2",
    "A2DLlamaLMHeadModel": "a2d_llama",
    "LlamaForCausalLM": "llama",
    "StableDiffcoderForCausalLM": "diffcoder",
    "SumiForMaskGeneration": "sumi",
    "NemotronForCausalLM": "nemotron",
}


@dataclass
class Shape:
    """The numbers of a config.json under one set of names."""
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    eps: float
    theta: float
    tied: bool
    experts: int = 0
    experts_per_token: int = 0
    scale_logits: bool = False
    input_emb_norm: bool = False
    mask_id: int = -1
    eos_id: int = -1
    rotary_dim: int = 0  # dimensions of a head that RoPE turns; 0: all
    block_length: int = 0
    capacity: int = 0    # experts that the rows of a routing window share; 0: experts are chosen by groups
    window: int = 0      # consecutive positions that share them
    scaling: dict = None  # rotations.settings() of a rotation that is scaled
    positions: int = 0    # max_position_embeddings
    divisors: tuple = (1,)  # of the pairs' frequencies: one, or one for each

    @property
    def causal(self):
        return self.family in ("qwen2", "qwen3", "qwen3_moe", "llama", "nemotron")


def read_shape(config):
    """Shape of a config.json object. LLaDA-MoE shares model_type with LLaDA, so `architectures` decides; Open-dCoder shares
    both with Qwen2, so its name does."""
    family = ARCHITECTURES[config["architectures"][0]]
    if family == "qwen2" and "open-dcoder" in config.get("_name_or_path", ""):
        family = "open_dcoder"
    if family == "llada":
        if config["block_type"] != "llama" or config["layer_norm_type"] != "rms" or config["alibi"]:
            raise ValueError("a LLaDA variant without a reference here")
        if config["activation_type"] != "silu" or config["include_bias"] or config["include_qkv_bias"]:
            raise ValueError("a LLaDA variant without a reference here")
        heads = config["n_heads"]
        return Shape(family, config["d_model"], config["n_layers"], heads, config["n_kv_heads"] or heads,
                     config["d_model"] // heads, config["embedding_size"] or config["vocab_size"],
                     config["rms_norm_eps"], settings(config)["rope_theta"], config["weight_tying"],
                     scale_logits=config["scale_logits"], input_emb_norm=config["input_emb_norm"],
                     mask_id=config["mask_token_id"], eos_id=config["eos_token_id"])
    heads = config["num_attention_heads"]
    if family == "gidd":
        ends = config.get("eos_token_id", 1)
        return Shape(family, config["hidden_size"], config["num_hidden_layers"], heads, heads,
                     config.get("head_dim", config["hidden_size"] // heads), config.get("vocab_size", 131072),
                     config.get("rms_norm_eps", 1e-6), settings(config).get("rope_theta", 1e4),
                     config.get("tie_word_embeddings", False), mask_id=config.get("mask_token_id", 3),
                     eos_id=ends[0] if isinstance(ends, list) else ends)
    default_head_dim = 128 if family in QK_NORM_FAMILIES and family != "llada_moe" else config["hidden_size"] // heads
    head_dim = config.get("head_dim", default_head_dim)
    blocks, rope_of = {}, settings(config)
    if rope_of["type"] != "default":
        blocks = {"scaling": rope_of, "positions": config["max_position_embeddings"]}
    if family == "fast_dllm":
        blocks |= {"block_length": config.get("bd_size", 32)}
    if family == "sdar_moe":
        blocks |= {"block_length": config.get("block_size", 4)}
    if family == "a2d_qwen2":
        blocks |= {"block_length": 32}
    if family == "diffcoder":
        blocks |= {"block_length": config.get("block_size", 4)}
    if family == "nemotron":
        blocks |= {"rotary_dim": int(head_dim * rope_of.get("partial_rotary_factor", 0.5))}
    if family == "llada2":
        blocks |= {"block_length": config.get("block_length", 32),
                  "rotary_dim": int(head_dim * rope_of["partial_rotary_factor"])}
        if config.get("expert_capacity"):
            blocks |= {"capacity": config["expert_capacity"], "window": config.get("block_size", 32)}
    return Shape(family, config["hidden_size"], config["num_hidden_layers"], heads,
                 config["num_key_value_heads"], head_dim, config["vocab_size"],
                 config["norm_eps" if family == "nemotron" else "rms_norm_eps"], rope_of["rope_theta"],
                 config.get("tie_word_embeddings", False), experts=config.get("num_experts", 0), experts_per_token=config.get("num_experts_per_tok", 0),
                 mask_id=config.get("mask_token_id", -1), eos_id=config.get("eos_token_id", -1),
                 divisors=tuple(config.get("rope_freqs", (1,))), **blocks)


def rms_norm(x, weight, eps):
    """weight * x / sqrt(mean(x^2) + eps) over the last axis."""
    return weight * (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps))


def layer_norm(x, weight, bias, eps):
    """weight * (x - mean) / sqrt(variance + eps) + bias over the last axis."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return weight * (centred / np.sqrt(np.mean(centred ** 2, axis=-1, keepdims=True) + eps)) + bias


def rope(x, positions, theta, divisors=(1,)):
    """Rotates pairs (j, j + d/2) of each head by p * theta^(-2j/d) / divisor j. x is [rows, heads, d]."""
    d = x.shape[-1]
    frequency = theta ** (-2.0 * np.arange(d // 2) / d) / np.asarray(divisors, dtype=np.float64)
    return turn(x, positions, frequency)


def turn(x, positions, frequency, scale=1.0):
    """Rotates pair (j, j + d/2) of each head by p * frequency[j], and multiplies it by `scale`. x is [rows, heads, d]."""
    half = x.shape[-1] // 2
    angle = np.asarray(positions, dtype=np.float64)[:, None, None] * frequency
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = x[..., :half], x[..., half:]
    return scale * np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def softmax(x):
    """Softmax over the last axis; -inf entries get 0."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def silu(x):
    return x / (1.0 + np.exp(-x))


def softmax_one(x):
    """exp(x) / (1 + sum exp(x)) over the last axis."""
    most = np.maximum(np.max(x, axis=-1, keepdims=True), 0)
    e = np.exp(x - most)
    return e / (np.exp(-most) + np.sum(e, axis=-1, keepdims=True))


def attention(q, k, v, visible=None, normalize=softmax):
    """softmax(q k^T / sqrt(d)) v; q head a reads kv head floor(a / (heads / kv heads)).

    visible[r, s] says whether row r may look at cell s; None: all of them.
    """
    rows, heads, d = q.shape
    group = heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("rhd,shd->hrs", q, k) / np.sqrt(d)
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    return np.einsum("hrs,shd->rhd", normalize(scores), v).reshape(rows, heads * d)


def capped_attention(q, k, v, k_sink, v_sink, cap, visible=None):
    """GIDD: scores are cap * tanh(q k / sqrt(d) / cap), and a learned key and value come before all cells."""
    rows, heads, d = q.shape
    k, v = np.concatenate([k_sink, k]), np.concatenate([v_sink, v])
    scores = np.einsum("rhd,shd->hrs", q, k) / np.sqrt(d)
    scores = cap * np.tanh(scores / cap)
    if visible is not None:
        seen = np.concatenate([np.ones((rows, len(k_sink)), dtype=bool), visible], axis=1)
        scores = np.where(seen, scores, -np.inf)
    return np.einsum("hrs,shd->rhd", softmax(scores), v).reshape(rows, heads * d)


def clean_mask(rows, cells, clean_prefix):
    """visible[r, s] of GIDD: clean rows, those below clean_prefix, see clean cells alone; noisy rows see all."""
    noisy_row, noisy_cell = np.asarray(rows) >= clean_prefix, np.asarray(cells) >= clean_prefix
    return noisy_row[:, None] >= noisy_cell[None, :]


def block_mask(rows, cells, block_length):
    """visible[r, s] of block diffusion: a row sees its own block of positions and those before."""
    return np.asarray(rows)[:, None] // block_length >= np.asarray(cells)[None, :] // block_length


def swiglu(x, gate, up, down):
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T


class Store:
    """Keys and values of `cells` positions in every layer."""

    def __init__(self, shape, cells):
        self.cells = cells
        self.k = np.zeros((shape.layers, cells, shape.kv_heads, shape.head_dim))
        self.v = np.zeros_like(self.k)


class Model:
    """A checkpoint folder, or {name: array} with a config, as a function from tokens to logits."""

    def __init__(self, config, tensors):
        self.config, self.shape = config, read_shape(config)
        self.tensors = {name: np.asarray(values, dtype=np.float64) for name, values in tensors.items()}
        self.router_gap = np.inf  # smallest gap between the last chosen and the first rejected expert so far
        self.see_input = lambda layer, x: None  # gets each layer's input [rows, hidden], before its norm
        self.amend = lambda layer, part, out: out  # replaces what "attention" or "mlp" adds to the rows

    @classmethod
    def load(cls, folder):
        config = json.loads((Path(folder) / "config.json").read_text())
        return cls(config, safetensors_io.read_folder(folder))

    def logits(self, tokens, positions=None, clean_prefix=0, block_length=None):
        """Raw logits [rows, vocab]. Attention is bidirectional, or causal in row order for the Qwen families.

        GIDD alone: the first clean_prefix rows do not see the others. Block families alone: blocks are stretches of
        rows, block_length long or as the config says.
        """
        tokens = np.asarray(tokens, dtype=np.int64)
        positions = np.arange(len(tokens)) if positions is None else np.asarray(positions)
        visible = np.tril(np.ones((len(tokens), len(tokens)), dtype=bool)) if self.shape.causal else None
        if self.shape.family == "gidd":
            visible = clean_mask(range(len(tokens)), range(len(tokens)), clean_prefix)
        if self.shape.family in BLOCK_FAMILIES:
            visible = block_mask(range(len(tokens)), range(len(tokens)), block_length or self.shape.block_length)
        return self._forward(tokens, positions, lambda layer, q, k, v: self._attention(layer, q, k, v, visible))

    def rows(self, tokens, positions, cells, store, clean_prefix=0, seen=None, renewed=None):
        """Raw logits of these rows alone, with the K/V of all others read from `store`.

        In each layer every row first writes its K/V to its cell (-1: nowhere), then attends to all cells; a causal
        family to those up to its own, a clean row of GIDD to the clean cells. seen(layer, q) gives the cells that rows
        with these queries attend to instead. renewed(layer, v) says which rows write their keys, not only their values.
        """
        tokens, positions, cells = (np.asarray(x, dtype=np.int64) for x in (tokens, positions, cells))
        visible = np.arange(store.cells)[None] <= cells[:, None] if self.shape.causal else None
        if self.shape.family == "gidd":
            visible = clean_mask(cells, range(store.cells), clean_prefix)
        kept = cells >= 0

        def attend(layer, q, k, v):
            new = kept if renewed is None else kept & renewed(layer, v)
            store.k[layer, cells[new]], store.v[layer, cells[kept]] = k[new], v[kept]
            if seen is not None:
                some = seen(layer, q)
                return self._attention(layer, q, store.k[layer, some], store.v[layer, some], None)
            return self._attention(layer, q, store.k[layer], store.v[layer], visible)

        return self._forward(tokens, positions, attend)

    def _forward(self, tokens, positions, attend):
        run = {"llada": self._llada, "gidd": self._gidd, "llada2": self._llada2,
               "nemotron": self._nemotron}.get(self.shape.family, self._qwen_like)
        return run(tokens, positions, attend)

    def _attention(self, layer, q, k, v, visible):
        if self.shape.family == "sumi":
            return attention(q, k, v, visible, softmax_one)
        if self.shape.family != "gidd":
            return attention(q, k, v, visible)
        none = np.zeros((0, *k.shape[1:]))
        sinks = [self.tensors.get(f"model.layers.{layer}.self_attn.{name}_bias", none) for name in "kv"]
        sinks = [sink.reshape(-1, *k.shape[1:]) for sink in sinks]
        return capped_attention(q, k, v, *sinks, self.config.get("attn_soft_cap", 30.0), visible)

    def _heads(self, x, weight, count, bias=None):
        out = x @ weight.T
        return (out if bias is None else out + bias).reshape(len(x), count, self.shape.head_dim)

    def _llada(self, tokens, positions, attend):
        s, t = self.shape, self.tensors
        root = "model.transformer."
        x = t[root + "wte.weight"][tokens]
        if s.input_emb_norm:
            x = x * np.sqrt(s.hidden)
        for i in range(s.layers):
            block = f"{root}blocks.{i}."
            a = rms_norm(x, t[block + "attn_norm.weight"], s.eps)
            q = rope(self._heads(a, t[block + "q_proj.weight"], s.heads), positions, s.theta)
            k = rope(self._heads(a, t[block + "k_proj.weight"], s.kv_heads), positions, s.theta)
            v = self._heads(a, t[block + "v_proj.weight"], s.kv_heads)
            x = x + self.amend(i, "attention", attend(i, q, k, v) @ t[block + "attn_out.weight"].T)
            h = rms_norm(x, t[block + "ff_norm.weight"], s.eps)
            # ff_proj is the gate; the block's own ff_out is the way down, not the head of the same name.
            x = x + self.amend(i, "mlp", swiglu(h, t[block + "ff_proj.weight"], t[block + "up_proj.weight"],
                                               t[block + "ff_out.weight"]))
        x = rms_norm(x, t[root + "ln_f.weight"], s.eps)
        logits = x @ t[root + ("wte.weight" if s.tied else "ff_out.weight")].T
        return logits / np.sqrt(s.hidden) if s.scale_logits else logits

    def _qwen_like(self, tokens, positions, attend):
        s, t = self.shape, self.tensors
        x = t["model.embed_tokens.weight"][tokens]
        for i in range(s.layers):
            layer = f"model.layers.{i}."
            attn = layer + "self_attn."
            self.see_input(i, x)
            a = rms_norm(x, t[layer + "input_layernorm.weight"], s.eps)
            q = self._heads(a, t[attn + "q_proj.weight"], s.heads, t.get(attn + "q_proj.bias"))
            k = self._heads(a, t[attn + "k_proj.weight"], s.kv_heads, t.get(attn + "k_proj.bias"))
            v = self._heads(a, t[attn + "v_proj.weight"], s.kv_heads, t.get(attn + "v_proj.bias"))
            if s.family in QK_NORM_FAMILIES:  # one weight vector shared by all heads, before RoPE
                q = rms_norm(q, t[attn + "q_norm.weight"], s.eps)
                k = rms_norm(k, t[attn + "k_norm.weight"], s.eps)
            q, k = self._turned(q, positions), self._turned(k, positions)
            x = x + self.amend(i, "attention", attend(i, q, k, v) @ t[attn + "o_proj.weight"].T)
            h = rms_norm(x, t[layer + "post_attention_layernorm.weight"], s.eps)
            x = x + self.amend(i, "mlp", self._experts(h, layer) if s.experts else swiglu(
                h, t[layer + "mlp.gate_proj.weight"], t[layer + "mlp.up_proj.weight"],
                t[layer + "mlp.down_proj.weight"]))
        x = rms_norm(x, t["model.norm.weight"], s.eps)
        return x @ t["model.embed_tokens.weight" if s.tied else "lm_head.weight"].T

    def _turned(self, x, positions):
        s = self.shape
        if s.scaling is None:
            return rope(x, positions, s.theta, s.divisors)
        return turn(x, positions, *frequencies(s.scaling | {"rope_theta": s.theta}, x.shape[-1], s.positions))

    def _turn_first(self, x, positions):
        """Turns the first rotary_dim dimensions of each head."""
        turned = self._turned(x[..., :self.shape.rotary_dim], positions)
        return np.concatenate([turned, x[..., self.shape.rotary_dim:]], axis=-1)

    def _nemotron(self, tokens, positions, attend):
        """Norm weights are offsets from 1, and mlp(h) = Wdown max(Wup h, 0)^2; biases where the file has them."""
        s, t = self.shape, self.tensors

        def norm(x, name):
            return layer_norm(x, 1 + t[name + ".weight"], t[name + ".bias"], s.eps)

        def product(x, name):
            return x @ t[name + ".weight"].T + t.get(name + ".bias", 0)

        x = t["model.embed_tokens.weight"][tokens]
        for i in range(s.layers):
            layer = f"model.layers.{i}."
            attn = layer + "self_attn."
            self.see_input(i, x)
            a = norm(x, layer + "input_layernorm")
            q, k, v = (product(a, f"{attn}{name}_proj").reshape(len(x), -1, s.head_dim) for name in "qkv")
            q, k = self._turn_first(q, positions), self._turn_first(k, positions)
            x = x + product(attend(i, q, k, v), attn + "o_proj")
            m = np.maximum(product(norm(x, layer + "post_attention_layernorm"), layer + "mlp.up_proj"), 0) ** 2
            x = x + product(m, layer + "mlp.down_proj")
        return norm(x, "model.norm") @ t["model.embed_tokens.weight" if s.tied else "lm_head.weight"].T

    def _gidd(self, tokens, positions, attend):
        """Norm weights are offsets from 1, q and k are normed over all heads at once, the mlp is a squared ReLU."""
        s, t, config = self.shape, self.tensors, self.config

        def norm(x, name):
            return rms_norm(x, 1 + t[name + ".weight"], s.eps)

        def heads(x):
            return x.reshape(len(x), s.heads, s.head_dim)

        def product(x, name):
            """weight_scaling is a number or, as where it is absent, a word for a power of the matrix's width."""
            weight, scaling = t[name + ".weight"], config.get("weight_scaling", "fan_in")
            widths = {"fan_in": weight.shape[1], "fan_out": weight.shape[0]}
            return (x @ weight.T) * (widths[scaling] ** -0.5 if scaling in widths else scaling)

        scale = config.get("resid_scale", 4.0) / s.layers
        x = t["model.embed_tokens.weight"][tokens]
        for i in range(s.layers):
            layer = f"model.layers.{i}."
            attn = layer + "self_attn."
            a = norm(x, layer + "attn_layernorm")
            q, k, v = (product(a, f"{attn}{name}_proj") for name in "qkv")
            if config.get("use_qk_norm", True):
                q, k = norm(q, attn + "q_norm"), norm(k, attn + "k_norm")
            q, k = rope(heads(q), positions, s.theta), rope(heads(k), positions, s.theta)
            x = x + scale * product(attend(i, q, k, heads(v)), attn + "o_proj")
            m = product(norm(x, layer + "mlp_layernorm"), layer + "mlp.up_proj")
            m = np.maximum(m + t.get(layer + "mlp.up_proj.bias", 0), 0) ** 2
            x = x + scale * (product(m, layer + "mlp.down_proj") + t.get(layer + "mlp.down_proj.bias", 0))
        head = t["model.embed_tokens.weight" if s.tied else "lm_head.weight"]
        return config.get("head_scaling", 1.0) * (norm(x, "model.norm") @ head.T)

    def _llada2(self, tokens, positions, attend):
        """One matrix has the rows of q, of k and of v; RoPE turns the first rotary_dim dimensions of each head."""
        s, t, config = self.shape, self.tensors, self.config
        x = t["model.word_embeddings.weight"][tokens]
        for i in range(s.layers):
            layer = f"model.layers.{i}."
            attn, mlp = layer + "attention.", layer + "mlp."
            self.see_input(i, x)
            a = rms_norm(x, t[layer + "input_layernorm.weight"], s.eps)
            heads = self._heads(a, t[attn + "query_key_value.weight"], s.heads + 2 * s.kv_heads,
                                t.get(attn + "query_key_value.bias"))
            q, k, v = np.split(heads, [s.heads, s.heads + s.kv_heads], axis=1)
            q = self._turn_first(rms_norm(q, t[attn + "query_layernorm.weight"], s.eps), positions)
            k = self._turn_first(rms_norm(k, t[attn + "key_layernorm.weight"], s.eps), positions)
            x = x + attend(i, q, k, v) @ t[attn + "dense.weight"].T + t.get(attn + "dense.bias", 0)
            h = rms_norm(x, t[layer + "post_attention_layernorm.weight"], s.eps)
            x = x + (self._mlp(h, mlp) if i < config["first_k_dense_replace"]
                     else self._grouped_experts(h, mlp, positions))
        x = rms_norm(x, t["model.norm.weight"], s.eps)
        return x @ t["model.word_embeddings.weight" if s.tied else "lm_head.weight"].T

    def _mlp(self, h, name):
        return swiglu(h, *(self.tensors[f"{name}{part}_proj.weight"] for part in ("gate", "up", "down")))

    def _grouped_experts(self, h, mlp, positions=None):
        """Experts are chosen by sigmoid + bias within the allowed ones and weighted by the sigmoid alone."""
        t, config = self.tensors, self.config
        top = config["num_experts_per_tok"]
        scores = 1 / (1 + np.exp(-(h @ t[mlp + "gate.weight"].T)))
        ranks = scores + t[mlp + "gate.expert_bias"]
        allowed = self._pool(ranks, positions) if self.shape.capacity else self._best_groups(ranks)
        out = np.zeros_like(h)
        for row in range(len(h)):
            chosen = self._best(np.where(allowed[row], ranks[row], -np.inf), top)
            weights = scores[row, chosen]
            if top > 1:
                weights = weights / (weights.sum() + 1e-20)
            for e, weight in zip(chosen, weights * config["routed_scaling_factor"]):
                out[row] += weight * self._mlp(h[row], f"{mlp}experts.{e}.")
        return out + (self._mlp(h, mlp + "shared_experts.") if config["num_shared_experts"] else 0)

    def _best_groups(self, ranks):
        """allowed[row, expert] of LLaDA2.0 and 2.1: the experts of the row's best groups, by the sum of two each."""
        groups, kept = self.config["n_group"], self.config["topk_group"]
        allowed = np.zeros((len(ranks), groups, ranks.shape[1] // groups), dtype=bool)
        for row, by_group in enumerate(ranks.reshape(allowed.shape)):
            group_ranks = np.sort(by_group, axis=1)[:, -2:].sum(axis=1)
            allowed[row, self._best(group_ranks, kept)] = True
        return allowed.reshape(ranks.shape)

    def _pool(self, ranks, positions):
        """allowed[row, expert] of LLaDA2.2: the rows of a window share the experts that any of them ranks highest."""
        windows = np.asarray(positions) // self.shape.window
        allowed = np.zeros(ranks.shape, dtype=bool)
        for window in np.unique(windows):
            inside = windows == window
            pool = self._best(ranks[inside].max(axis=0), self.shape.capacity)
            allowed[np.ix_(inside, pool)] = True
        return allowed

    def _best(self, values, count):
        """Indices of the largest, ties to the lowest; keeps account of how close it was.

        Equal float64 values are not close: they come from equal router rows, which are equal in float32 too.
        """
        order = np.argsort(-values, kind="stable")
        if count < len(order):
            gap = values[order[count - 1]] - values[order[count]]
            self.router_gap = min(self.router_gap, gap) if gap > 0 else self.router_gap
        return order[:count]

    def _experts(self, h, layer):
        """sum over the k most probable experts of p_e * expert_e(h); p is the full softmax, rescaled to sum to 1 over
        the k where norm_topk_prob says so, a key that LLaDA-MoE's code never looks at."""
        s, t = self.shape, self.tensors
        rescales = s.family != "llada_moe" and self.config.get("norm_topk_prob", False)
        probability = softmax(h @ t[layer + "mlp.gate.weight"].T)
        order = np.argsort(-probability, axis=-1, kind="stable")
        out = np.zeros_like(h)
        for row in range(len(h)):
            chosen = order[row, :s.experts_per_token]
            if s.experts_per_token < s.experts:
                gap = probability[row, chosen[-1]] - probability[row, order[row, s.experts_per_token]]
                self.router_gap = min(self.router_gap, gap)
            weights = probability[row, chosen] / (probability[row, chosen].sum() if rescales else 1)
            for e, weight in zip(chosen, weights):
                name = f"{layer}mlp.experts.{e}."
                out[row] += weight * swiglu(
                    h[row], t[name + "gate_proj.weight"], t[name + "up_proj.weight"], t[name + "down_proj.weight"])
        return out
