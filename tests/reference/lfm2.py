"""LFM2.5-Diffusion (Lfm2ForBlockDiffusion): the forward pass in float64, and its sampler.

Every pass computes the whole text anew, without any cache, as the published sampler does: first the rows of clean text, of
which each sees itself and those before it, then those of a block, which see all of it and each other. A convolution runs over
both in order.
"""
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import rotations
import safetensors_io
from models import rms_norm, silu, softmax, turn
from uniform import RngStream

ARCHITECTURE = "Lfm2ForBlockDiffusion"
CANVAS, DRAW, POSTERIOR = 19, 1, 21  # what a stream is for
LEAST = 1e-3                         # the published eps: of the times, and of the signal at time 1


class Model:
    """A checkpoint's config and {name: array}."""

    def __init__(self, config, tensors):
        self.config = config
        self.tensors = {name: np.asarray(values, dtype=np.float64) for name, values in tensors.items()}
        count = config["num_hidden_layers"]
        attends = config.get("full_attn_idxs", range(count))
        self.kinds = config.get("layer_types") or ["full_attention" if i in attends else "conv" for i in range(count)]
        self.hidden, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads", self.heads)
        self.head_dim = config.get("head_dim", self.hidden // self.heads)
        self.vocab = config["vocab_size"]
        self.written = config.get("real_vocab_size", self.vocab)
        self.block = config.get("diffusion_block_size", 32)
        rope = {"rope_theta": 1e6} | rotations.settings(config)
        self.frequency, self.scale = rotations.frequencies(rope, self.head_dim, config["max_position_embeddings"])

    @classmethod
    def load(cls, folder):
        return cls(json.loads((Path(folder) / "config.json").read_text()), safetensors_io.read_folder(folder))

    def linear(self, x, name):
        out = x @ self.tensors[f"model.{name}.weight"].T
        return out + self.tensors.get(f"model.{name}.bias", 0)

    def norm(self, x, name):
        return rms_norm(x, self.tensors[f"model.{name}.weight"], self.config["norm_eps"])

    def logits(self, tokens, begin=None, distribution=None, level=0.0):
        """[rows, vocab]. begin: first position of the block, None without one; distribution: [block, vocab], what the pass before
        predicted; level: the block's sigma."""
        begin = len(tokens) if begin is None else begin
        embedding = self.tensors["model.embed_tokens.weight"]
        x = embedding[np.asarray(tokens)]
        if distribution is not None:
            soft = self.norm(np.asarray(distribution, dtype=np.float64) @ embedding, "selfcond_norm")
            x[begin:] += self.linear(silu(self.linear(soft, "selfcond_ffn.0")), "selfcond_ffn.2")
        row, cell = np.arange(len(x))[:, None], np.arange(len(x))[None]
        visible = (cell <= row) | (row >= begin)
        levels = np.where(np.arange(len(x)) < begin, 0.0, level)
        base = self.modulation(levels)
        for i, kind in enumerate(self.kinds):
            scale, shift, gate = np.split(base + self.tensors["model.adaln_block_emb"][i], 3, axis=-1)
            y = x * (1 + scale) + shift
            x = x + (1 + gate) * (self.layer(y, i, kind, visible) - y)
        head = self.tensors.get("lm_head.weight", embedding)
        return self.norm(x, "embedding_norm") @ head.T

    def modulation(self, levels):
        half = self.config.get("sigma_freq_embedding_size", 256) // 2
        angle = levels[:, None] * np.exp(-math.log(10000) * np.arange(half) / half)
        time = self.linear(silu(self.linear(np.concatenate([np.cos(angle), np.sin(angle)], axis=-1), "sigma_embed.mlp.0")),
                           "sigma_embed.mlp.2")
        return self.linear(silu(time), "adaln_proj.1")

    def layer(self, x, i, kind, visible):
        a = self.norm(x, f"layers.{i}.operator_norm")
        x = x + (self.attention(a, i, visible) if kind == "full_attention" else self.convolution(a, i))
        f = self.norm(x, f"layers.{i}.ffn_norm")
        part = f"layers.{i}.feed_forward."
        return x + self.linear(silu(self.linear(f, part + "w1")) * self.linear(f, part + "w3"), part + "w2")

    def convolution(self, a, i):
        before, after, value = np.split(self.linear(a, f"layers.{i}.conv.in_proj"), 3, axis=-1)
        taps = self.tensors[f"model.layers.{i}.conv.conv.weight"][:, 0]  # [hidden, taps]
        count = taps.shape[1]
        padded = np.concatenate([np.zeros((count - 1, self.hidden)), before * value])
        mixed = sum(padded[t:t + len(a)] * taps[:, t] for t in range(count))
        return self.linear(after * mixed, f"layers.{i}.conv.out_proj")

    def attention(self, a, i, visible):
        part, rows = f"layers.{i}.self_attn.", len(a)

        def heads(name, count, norm):
            split = self.linear(a, part + name).reshape(rows, count, self.head_dim)
            return turn(self.norm(split, part + norm), np.arange(rows), self.frequency, self.scale) if norm else split

        q = heads("q_proj", self.heads, "q_layernorm")
        k, v = heads("k_proj", self.kv_heads, "k_layernorm"), heads("v_proj", self.kv_heads, None)
        k, v = (np.repeat(each, self.heads // self.kv_heads, axis=1) for each in (k, v))
        scores = np.einsum("rhd,shd->hrs", q, k) / math.sqrt(self.head_dim)
        mixed = np.einsum("hrs,shd->rhd", softmax(np.where(visible, scores, -np.inf)), v)
        return self.linear(mixed.reshape(rows, -1), part + "out_proj")


@dataclass
class Settings:
    gen_length: int
    steps: int = 8
    block: int = 32
    ends: frozenset = frozenset()
    draws: bool = True
    seed: int = 0

    @property
    def few(self):
        return self.steps <= 4

    def signal(self, step):
        """alpha before this step."""
        time = LEAST + (1 - LEAST) * (1 - step / self.steps) ** (0.2 if self.few else 0.3)
        return 1 - (1 - LEAST) * time

    def signals(self, step):
        if step < self.steps:
            return self.signal(step), self.signal(step + 1)
        return min(self.signal(step), math.exp(-0.7)), 1.0

    def temperature(self, step):
        last = 0.5 if self.few else 0.4
        share = 1.0 if step == self.steps else step / max(self.steps - 1, 1)
        return 0.8 + share * (last - 0.8)


@dataclass
class Decode:
    tokens: list = field(default_factory=list)
    fed: list = field(default_factory=list)  # the ids of each denoising pass
    close: int | None = None                 # first pass that rounding may decide
    counts: dict = field(default_factory=lambda: {"stay": 0, "predict": 0, "noise": 0})


def posterior(p, held, before, after, count):
    """q(z_s | z_t = held) over the ids, with the prediction p in place of the clean token."""
    one_hot = np.arange(count) == held
    ratio = before / after
    weight = (before * count * p * one_hot + (ratio - before) * one_hot + (after - before) * p
              + (1 - ratio) * (1 - after) / count)
    return weight / (before * count * p[held] + 1 - before)


def shares(p, held, step, settings):
    """The posterior's parts that keep the token and that draw from the prediction."""
    before, after = settings.signals(step)
    norm = before * len(p) * p[held] + 1 - before
    return np.array([before * len(p) * p[held] + before / after - before, after - before]) / norm


def draw(scaled, other, held, position, step, settings, counts):
    """(token, whether it may be another one where the scaled logits are `other`): from one of the posterior's three parts."""
    count, error = len(scaled), 10 * np.max(np.abs(scaled - other)) + 1e-4
    if not settings.draws:
        best = np.sort(scaled)
        return int(np.argmax(scaled)), best[-1] - best[-2] < error
    p = softmax(scaled)
    assert abs(np.sum(posterior(p, held, *settings.signals(step), count)) - 1) < 1e-9
    ends = np.cumsum(shares(p, held, step, settings))
    others = np.cumsum(shares(softmax(other), held, step, settings))
    coin, noise = RngStream(settings.seed, POSTERIOR, step, position), RngStream(settings.seed, DRAW, step, position)
    u = coin.uniform(0)
    is_close = bool(np.any(np.abs(u - ends) < 10 * np.abs(ends - others) + 1e-6))
    if u < ends[0]:
        counts["stay"] += 1
        return held, is_close
    if u >= ends[1]:
        counts["noise"] += 1
        return coin.below(1, count), is_close
    counts["predict"] += 1
    value = scaled - np.log(-np.log([noise.uniform(token) for token in range(count)]))
    best = np.sort(value)
    return int(np.argmax(value)), is_close or best[-1] - best[-2] < error


def decode(model, prompt, settings):
    """Runs a request; a second chain of distributions, whose logits are off by about as much as float32 may be, tells what is too
    close to call."""
    done, wobble = Decode(), np.random.default_rng(settings.seed)
    text, count = list(prompt), model.written
    while len(text) - len(prompt) < settings.gen_length:
        begin = len(text)
        block = [RngStream(settings.seed, CANVAS, 0, begin + i).below(0, count) for i in range(settings.block)]
        chains = [None, None]
        for step in range(settings.steps + 1):
            done.fed.append(list(block))
            level, scaled = -math.log(settings.signals(step)[0]), []
            for noise, p in zip((0, 3e-6), chains):
                rows = model.logits(text + block, begin, p, level)[begin:, :count]
                scaled.append((rows + noise * wobble.standard_normal(rows.shape)) / settings.temperature(step))
            chains = [np.pad(softmax(each), ((0, 0), (0, model.vocab - count))) for each in scaled]
            for i, held in enumerate(block):
                block[i], is_close = draw(scaled[0][i], scaled[1][i], held, begin + i, step, settings, done.counts)
                if is_close and done.close is None:
                    done.close = len(done.fed) - 1
        text += block
        answer = text[len(prompt):][:settings.gen_length]
        ends = [i for i, token in enumerate(answer) if token in settings.ends]
        if ends:
            done.tokens = answer[:ends[0] + 1]
            return done
    done.tokens = answer
    return done
