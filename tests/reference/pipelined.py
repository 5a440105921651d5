"""Block diffusion in a pipeline (D2F), written from section 8 of docs/methods/block_diffusion.md.

Nothing is cached: every pass computes all blocks that have begun anew, under a mask of positions, so agreement shows that the K/V
which an engine keeps are exact. `decode` leaves a `Pass` per forward pass. A block goes through three states, as in the published
code: active, to keep, kept.
"""
from collections import Counter
from dataclasses import dataclass

import numpy as np

import blocks
from blocks import DRAW, ORDER, ROWS_TOGETHER, Decode, Pass, choose
from models import attention
from uniform import RngStream


@dataclass
class Options(blocks.Options):
    pipeline: tuple | None = None      # add, full
    whole_prompt: bool = False         # the prompt is one block


@dataclass
class Block:
    begin: int
    end: int
    state: str = "active"              # to keep, kept
    is_full: bool = False
    steps: int = 0


class Network:
    """Logits of a model of models.py for a canvas whose positions see their block and those before."""

    def __init__(self, model, shifted):
        self.model, self.mask_id, self.shifted = model, model.shape.mask_id, shifted

    def compute(self, canvas, numbers):
        """All rows; numbers: the block of each position."""
        numbers = np.asarray(numbers)
        visible = numbers[:, None] >= numbers[None, :]
        return self.model._forward(np.asarray(canvas), np.arange(len(canvas)),
                                   lambda layer, q, k, v: attention(q, k, v, visible))


class Decoder(blocks.Decoder):
    def __init__(self, network, prompt, ends, options):
        self.network, self.ends, self.options = network, frozenset(ends), options
        self.size = self.sub = options.block_length
        self.steps, self.rule = options.steps or self.size, options.unmask
        self.add, self.full = options.pipeline or (1.0, 1.0)
        self.prompt, self.limit = len(prompt), len(prompt) + options.gen_length
        self.canvas, self.masked = list(prompt), [False] * len(prompt)
        self.passes, self.close, self.met, self.values = [], None, Counter(), {}
        self.scaled_gap = self.LOGIT_GAP / (options.temperature or 1.0)
        inside = [0, self.prompt] if options.whole_prompt else range(0, self.prompt + 1, self.size)
        self.blocks = [Block(a, b, "to keep", True) for a, b in zip(inside, inside[1:]) if a < b]

    def run(self):
        together = max(1, ROWS_TOGETHER // self.size)
        while sum(block.state == "to keep" for block in self.blocks) > together:
            first = [block for block in self.blocks if block.state == "to keep"][:together]
            self.passes.append(Pass("prefill", [row for block in first for row in range(block.begin, block.end)]))
            for block in first:
                block.state = "kept"
            self.met["prefill in parts"] += 1
        while not self.ended():
            self.begin_block()
            if not any(block.state == "active" for block in self.blocks):
                break
            self.fill_up()
            self.step()
        end = self.end_of_answer()
        tokens = self.canvas[self.prompt:self.limit] if end is None else self.canvas[self.prompt:end + 1]
        return Decode(tokens, self.limit, self.passes, self.close, self.met)

    def end_of_answer(self):
        for position in range(self.prompt, min(self.limit, len(self.canvas))):
            if self.masked[position]:
                return None
            if self.canvas[position] in self.ends:
                return position
        return None

    # Blocks

    def written(self, block):
        masks = [self.masked[position] for position in range(max(block.begin, self.prompt), block.end)]
        return (len(masks) - sum(masks)) / len(masks) if masks else 1.0

    def written_end(self):
        """The first end token of the answer, or None."""
        return next((position for position in range(self.prompt, min(self.limit, len(self.canvas)))
                     if not self.masked[position] and self.canvas[position] in self.ends), None)

    def begin_block(self):
        begin = self.blocks[-1].end if self.blocks else 0
        if begin >= self.limit or self.written_end() is not None:
            return
        if self.blocks and self.written(self.blocks[-1]) < self.add:
            return
        self.met["begun early"] += bool(self.blocks) and self.written(self.blocks[-1]) < 1
        new = Block(begin, begin + self.size)
        self.canvas += [self.network.mask_id] * (new.end - len(self.canvas))
        self.masked += [True] * (new.end - len(self.masked))
        new.is_full = new.begin <= self.prompt
        self.blocks.append(new)

    def fill_up(self):
        for before, block in zip(self.blocks, self.blocks[1:]):
            block.is_full |= self.written(before) >= self.full

    # Passes

    def step(self):
        computed = [block for block in self.blocks if block.state != "kept"]
        active = [block for block in computed if block.state == "active"]
        self.met["kept and denoised"] += len(active) < len(computed)
        self.met["three blocks at once"] += len(active) > 2
        rows = [row for block in computed for row in range(block.begin, block.end)]
        first = active[0].begin
        if self.network.shifted and self.masked[first] and rows[0] == first:
            rows.insert(0, first - 1)
            self.met["row before"] += 1
        numbers = [number for number, block in enumerate(self.blocks) for _ in range(block.begin, block.end)]
        logits = self.network.compute(self.canvas, numbers)
        self.passes.append(Pass("denoise", rows))
        self.values, written = {}, {}
        for number, block in enumerate(self.blocks):
            if block.state == "active":
                written |= self.commits(number, block, logits)
        for position in written:
            self.see_best(self.values[position], self.scaled_gap)
        self.write(written)
        for block in computed:
            if block.state == "to keep":
                block.state = "kept"
        self.finish(active)

    def commits(self, number, block, logits):
        candidates = [self.candidate(logits[position - self.network.shifted], number, block.steps, position)
                      for position in range(block.begin, block.end) if self.masked[position]]
        if not candidates:
            self.met["waited"] += 1
            return {}
        stream = RngStream(self.options.seed, ORDER, number, block.steps)
        chosen = choose(self.rule, candidates, self.quota(block.steps), stream, self.see_order)
        if not block.is_full:
            name, value = self.rule.split("=")
            passes = (lambda p: p > float(value)) if name == "dynamic" else (lambda p: p >= float(value))
            chosen = [c for c in chosen if passes(c.probability)]
            self.met["wrote nothing"] += not chosen
        block.steps += 1
        return {c.position: c.token for c in chosen}

    def finish(self, active):
        """Blocks without masks behind finished ones are to be kept; what lies behind an end's block is dropped."""
        for block in active:
            if any(self.masked[block.begin:block.end]):
                break
            block.state = "to keep"
        end = self.written_end()
        if end is not None:
            kept = [block for block in self.blocks if block.begin <= end]
            self.met["dropped behind an end"] += len(kept) < len(self.blocks)
            self.blocks = kept
            length = max(kept[-1].end, self.prompt)
            del self.canvas[length:], self.masked[length:]


def decode(network, prompt, ends, options):
    return Decoder(network, prompt, ends, options).run()
