"""DiffusionGemma: forward passes in float64 and the entropy-bounded sampler.

The model is a Gemma 4 mixture of experts used in two ways with the same weights. `encode` is an ordinary causal
language model that leaves keys and values: of the prompt, and of every finished canvas. `denoise` computes the rows of
one canvas, which see each other in both directions and the encoded prefix, and takes the distribution of the previous
step besides the canvas (self-conditioning).

`decode` runs a request with the random numbers of a NumPy generator. `replay` holds the passes of somebody else against
the same rules: the ids of each canvas that was denoised are given, everything that follows from them is recomputed.
"""
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import safetensors_io
from models import softmax

ARCHITECTURE = "DiffusionGemmaForBlockDiffusion"
SLIDING, FULL = "sliding_attention", "full_attention"
DECODER, ENCODER = "model.decoder.", "model.encoder.language_model."


@dataclass
class Shape:
    """The numbers of a config.json. Heads, head_dim, theta and rotated are {layer type: number}."""
    hidden: int
    layer_types: list
    heads: int
    kv_heads: dict
    head_dim: dict
    theta: dict
    rotated: dict   # pairs of a head that RoPE turns
    window: int
    vocab: int
    eps: float
    cap: float
    experts: int
    experts_per_token: int
    canvas: int

    @property
    def layers(self):
        return len(self.layer_types)


def read_shape(config):
    if config["architectures"] != [ARCHITECTURE]:
        raise ValueError(f"not a DiffusionGemma: {config['architectures']}")
    text = config["text_config"]
    if text["hidden_activation"] != "gelu_pytorch_tanh" or text.get("attention_bias"):
        raise ValueError("a DiffusionGemma variant without a reference here")
    kinds = text["layer_types"]
    # Newer versions of transformers write what full layers have of their own into per_layer_config: "05", "11", ...
    layers = {int(layer): own for layer, own in text.get("per_layer_config", {}).items()}
    own = layers.get(kinds.index(FULL), {}) if FULL in kinds else {}
    head_dim = {SLIDING: text["head_dim"], FULL: own.get("head_dim") or text.get("global_head_dim", 512)}
    kv_heads = {SLIDING: text["num_key_value_heads"],
                FULL: own.get("num_key_value_heads") or text.get("num_global_key_value_heads") or
                text["num_key_value_heads"]}
    rope = text["rope_parameters"]
    share = {SLIDING: 1.0, FULL: rope[FULL].get("partial_rotary_factor", 1.0)}
    if rope[SLIDING]["rope_type"] != "default" or rope[FULL]["rope_type"] != "proportional":
        raise ValueError("a DiffusionGemma variant without a reference here")
    return Shape(
        hidden=text["hidden_size"], layer_types=kinds, heads=text["num_attention_heads"],
        kv_heads=kv_heads, head_dim=head_dim,
        theta={kind: rope[kind]["rope_theta"] for kind in (SLIDING, FULL)},
        rotated={kind: int(share[kind] * head_dim[kind] / 2) for kind in (SLIDING, FULL)},
        window=text["sliding_window"], vocab=text["vocab_size"], eps=text["rms_norm_eps"],
        cap=text["final_logit_softcapping"], experts=text["num_experts"], experts_per_token=text["top_k_experts"],
        canvas=config["canvas_length"])


def rms(x, eps, weight=1.0):
    return weight * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def geglu(x, gate, up, down):
    return (gelu_tanh(x @ gate.T) * (x @ up.T)) @ down.T


def rope(x, positions, theta, rotated):
    """Rotates the first `rotated` pairs (i, i + d/2) of each head by p * theta^(-2i/d). x: [rows, heads, d]."""
    d = x.shape[-1]
    frequency = np.where(np.arange(d // 2) < rotated, theta ** (-2.0 * np.arange(d // 2) / d), 0.0)
    turn = np.exp(1j * np.asarray(positions, dtype=np.float64)[:, None, None] * frequency)
    turned = (x[..., :d // 2] + 1j * x[..., d // 2:]) * turn
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attention(q, k, v, visible):
    """softmax(q k^T) v, with a scale of 1. visible: [rows, cells]."""
    rows, heads, d = q.shape
    group = heads // k.shape[1]
    scores = np.einsum("rhd,shd->hrs", q, np.repeat(k, group, axis=1))
    p = softmax(np.where(visible, scores, -np.inf))
    return np.einsum("hrs,shd->rhd", p, np.repeat(v, group, axis=1)).reshape(rows, heads * d)


@dataclass
class Prefix:
    """Keys (normed and rotated) and values of the encoded positions, [positions, KV heads, head_dim] per layer."""
    k: list
    v: list

    @property
    def length(self):
        return len(self.k[0])


class Model:
    """A checkpoint folder, or {name: array} with a config."""

    def __init__(self, config, tensors):
        self.config, self.shape = config, read_shape(config)
        self.tensors = {name: np.asarray(values, dtype=np.float64) for name, values in tensors.items()}
        self.embed_scale = math.sqrt(self.shape.hidden)  # bf16 code rounds it
        self.router_gap = np.inf  # smallest gap between the last chosen and the first rejected expert so far

    @classmethod
    def load(cls, folder):
        return cls(json.loads((Path(folder) / "config.json").read_text()), safetensors_io.read_folder(folder))

    # The two modes

    def empty_prefix(self):
        s = self.shape
        cells = [np.zeros((0, s.kv_heads[kind], s.head_dim[kind])) for kind in s.layer_types]
        return Prefix(cells, list(cells))

    def encode(self, tokens, prefix=None):
        """(prefix with these tokens appended, their rows before the final norm)."""
        prefix = prefix or self.empty_prefix()
        x = self.embed(tokens)
        first, rows = prefix.length, len(x)
        row, cell = np.arange(first, first + rows)[:, None], np.arange(first + rows)[None]
        causal = cell <= row
        visible = {FULL: causal, SLIDING: causal & (cell > row - self.shape.window)}
        return self.layers(x, prefix, visible, ENCODER)

    def denoise(self, canvas, distribution, prefix):
        """Logits [canvas, vocab]. distribution: [canvas, vocab], of the previous step, or None in the first one."""
        visible = {kind: self.canvas_mask(kind, prefix.length, len(canvas)) for kind in (SLIDING, FULL)}
        _, x = self.layers(self.conditioned(canvas, distribution), prefix, visible, DECODER)
        return self.head(x)

    def canvas_mask(self, kind, prefix, canvas):
        """The same keys for all rows: the canvas and, on sliding layers, the last window - 1 of the prefix."""
        first = max(0, prefix - (self.shape.window - 1)) if kind == SLIDING else 0
        return np.broadcast_to(np.arange(prefix + canvas) >= first, (canvas, prefix + canvas))

    def logits(self, tokens, canvas_begin=None, self_conditioning=None):
        """Logits of all rows: encoded before canvas_begin (None: everywhere), denoised from there on."""
        begin = len(tokens) if canvas_begin is None else canvas_begin
        prefix, encoded = self.encode(tokens[:begin])
        rows = [self.head(encoded)]
        if begin < len(tokens):
            rows.append(self.denoise(tokens[begin:], self_conditioning, prefix))
        return np.concatenate(rows)

    # Their parts

    def norm(self, x, name):
        return rms(x, self.shape.eps, self.tensors[name + ".weight"])

    def embed(self, tokens):
        return self.tensors[DECODER + "embed_tokens.weight"][np.asarray(tokens, dtype=np.int64)] * self.embed_scale

    def conditioned(self, canvas, distribution):
        """Input rows of a canvas."""
        t, x, part = self.tensors, self.embed(canvas), DECODER + "self_conditioning."
        if distribution is not None:
            soft = self.embed_scale * (np.asarray(distribution, dtype=np.float64) @ t[DECODER + "embed_tokens.weight"])
            x = x + geglu(self.norm(soft, part + "pre_norm"),
                          *(t[f"{part}{name}_proj.weight"] for name in ("gate", "up", "down")))
        return rms(x, self.shape.eps)

    def layers(self, x, prefix, visible, mode):
        """(prefix with the rows of x appended, rows after the last layer)."""
        positions, k_all, v_all = np.arange(prefix.length, prefix.length + len(x)), [], []
        for i, kind in enumerate(self.shape.layer_types):
            name = f"{DECODER}layers.{i}."
            q, k, v = self.heads(self.norm(x, name + "input_layernorm"), name + "self_attn.", kind, positions)
            k_all.append(np.concatenate([prefix.k[i], k]))
            v_all.append(np.concatenate([prefix.v[i], v]))
            mixed = attention(q, k_all[-1], v_all[-1], visible[kind]) @ self.tensors[name + "self_attn.o_proj.weight"].T
            h = x + self.norm(mixed, name + "post_attention_layernorm")
            both = self.norm(self.dense(h, name) + self.experts(h, name), name + "post_feedforward_layernorm")
            x = (h + both) * self.tensors[f"{mode}layers.{i}.layer_scalar"]
        return Prefix(k_all, v_all), x

    def heads(self, a, name, kind, positions):
        s, t = self.shape, self.tensors
        d, theta, rotated = s.head_dim[kind], s.theta[kind], s.rotated[kind]
        q = (a @ t[name + "q_proj.weight"].T).reshape(len(a), s.heads, d)
        k = (a @ t[name + "k_proj.weight"].T).reshape(len(a), s.kv_heads[kind], d)
        v = k if kind == FULL else (a @ t[name + "v_proj.weight"].T).reshape(k.shape)
        q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        return rope(q, positions, theta, rotated), rope(k, positions, theta, rotated), rms(v, s.eps)

    def dense(self, h, name):
        weights = (self.tensors[f"{name}mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
        return self.norm(geglu(self.norm(h, name + "pre_feedforward_layernorm"), *weights),
                         name + "post_feedforward_layernorm_1")

    def experts(self, h, name):
        s, t = self.shape, self.tensors
        scaled = rms(h, s.eps) * s.hidden ** -0.5 * t[name + "router.scale"]
        p = softmax(scaled @ t[name + "router.proj.weight"].T)
        order = np.argsort(-p, axis=-1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=-1)
        count = s.experts_per_token
        if count < s.experts:
            self.router_gap = min(self.router_gap, np.min(ranked[:, count - 1] - ranked[:, count]))
        shares = ranked[:, :count] / np.sum(ranked[:, :count], axis=-1, keepdims=True)
        x, out = self.norm(h, name + "pre_feedforward_layernorm_2"), np.zeros_like(h)
        for e in range(s.experts):
            rows, places = np.nonzero(order[:, :count] == e)
            weights = shares[rows, places, None] * t[name + "router.per_expert_scale"][e]
            gate, up = np.split(t[name + "experts.gate_up_proj"][e], 2)
            out[rows] += weights * geglu(x[rows], gate, up, t[name + "experts.down_proj"][e])
        return self.norm(out, name + "post_feedforward_layernorm_2")

    def head(self, x):
        raw = self.norm(x, DECODER + "norm") @ self.tensors[DECODER + "embed_tokens.weight"].T
        return self.shape.cap * np.tanh(raw / self.shape.cap)


# Sampler


@dataclass
class Settings:
    """Settings of generation_config.json and of the request."""
    canvas: int
    gen_length: int
    ends: frozenset = frozenset()  # empty: never stop at a token
    steps: int = 48
    t_min: float = 0.4
    t_max: float = 0.8
    entropy_bound: float = 0.1
    stability: int = 1             # earlier steps whose argmax canvas must be the same
    confidence: float = 0.005

    def temperature(self, remaining):
        """Temperature of the step after which remaining - 1 steps are left."""
        return self.t_min + (self.t_max - self.t_min) * remaining / self.steps

    @property
    def canvases(self):
        return -(-self.gen_length // self.canvas)


# Of keys that a generation_config.json leaves out.
DEFAULTS = {"max_new_tokens": 256, "max_denoising_steps": 48, "sampler_config": {"entropy_bound": 0.1}, "t_min": 0.4,
            "t_max": 0.8, "stability_threshold": 1, "confidence_threshold": 0.005}


def read_settings(folder, gen_length=None, ignore_ends=False):
    generation = DEFAULTS | json.loads((Path(folder) / "generation_config.json").read_text())
    config = json.loads((Path(folder) / "config.json").read_text())
    return Settings(
        canvas=config["canvas_length"], gen_length=gen_length or generation["max_new_tokens"],
        ends=frozenset() if ignore_ends else frozenset(np.atleast_1d(generation["eos_token_id"]).tolist()),
        steps=generation["max_denoising_steps"], t_min=generation["t_min"], t_max=generation["t_max"],
        entropy_bound=generation["sampler_config"]["entropy_bound"], stability=generation["stability_threshold"],
        confidence=generation["confidence_threshold"])


def entropies(p):
    """In nats, of each row."""
    return -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)


def accept(entropy, bound):
    """(order of the positions, how many of them are accepted): those with at most `bound` before them in sum."""
    order = np.argsort(entropy, kind="stable")
    before = np.concatenate([[0], np.cumsum(entropy[order])[:-1]])
    return order, int(np.sum(before <= bound))


@dataclass
class Step:
    """Quantities that a step derives from the logits of its canvas."""
    scaled: np.ndarray   # logits over the temperature
    p: np.ndarray
    entropy: np.ndarray
    best: np.ndarray     # argmax canvas
    order: np.ndarray    # positions by entropy
    count: int           # how many of them are accepted

    @property
    def accepted(self):
        return self.order[:self.count]


def decide(logits, remaining, settings):
    scaled = logits / settings.temperature(remaining)
    p = softmax(scaled)
    entropy = entropies(p)
    return Step(scaled, p, entropy, np.argmax(scaled, axis=-1), *accept(entropy, settings.entropy_bound))


def converged(step, earlier, settings):
    """earlier: the steps of the canvas before this one."""
    recent = earlier[len(earlier) - settings.stability:] if settings.stability else []
    return (len(earlier) >= settings.stability and all(np.array_equal(step.best, other.best) for other in recent)
            and np.mean(step.entropy) < settings.confidence)


def cut(tokens, settings):
    """(answer, whether it ended): as far as the first end, which it contains."""
    tokens = tokens[:settings.gen_length]
    for index, token in enumerate(tokens):
        if token in settings.ends:
            return tokens[:index + 1], True
    return tokens, len(tokens) == settings.gen_length


@dataclass
class Decode:
    tokens: list
    passes: list      # of each denoising pass: (first position, ids that it was fed)
    finals: list      # finished canvases
    steps: list       # of each denoising pass


def decode(model, prompt, settings, rng):
    """Runs a request at temperature 0: the candidate of a position is its best token."""
    prefix, _ = model.encode(prompt)
    done = Decode([], [], [], [])
    while True:
        canvas, earlier, p = rng.integers(0, model.shape.vocab, settings.canvas), [], None
        for remaining in range(settings.steps, 0, -1):
            done.passes.append((prefix.length, canvas.tolist()))
            step = decide(model.denoise(canvas, p, prefix), remaining, settings)
            done.steps.append(step)
            stop = converged(step, earlier, settings)
            earlier.append(step)
            if stop:
                break
            canvas, p = rng.integers(0, model.shape.vocab, settings.canvas), step.p
            canvas[step.accepted] = step.best[step.accepted]
        done.finals.append(step.best.tolist())
        done.tokens, ended = cut([token for final in done.finals for token in final], settings)
        if ended:
            return done
        prefix, _ = model.encode(step.best, prefix)


# Passes of somebody else


@dataclass
class Finding:
    at: int          # pass
    what: str
    margin: float    # how far the reference was from agreeing, in logits or nats; inf: rounding cannot explain it


class Replay:
    """Recomputes a request at temperature 0 from the ids that each denoising pass was fed.

    passes: [(first position of the canvas, its ids)]; tokens: the answer. `findings` are the differences, in the order
    of the passes. With `noise`, a NumPy generator, all logits are off by about as much as float32 may be.
    """
    ROUTER_GAP = 5e-6  # an expert chosen by less than this in probability may be another one in float32
    TOKEN_GAP = 0.1    # an answer's token that loses by less than this is what later canvases follow
    NOISE = 2e-5

    def __init__(self, model, prompt, settings, passes, tokens, noise=None):
        self.model, self.settings, self.passes, self.tokens = model, settings, passes, list(tokens)
        self.noise, self.findings, self.steps, self.finals, self.index = noise, [], [], [], 0
        self.renoised = []  # (ids before, best tokens, ids after) of the rejected positions of a pass, in their order
        model.router_gap = np.inf
        self.run(prompt)

    def find(self, what, margin=np.inf):
        if self.model.router_gap < self.ROUTER_GAP:
            what, margin = f"{what} after a router gap of {self.model.router_gap:.1e}", 0.0
        self.findings.append(Finding(self.index, what, margin))

    def run(self, prompt):
        prefix, _ = self.model.encode(prompt)
        while True:
            group = []
            for first, canvas in self.passes[self.index:]:
                if first != prefix.length:
                    break
                group.append(canvas)
            if not group:
                return self.find(f"no denoising pass of the canvas at {prefix.length}")
            step = self.denoise(group, prefix)
            if step is None:
                return None
            final = self.finish(step)
            expected, ended = cut([token for tokens in self.finals for token in tokens], self.settings)
            if ended:
                break
            prefix, _ = self.model.encode(final, prefix)
        if self.index < len(self.passes):
            self.find(f"{len(self.passes)} denoising passes, expected {self.index}")
        if len(self.tokens) != len(expected):
            self.find(f"{len(self.tokens)} tokens, expected {len(expected)}")
        return None

    def denoise(self, group, prefix):
        """The last step of a canvas that was fed these ids, or None if they are no ids of a canvas."""
        settings, earlier, p, vocab = self.settings, [], None, self.model.shape.vocab
        for place, canvas in enumerate(group):
            canvas = np.asarray(canvas)
            if canvas.shape != (settings.canvas,) or np.min(canvas) < 0 or np.max(canvas) >= vocab:
                return self.find(f"fed {canvas.tolist()}, expected {settings.canvas} ids below {vocab}")
            if place == settings.steps:
                self.find(f"step {place} of a canvas, expected {settings.steps} steps at most")
                return None
            logits = self.model.denoise(canvas, p, prefix)
            if self.noise:
                logits = logits + self.noise.standard_normal(logits.shape) * self.NOISE
            step = decide(logits, settings.steps - place, settings)
            self.steps.append(step)
            self.check_stop(step, earlier, place, place + 1 == len(group))
            earlier.append(step)
            if place + 1 < len(group):
                self.check_canvas(step, canvas, np.asarray(group[place + 1]))
            p = step.p
            self.index += 1
        return step

    def check_stop(self, step, earlier, place, stopped):
        settings, enough = self.settings, len(earlier) >= self.settings.stability
        wanted = converged(step, earlier, settings)
        if stopped == (wanted or place + 1 == settings.steps):
            return
        slack = abs(np.mean(step.entropy) - settings.confidence)
        others = earlier[len(earlier) - settings.stability:] if enough else []
        if wanted:
            gaps = [np.min(lead(each.scaled, each.best)) for each in (step, *others)]
            return self.find("continues where it converged", min(slack, *gaps))
        # All reasons to continue would have to vanish.
        reasons = [] if enough else [np.inf]
        if np.mean(step.entropy) >= settings.confidence:
            reasons.append(slack)
        for other in others:
            for row in np.flatnonzero(step.best != other.best):
                mine, theirs = step.best[row], other.best[row]
                reasons.append(min(step.scaled[row, mine] - step.scaled[row, theirs],
                                   other.scaled[row, theirs] - other.scaled[row, mine]))
        return self.find(f"stops after {place + 1} steps without convergence", max(reasons))

    def check_canvas(self, step, canvas, following):
        before = np.concatenate([[0], np.cumsum(step.entropy[step.order])])
        for rank, row in enumerate(step.accepted):
            if following[row] != step.best[row]:
                reasons = [self.settings.entropy_bound - before[rank],
                           step.scaled[row, step.best[row]] - step.scaled[row, following[row]]]
                if step.count < len(step.order):
                    reasons.append(step.entropy[step.order[step.count]] - step.entropy[row])
                self.find(f"position {row} of the canvas becomes {following[row]}, expected {step.best[row]}, the "
                          f"{rank + 1}th of {step.count} accepted", min(reasons))
        rejected = step.order[step.count:]
        self.renoised.append((canvas[rejected], step.best[rejected], following[rejected]))

    def finish(self, step):
        """The finished canvas."""
        final, begin = step.best.copy(), len(self.finals) * len(step.best)
        self.index -= 1  # the pass that these tokens are from
        for row, token in enumerate(self.tokens[begin:begin + len(final)]):
            if token != final[row]:
                gap = step.scaled[row, final[row]] - step.scaled[row, token]
                self.find(f"token {begin + row}: {token}, expected {final[row]}", gap)
                if gap < self.TOKEN_GAP:
                    final[row] = token
        self.index += 1
        self.finals.append(final.tolist())
        return final


def lead(scaled, best):
    """By how much the best token of each row leads."""
    rest = np.array(scaled)
    rest[np.arange(len(rest)), best] = -np.inf
    return scaled[np.arange(len(rest)), best] - np.max(rest, axis=-1)


def replay(model, prompt, settings, passes, tokens):
    """(Replay, its findings that rounding does not explain).

    What a small difference of the logits grows to in the later steps of a canvas is measured by a second replay.
    """
    first = Replay(model, prompt, settings, passes, tokens)
    if not first.findings:
        return first, []
    noisy = Replay(model, prompt, settings, passes, tokens, noise=np.random.default_rng(0))
    drift = [10 * np.max(np.abs(a.scaled - b.scaled)) for a, b in zip(first.steps, noisy.steps)]
    return first, [finding for finding in first.findings
                   if finding.margin > max(3e-4, max(drift[:finding.at + 1], default=0))]
