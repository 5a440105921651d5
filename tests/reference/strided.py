"""I-DLM, written from docs/methods/strided_decoding.md alone: a left-to-right model that drafts with masks.

The forward pass is Qwen3's of models.py, causal. Nothing is cached: every pass computes its whole context anew, so agreement
shows that the K/V which an engine keeps are those of the text and never those of a mask. `decode` leaves a `Pass` per forward
pass. Where the page leaves a choice, a comment that begins with "Reading:" says which one is taken.
"""
from collections import Counter
from dataclasses import dataclass

import numpy as np

from blocks import Decode, Pass
from models import softmax
from uniform import RngStream

READ_ROWS = 1024  # of the text, in one pass


@dataclass
class Options:
    gen_length: int = 32
    block_length: int | None = None    # None: the block_size of config.json and one
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    ignore_eos: bool = False
    seed: int = 0


class Decoder:
    LOGIT_GAP, PROBABILITY_GAP = 3e-4, 1e-4

    def __init__(self, model, prompt, options):
        self.model, self.options = model, options
        self.text, self.limit = list(prompt), len(prompt) + options.gen_length
        self.masks = (options.block_length or model.config["block_size"] + 1) - 1
        ends = model.config["eos_token_id"]
        self.ends = set() if options.ignore_eos else set(ends if isinstance(ends, list) else [ends])
        self.drafts, self.num_read = [], 0
        self.passes, self.close, self.met = [], None, Counter()

    # Decisions

    def see(self, gap, tolerance):
        if 0 < gap < tolerance and self.close is None:
            self.close = len(self.passes) - 1

    def filtered(self, row):
        """Logits over the temperature after top-p and then top-k; tokens as good as the k-th stay."""
        options, kept = self.options, np.array(row)
        gap = self.LOGIT_GAP / options.temperature
        if options.top_p < 1:
            order = np.argsort(-row, kind="stable")
            sums = np.cumsum(softmax(row[order]))
            count = int(np.searchsorted(sums, options.top_p, side="right")) + 1
            self.see(np.min(np.abs(sums - options.top_p)), self.PROBABILITY_GAP)
            if count < len(order):
                self.see(row[order[count - 1]] - row[order[count]], gap)
            kept[order[count:]] = -np.inf
        if 0 < options.top_k < len(row):
            best = np.sort(row)[::-1]
            self.see(best[options.top_k - 1] - best[options.top_k], gap)
            kept[row < best[options.top_k - 1]] = -np.inf
        return kept

    def sample(self, row, position):
        """The token of `position`, from the row before it. Reading: any token, the mask and the ends among them."""
        if self.options.temperature:
            stream = RngStream(self.options.seed, position)
            row = np.array([x - np.log(-np.log(stream.uniform(token))) if x > -np.inf else x
                            for token, x in enumerate(self.filtered(row / self.options.temperature))])
        two = np.partition(row, -2)[-2:]
        self.see(two[1] - two[0], self.LOGIT_GAP / (self.options.temperature or 1))
        return int(np.argmax(row))

    # Passes

    def run(self):
        while not self.step():
            pass
        prompt = self.limit - self.options.gen_length
        return Decode(self.text[prompt:], self.limit, self.passes, self.close, self.met)

    def step(self):
        """One token or more; True: the answer ends."""
        kind = "prefill" if not self.num_read else "verify" if self.drafts else "decode"
        while len(self.text) - self.num_read > READ_ROWS:  # rows of the prompt alone
            self.passes.append(Pass(kind, list(range(self.num_read, self.num_read + READ_ROWS))))
            self.num_read += READ_ROWS
            self.met["read in parts"] += 1
        length, drafts = len(self.text), self.drafts
        masks = min(self.masks, max(0, self.limit - 1 - length - len(drafts)))
        self.met["fewer masks"] += masks < self.masks
        inputs = (self.text + drafts + [self.model.shape.mask_id] * masks)[:self.limit - 1]  # the last position has no row
        self.passes.append(Pass(kind, list(range(self.num_read, len(inputs)))))
        logits = self.model.logits(inputs)

        accepted, ended = 0, self.write(logits[length - 1])
        while not ended and accepted < len(drafts) and self.text[-1] == drafts[accepted]:
            accepted += 1
            ended = self.write(logits[length - 1 + accepted])
        self.num_read = length + accepted
        if drafts:
            self.met["all accepted"] += accepted == len(drafts)
            self.met["none accepted"] += accepted == 0
            self.met["some accepted"] += 0 < accepted < len(drafts)
            self.met["ended among drafts"] += ended and accepted < len(drafts) and len(self.text) < self.limit
        follows = accepted == len(drafts) and not ended
        first = length + len(drafts)
        self.drafts = [self.sample(logits[p], p + 1) for p in range(first, first + masks)] if follows else []
        return ended

    def write(self, row):
        """Appends the next token; True: the answer ends with it."""
        position = len(self.text)
        token = self.sample(row, position)
        self.text.append(token)
        self.passes[-1].committed.append((position, token))
        self.met["wrote a mask"] += token == self.model.shape.mask_id
        self.met["stopped by an end"] += token in self.ends
        return token in self.ends or len(self.text) == self.limit


def decode(model, prompt, options):
    return Decoder(model, prompt, options).run()
