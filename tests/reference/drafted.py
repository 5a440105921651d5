"""Drafts of a smaller model, written from section 12 of docs/methods/block_diffusion.md: a guide denoises a block, and one pass
of the model judges it.

The guide's steps are those of blocks.py. A verify pass is one forward pass over the whole text, the drafts and their masks, with
a matrix of what each row sees: nothing is cached, so that agreement shows which K/V an engine may keep. `decode` leaves a `Pass`
per forward pass. Where the page leaves a choice, a comment that begins with "Reading:" says which one is taken.
"""
from collections import Counter
from dataclasses import replace

import numpy as np

from blocks import ROWS_TOGETHER, Decode, Decoder, Network, Pass
from models import attention


def sees(row, cell, block_length):
    """row and cell: ("text", position), ("draft", step) or ("mask", step), steps of the same block."""
    if cell[0] == "text":
        # Reading: a known token sees the other known tokens of its block in both directions.
        return row[0] != "text" or row[1] // block_length >= cell[1] // block_length
    if row[0] == "text":
        return False
    if cell[0] == "draft":
        return cell[1] <= row[1] if row[0] == "draft" else cell[1] < row[1]
    return cell[1] > row[1] if row[0] == "draft" else cell[1] >= row[1]


class Drafting:
    def __init__(self, model, guide, prompt, ends, options):
        self.model, self.guide, self.options = model, guide, options
        self.text, self.ends, self.size = list(prompt), frozenset(ends), options.block_length
        self.limit = len(prompt) + options.gen_length
        self.kept, self.kept_by_guide = 0, 0  # blocks
        # Samples as a step does, and knows what was too close to call.
        self.judge = Decoder(Network(model), [], ends, options)
        self.judge.values = {}
        self.passes, self.close, self.met = self.judge.passes, None, Counter()

    def run(self):
        prompt, done = len(self.text), False
        while not done:
            done = self.round()
        self.met["stopped by an end"] += self.text[-1] in self.ends
        return Decode(self.text[prompt:], self.limit, self.passes, self.close, self.met)

    def too_close(self, at):
        self.close = at if self.close is None else self.close

    def draft(self, end):
        """{position: (token, step)} of the masks up to `end`."""
        options = replace(self.options, gen_length=end - len(self.text))
        steps = Decoder(Network(self.guide), self.text, (), options)
        steps.run()
        drafts, count = {}, 0
        for index, each in enumerate(steps.passes):
            if each.kind == "denoise":
                drafts |= {position: (token, count) for position, token in each.committed}
                count += 1
                self.met["several in a step"] += len(each.committed) > 1
            if each.kind == "denoise" or not self.kept_by_guide:
                rows = each.rows if count != 1 or not self.kept_by_guide else range(self.kept_by_guide * self.size, end)
                self.passes.append(Pass("draft", list(rows)))
            if steps.close == index:
                self.too_close(len(self.passes) - 1)
        self.kept_by_guide = end // self.size - 1
        return drafts

    def prefill(self, blocks):
        together = max(1, ROWS_TOGETHER // self.size)
        while blocks - self.kept > together:
            self.passes.append(Pass("prefill", list(range(self.kept * self.size, (self.kept + together) * self.size))))
            self.kept += together
            self.met["prefill in parts"] += 1

    def verify(self, block, drafts):
        """{position: logits} of the masks."""
        rows = list(range(self.kept * self.size, len(self.text)))
        # Reading: of a step, first the drafts that the step before has written, then the masks.
        for now in range(max(step for _, step in drafts.values()) + 1):
            rows += [p for wanted in (now - 1, now) for p in sorted(drafts) if drafts[p][1] == wanted]
        self.passes.append(Pass("verify", rows))
        self.kept = block
        kinds = [("text", position) for position in range(len(self.text))]
        kinds += [("draft", step) for _, step in drafts.values()] + [("mask", step) for _, step in drafts.values()]
        tokens = self.text + [token for token, _ in drafts.values()] + [self.model.shape.mask_id] * len(drafts)
        positions = [*range(len(self.text)), *drafts, *drafts]
        visible = np.array([[sees(row, cell, self.size) for cell in kinds] for row in kinds])
        logits = self.model._forward(np.array(tokens), np.array(positions),
                                     lambda layer, q, k, v: attention(q, k, v, visible))
        return dict(zip(drafts, logits[-len(drafts):]))

    def round(self):
        """One draft and its judgement; True: the answer ends."""
        block = len(self.text) // self.size
        drafts = self.draft((block + 1) * self.size)
        self.met["known tokens"] += len(self.text) > block * self.size
        self.prefill(block)
        logits, judge, written = self.verify(block, drafts), self.judge, self.passes[-1].committed
        for position in sorted(drafts):
            if position == self.limit:
                return True
            token, step = drafts[position]
            own = judge.candidate(logits[position], block, step, position).token
            judge.see_best(judge.values[position], judge.scaled_gap)
            if judge.close is not None:
                self.too_close(judge.close)
            self.text.append(own)
            written.append((position, own))
            self.met["accepted"] += own == token
            if own in self.ends:
                return True
            if own != token:
                self.met["refused"] += 1
                self.met["a drafted end was refused"] += token in self.ends
                break
        else:
            self.met["all accepted"] += 1
        return len(self.text) == self.limit


def decode(model, guide, prompt, ends, options):
    return Drafting(model, guide, prompt, ends, options).run()
