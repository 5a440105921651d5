"""Nemotron-Labs-Diffusion, written from docs/methods/seeded_diffusion.md alone: forward passes, blocks, self-speculation.

Nothing is cached: every pass computes its whole context anew, so agreement shows that the K/V which an engine keeps are
exact. `decode` leaves a `Pass` per forward pass. Where the page leaves a choice, a comment that begins with "Reading:" says
which one is taken.
"""
from collections import Counter
from dataclasses import dataclass

import numpy as np

from blocks import Candidate, Decode, Pass, choose
from models import attention, rms_norm, softmax, swiglu
from uniform import RngStream

DRAW, ORDER = 1, 2  # what a stream is for
READ_ROWS = 1024    # of one pass


def yarn(dim, rope):
    """Radians per position of each pair, and the factor of cos and sin (arXiv 2309.00071)."""
    base, factor, old = rope["rope_theta"], rope["factor"], rope["original_max_position_embeddings"]
    period = base ** (2 * np.arange(dim // 2) / dim)

    def pair(turns):  # that makes so many turns within the old context
        return dim * np.log(old / (turns * 2 * np.pi)) / (2 * np.log(base))

    low = max(np.floor(pair(rope["beta_fast"])), 0)
    high = min(np.ceil(pair(rope["beta_slow"])), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low if high != low else 1e-3), 0, 1)

    def growth(mscale):
        return 1.0 if factor <= 1 else 0.1 * mscale * np.log(factor) + 1

    return (1 - ramp) / period + ramp / (factor * period), growth(rope["mscale"]) / growth(rope["mscale_all_dim"])


class Nemotron:
    def __init__(self, config, tensors):
        self.config = config
        self.tensors = {name: np.asarray(values, dtype=np.float64) for name, values in tensors.items()}
        self.frequencies, self.scale = yarn(config["head_dim"], config["rope_parameters"])
        self.vocab, self.mask = config["vocab_size"], config["mask_token_id"]
        ends = config["eos_token_id"]
        self.ends = set(ends if isinstance(ends, list) else [ends])
        self.positions, self.block_length = config["max_position_embeddings"], config["block_size"]

    def rotate(self, x):
        angle = np.arange(len(x))[:, None, None] * self.frequencies
        cos, sin = np.cos(angle) * self.scale, np.sin(angle) * self.scale
        first, second = np.split(x, 2, axis=-1)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def logits(self, tokens, begin=None):
        """Raw logits [rows, vocab]. Rows from `begin` on see everything, those before what is not after them."""
        c, t, rope = self.config, self.tensors, self.config["rope_parameters"]
        tokens = np.asarray(tokens)
        rows = np.arange(len(tokens))
        visible = rows[:, None] >= rows[None, :]
        if begin is not None:
            visible |= rows[:, None] >= begin
        queries = 1 + rope["llama_4_scaling_beta"] * np.log(1 + rows // rope["original_max_position_embeddings"])
        x = t["encoder.embed_tokens.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            layer = f"encoder.layers.{i}."
            a = rms_norm(x, t[layer + "input_layernorm.weight"], c["rms_norm_eps"])
            q, k, v = ((a @ t[f"{layer}self_attn.{name}_proj.weight"].T).reshape(len(a), -1, c["head_dim"]) for name in "qkv")
            mixed = attention(self.rotate(q) * queries[:, None, None], self.rotate(k), v, visible)
            x = x + mixed @ t[layer + "self_attn.o_proj.weight"].T
            h = rms_norm(x, t[layer + "post_attention_layernorm.weight"], c["rms_norm_eps"])
            x = x + swiglu(h, *(t[f"{layer}mlp.{name}_proj.weight"] for name in ("gate", "up", "down")))
        return rms_norm(x, t["encoder.norm.weight"], c["rms_norm_eps"]) @ t["diffusion_head.weight"].T


@dataclass
class Options:
    gen_length: int = 32
    block_length: int | None = None
    steps: int | None = None
    unmask: str | None = None
    accept: str = "all"                # or exact
    causal: bool = False               # the left-to-right mode
    temperature: float = 0.0
    top_k: int = 0
    ignore_eos: bool = False
    seed: int = 0


class Decoder:
    LOGIT_GAP, PROBABILITY_GAP = 3e-4, 1e-4

    def __init__(self, model, prompt, options):
        self.model, self.options = model, options
        self.size = options.block_length or model.block_length
        self.steps, self.rule = options.steps or self.size, options.unmask or "threshold=0.9"
        self.exact = options.accept == "exact"
        if options.unmask is None and options.steps:
            self.rule = "low-confidence"
        elif self.exact and options.unmask is None:
            self.steps, self.rule = 1, "low-confidence"
        self.text, self.prompt = list(prompt), len(prompt)
        self.limit = self.prompt + options.gen_length
        self.ends = set() if options.ignore_eos else model.ends
        blocks = -(-options.gen_length // self.size)
        self.cells = min(self.limit if self.exact else self.prompt + blocks * self.size, model.positions)
        self.passes, self.close, self.met = [], None, Counter()

    # Decisions

    def see(self, a, b, tolerance):
        if a != b and abs(a - b) < tolerance and self.close is None:
            self.close = len(self.passes) - 1

    def see_probability(self, a, b):
        self.see(a, b, self.PROBABILITY_GAP * max(abs(a), abs(b)))

    def sample(self, row, stream, maskless=False):
        row = np.array(row)
        if maskless:
            row[self.model.mask] = -np.inf
        if self.options.temperature:
            row = row / self.options.temperature
            if self.options.top_k and self.options.top_k < len(row):
                order = np.sort(row)[::-1]
                if np.isfinite(order[self.options.top_k]):
                    self.see(order[self.options.top_k - 1], order[self.options.top_k], self.LOGIT_GAP)
                row[row < order[self.options.top_k - 1]] = -np.inf
            row = np.array([x - np.log(-np.log(stream.uniform(token))) if x > -np.inf else x
                            for token, x in enumerate(row)])
        two = np.partition(row, -2)[-2:]
        self.see(two[1], two[0], self.LOGIT_GAP / (self.options.temperature or 1))
        return int(np.argmax(row))

    def judge(self, row, position):
        """The token of a position, from the causal row before it."""
        return self.sample(row, RngStream(self.options.seed, position))

    # Passes

    def read(self, kind, begin):
        """Causal logits of the rows from `begin` on."""
        for first in range(begin, len(self.text), READ_ROWS):
            self.passes.append(Pass(kind, list(range(first, min(first + READ_ROWS, len(self.text))))))
        return self.model.logits(self.text)[begin:]

    def commit(self, position, token):
        if position < self.limit:
            self.passes[-1].committed.append((position, token))

    def ended(self, begin, end):
        """Whether the answer ends before `end`; it is cut there then."""
        for position in range(begin, min(end, self.limit)):
            if self.text[position] in self.ends:
                self.text = self.text[:position + 1]
                return True
        if end >= self.limit:
            self.text = self.text[:self.limit]
            return True
        return False

    def run(self):
        row = self.read("prefill", 0)[-1]
        seed = self.judge(row, self.prompt)
        self.commit(self.prompt, seed)
        self.text.append(seed)
        number = 0
        while not self.ended(len(self.text) - 1, len(self.text)):
            if self.options.causal:
                row = self.read("decode", len(self.text) - 1)[-1]
                token = self.judge(row, len(self.text))
                self.commit(len(self.text), token)
                self.text.append(token)
            else:
                if self.block(number):
                    break
                number += 1
        tokens = self.text[self.prompt:]
        return Decode(tokens, self.limit, self.passes, self.close, self.met)

    def block(self, number):
        """Denoises the block that begins with the last token; True: the answer ends."""
        begin = len(self.text) - 1
        end = min(begin + self.size, self.cells)
        self.met["cut block"] += end < begin + self.size
        block = self.text[begin:] + [self.model.mask] * (end - begin - 1)
        masked = [False] + [True] * (end - begin - 1)
        step = 0
        while not self.is_done(block, masked, begin):
            self.passes.append(Pass("draft" if self.exact else "denoise", list(range(begin, end))))
            logits = self.model.logits(self.text[:begin] + block, begin)[begin:]
            written = self.step(logits, masked, begin, number, step)
            for c in written:
                block[c.position - begin], masked[c.position - begin] = c.token, False
                if not self.exact:
                    self.commit(c.position, c.token)
            self.passes[-1].committed.sort()
            step += 1
        self.met["several steps"] += step > 1
        if self.exact:
            return self.verify(begin, block)
        self.text[begin:] = block
        if any(masked):
            self.met["done with masks"] += 1
        if self.ended(begin, end):
            return True
        row = self.read("commit", begin)[-1]
        seed = self.judge(row, end)
        self.commit(end, seed)
        self.text.append(seed)
        return False

    def is_done(self, block, masked, begin):
        for position, (token, hidden) in enumerate(zip(block, masked), begin):
            if hidden and position < self.limit:
                return False
            if not hidden and not self.exact and token in self.ends:
                return True
        return True

    def step(self, logits, masked, begin, number, step):
        candidates = []
        for i, row in enumerate(logits):
            if not masked[i]:
                continue
            position = begin + i
            stream = (RngStream(self.options.seed, position) if self.exact
                      else RngStream(self.options.seed, DRAW, number, step, position))
            token, p = self.sample(row, stream, maskless=True), softmax(row)
            best = np.sort(p)[::-1]
            positive = p[p > 0]
            candidates.append(Candidate(position, token, float(p[token]), float(best[0] - best[1]),
                                        float(-np.sum(positive * np.log(positive)))))
        masks = len(masked) - 1
        count = masks // self.steps + (step < masks % self.steps)
        return choose(self.rule, candidates, count, RngStream(self.options.seed, ORDER, number, step),
                      self.see_probability)

    def verify(self, begin, block):
        self.text[begin:] = block
        rows = self.read("verify", begin)
        self.text = self.text[:begin + 1]
        for i, row in enumerate(rows):
            token = self.judge(row, begin + i + 1)
            self.commit(begin + i + 1, token)
            self.text.append(token)
            if i + 1 == len(block) or token != block[i + 1]:
                self.met["all accepted"] += i + 1 == len(block)
                self.met["accepted some"] += 0 < i < len(block) - 1
                break
        ended = self.ended(begin + 1, len(self.text))
        # A trace leaves out what is cut from the answer.
        self.passes[-1].committed = [(p, token) for p, token in self.passes[-1].committed if p < len(self.text)]
        return ended


def decode(model, prompt, options):
    return Decoder(model, prompt, options).run()
