"""Levenshtein decoding of LLaDA2.2 at temperature 0: blocks that tokens are deleted from and inserted into.

Written from the technical report and the published decoders, never from src/. Where these differ, a comment that begins
with "Reading:" says which way is taken. `decode` runs one request and leaves a `Pass` per forward pass with the canvas
after it.

A step computes the block once and takes the most likely token x and its probability p for each row, prompt excepted:

    M2T   masked positions with p > tau, at least the step's quota; they take x
    T2T   other positions with x != token and p > tau_edit; they take x
    scan  from left to right: DELETE goes, SPLIT becomes a mask and the token that the forward pass saw there; what then
          exceeds the block is dropped, what lacks is masked

until nothing changes and nothing is masked, or `most` steps after the last original mask. A mask that the scan makes is
not an original one.

`infill` fills holes in a text: one block holds the text from the first hole on and, after it, end tokens that stay. Edits
change the length of the hole that they are in, up to its limit; a hole that begins with its limit keeps its length. The rule is this
project's own (docs/methods/block_diffusion.md, section 7).
"""
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

import blocks
from blocks import ROWS_TOGETHER, View
from models import softmax

CAP = 1000                     # steps of a block
TRIES = 5                      # of an escape
ROUTER_GAP = 5e-6              # an expert chosen by less than this may be another one in float32


@dataclass
class Options:
    gen_length: int = 32
    block_length: int = 32     # a multiple of the routing window
    steps: int | None = None   # S; None: as many as positions in a block
    tau: float = 0.5           # of M2T
    tau_edit: float = 0.0      # of T2T
    most: int = 16             # steps after the last original mask


@dataclass
class Pass:
    kind: str                  # prefill, denoise, commit
    rows: list                 # positions in feed order
    canvas: list               # all tokens after the pass


@dataclass
class Decode:
    tokens: list               # the answer
    limit: int                 # where the positions to generate end
    passes: list
    close: int | None          # the first pass in which a decision was too close to call, None: none was
    met: Counter               # how often each rare path was taken


@dataclass(frozen=True)
class Cell:
    """A position of the current block."""
    token: int
    masked: bool = False       # apart from the token: a prompt may contain the mask token
    original: bool = False     # masked when the block began
    hole: int | None = 0       # which hole of an infill; None: no hole, the position stays


class Network(blocks.Network):
    """A model of models.py; `router_gap` is that of the last pass."""

    router_gap = np.inf

    def compute(self, canvas, views):
        self.model.router_gap = np.inf
        logits = super().compute(canvas, views)
        self.router_gap = self.model.router_gap
        return logits


def scan(cells, written, delete, split, mask):
    """The cells after a step that wrote {index: token}, of any length, and how many were deleted and inserted."""
    out, deleted, inserted = [], 0, 0
    for index, cell in enumerate(cells):
        token = written.get(index)
        if token is None:
            out.append(cell)
        elif token == delete:
            deleted += 1
        elif token == split:
            out += [Cell(mask, masked=True, hole=cell.hole), cell]
            inserted += 1
        else:
            out.append(replace(cell, token=token, masked=False))
    return out, deleted, inserted


def quota(originals, steps, step, new):
    """Masked positions that a step writes at least: its part of the original ones, and all that edits have made."""
    return originals // steps + (step < originals % steps) + new


def confident(probability, tau, need, see=lambda a, b: None):
    """Indices of {index: p} that M2T writes. see(a, b): the order of a and b mattered."""
    for p in probability.values():
        see(p, tau)
    above = [index for index, p in probability.items() if p > tau]
    if len(above) >= need:
        return sorted(above)
    order = sorted(probability, key=lambda index: (-probability[index], index))
    if need < len(order):
        see(probability[order[need - 1]], probability[order[need]])
    return sorted(order[:need])


class Decoder:
    LOGIT_GAP = 3e-4
    PROBABILITY_GAP = 1e-4     # relative

    def __init__(self, network, prompt, ends, edits, options):
        self.network, self.ends, self.options = network, frozenset(ends), options
        self.delete, self.split = edits
        self.size, self.steps = options.block_length, options.steps or options.block_length
        assert self.steps >= 1 and options.gen_length > 0
        self.never = ()        # further tokens that are not chosen
        self.prompt, self.limit = len(prompt), len(prompt) + options.gen_length
        self.first, self.blocks = self.prompt // self.size, (self.limit - 1) // self.size + 1
        length = self.blocks * self.size
        self.canvas = list(prompt) + [network.mask_id] * (length - self.prompt)
        self.passes, self.close, self.met = [], None, Counter()
        network.start(length)

    def run(self):
        end = None
        self.prefill()
        for block in range(self.first, self.blocks):
            self.denoise(block)
            end = self.end_of_answer(block)
            if end is not None:
                self.met["ended by a token"] += 1
                break
            if block + 1 < self.blocks:
                self.feed("commit", [self.whole(block)])
                self.met["next block"] += 1
        return Decode(self.canvas[self.prompt:self.limit if end is None else end + 1], self.limit, self.passes,
                      self.close, self.met)

    def end_of_answer(self, block):
        """Position of the first end token of a finished block, prompt excepted, or None."""
        begin, end = block * self.size, min((block + 1) * self.size, self.limit)
        for position in range(max(begin, self.prompt), end):
            if self.canvas[position] in self.ends:
                return position
        return None

    # Passes

    def whole(self, block):
        begin, end = block * self.size, (block + 1) * self.size
        return View(begin, end, range(begin, end))

    def feed(self, kind, views):
        """One pass; returns the logits of its rows."""
        rows = [int(position) for view in views for position in view.rows]
        self.passes.append(Pass(kind, rows, list(self.canvas)))
        logits = self.network.compute(self.canvas, views)
        self.see(self.network.router_gap, ROUTER_GAP)
        return np.asarray(logits, dtype=np.float64)

    def prefill(self):
        views, together = [self.whole(block) for block in range(self.first)], max(1, ROWS_TOGETHER // self.size)
        for at in range(0, len(views), together):
            self.feed("prefill", views[at:at + together])

    # Decisions

    def see(self, gap, tolerance):
        if gap < tolerance and self.close is None:
            self.close = len(self.passes) - 1

    def see_order(self, a, b):
        self.see(abs(a - b) / max(abs(a), abs(b), 1e-3), self.PROBABILITY_GAP)

    def without(self, row, tokens=()):
        """Logits that a token may be chosen from: the mask never is."""
        row = np.array(row)
        row[[self.network.mask_id, *self.never, *tokens]] = -np.inf
        return row

    def best(self, row, tokens=()):
        """The most likely token but for the mask and `tokens`."""
        row = self.without(row, tokens)
        two = np.partition(row, -2)[-2:]
        self.see(two[1] - two[0], self.LOGIT_GAP)
        return int(np.argmax(row))

    # Steps

    def denoise(self, block):
        """All steps of a block."""
        begin, end = block * self.size, (block + 1) * self.size
        cells = self.cells(begin, end)
        originals, post, seen = sum(cell.original for cell in cells), 0, set()
        for step in range(CAP):
            self.now = step
            masked = [index for index, cell in enumerate(cells) if cell.masked]
            left = sum(cell.masked and cell.original for cell in cells)
            post = 0 if left else post + 1
            if not masked and post > self.options.most:
                self.met["finished by most"] += 1
                return
            logits = self.feed("denoise", [self.whole(block)])
            need = quota(originals, self.steps, step, len(masked) - left) if step < self.steps else None
            written = self.step(cells, logits, need, post, seen)
            self.keep_short(cells, written, logits)
            after, deleted, inserted = scan(cells, written, self.delete, self.split, self.network.mask_id)
            self.met["deletes"] += deleted
            self.met["splits"] += inserted
            self.met["dropped last tokens"] += max(0, len(after) - self.size)
            self.met["padded blocks"] += len(after) < self.size
            after = after[:self.size] + [self.padding] * (self.size - len(after))
            same = [cell.token for cell in after] == [cell.token for cell in cells]
            cells = after
            self.canvas[begin:end] = [cell.token for cell in cells]
            self.passes[-1].canvas = list(self.canvas)
            self.last = cells
            if same and not any(cell.masked for cell in cells):
                self.met["finished by stability"] += 1
                return
        # Reading: a block is finished after CAP steps whatever it holds, masks too.
        self.met["capped"] += 1

    padding = property(lambda self: Cell(self.network.mask_id, masked=True))

    def cells(self, begin, end):
        """Those of a block before its first step."""
        fixed = max(0, self.prompt - begin)
        return [Cell(token, index >= fixed, index >= fixed, 0 if index >= fixed else None)
                for index, token in enumerate(self.canvas[begin:end])]

    def keep_short(self, cells, written, logits):
        """Replaces edits that the holes of an infill have no room for."""

    def has_to_end(self):
        """Whether this step has to leave no masks."""
        return False

    def step(self, cells, logits, need, post, seen):
        """{index: token} that a step writes, before the scan; `seen` are the states of earlier steps.

        need: M2T's quota, None: all masked positions. post: steps without an original mask, this one included.
        """
        most, tau_edit = self.options.most, self.options.tau_edit
        masked = [index for index, cell in enumerate(cells) if cell.masked]
        free = [index for index, cell in enumerate(cells) if cell.hole is not None]
        tokens = {index: int(np.argmax(self.without(logits[index]))) for index in free}
        # Reading: the mask token counts in the softmax.
        p = {index: float(softmax(logits[index])[token]) for index, token in tokens.items()}

        m2t = masked
        if need is not None:
            m2t = confident({index: p[index] for index in masked}, self.options.tau, need, self.see_order)
            self.met["steps filled up to the quota"] += bool(masked) and len(m2t) < len(masked) and len(m2t) == need
            self.met["steps that fill nothing"] += bool(masked) and not m2t
        t2t = []
        for index in free:
            if cells[index].masked:
                continue
            if tokens[index] != cells[index].token:
                self.see_order(p[index], tau_edit)
            if p[index] > tau_edit * (1 - self.PROBABILITY_GAP):
                self.best(logits[index])  # for a tie of the current token with another one
            if tokens[index] != cells[index].token and p[index] > tau_edit:
                t2t.append(index)
        self.met["edits next to masks"] += bool(masked and t2t)

        covered = any(cells[index].original for index in masked) and all(
            index in m2t for index in masked if cells[index].original)
        last = self.has_to_end() or (post >= most if most else covered)
        if last:
            m2t = masked
        written = {index: tokens[index] for index in [*m2t, *t2t]}
        for index in m2t:
            self.best(logits[index])
        if last:
            edits = [index for index, token in written.items() if token in (self.delete, self.split)]
            for index in edits:
                written[index] = self.best(logits[index], (self.delete, self.split))
            self.met["last steps with replaced edits"] += bool(edits)
        else:
            self.escape(cells, written, logits, p, seen)
        seen.add(self.state(cells, written))
        return written

    def state(self, cells, written):
        """Tokens after a step and before its scan."""
        return tuple(written.get(index, cell.token) for index, cell in enumerate(cells))

    def escape(self, cells, written, logits, p, seen):
        """Changes `written` where it would lead to a state that an earlier step led to."""
        # Reading: which position is random in the report; here it is the least confident one not tried in this step.
        order = sorted(written, key=lambda index: (p[index], index))
        if not written or self.state(cells, written) not in seen:
            return
        self.met["escapes"] += 1
        untried = list(order)
        for _ in range(TRIES):
            if not untried or self.state(cells, written) not in seen:
                break
            if len(untried) > 1:
                self.see_order(p[untried[0]], p[untried[1]])
            index = untried.pop(0)
            written[index] = self.best(logits[index], (written[index],))
            self.met["escapes back to the old token"] += written[index] == cells[index].token
            self.met["tries"] += 1
            self.met["second tries"] += index != order[0]
        self.met["escapes in vain"] += self.state(cells, written) in seen


def decode(network, prompt, ends, edits, options):
    """Runs a request. `edits`: ids of DELETE and SPLIT; `network` has mask_id, router_gap, start(cells) and
    compute(canvas, views)."""
    return Decoder(network, prompt, ends, edits, options).run()


class Infill(Decoder):
    """`text`: ids and, in holes, None; `holes`: (begin, end, most) in it. options.gen_length is not read."""

    def __init__(self, network, text, holes, ends, edits, options):
        self.holes, self.keeps = holes, [end - begin == most for begin, end, most in holes]
        first = holes[0][0]
        most = len(text) - first + sum(limit - (end - begin) for begin, end, limit in holes)
        size = options.block_length
        positions = network.model.config["max_position_embeddings"]
        while first % size + most > size or (first // size + 1) * size > positions:
            size += options.block_length
        super().__init__(network, text[:first], (), edits, replace(options, gen_length=most, block_length=size,
                                                                   steps=options.steps or size))
        self.never, self.filler, self.text = tuple(ends), Cell(ends[0], hole=None), text
        length = len(self.canvas)
        answer = [network.mask_id if token is None else token for token in text[first:]]
        self.canvas[first:] = (answer + [ends[0]] * length)[:length - first]

    padding = property(lambda self: self.filler)

    def cells(self, begin, end):
        def hole_of(position):
            return next((i for i, (first, last, _) in enumerate(self.holes) if first <= position < last), None)
        return [Cell(self.canvas[at], hole_of(at) is not None, hole_of(at) is not None, hole_of(at))
                for at in range(begin, end)]

    def has_to_end(self):
        return self.now + 1 == CAP

    def keep_short(self, cells, written, logits):
        sizes = Counter(cell.hole for cell in cells)
        room = [most - sizes[i] for i, (_, _, most) in enumerate(self.holes)]
        for index in sorted(written):
            hole, token = cells[index].hole, written[index]
            if token not in (self.delete, self.split):
                continue
            if self.keeps[hole] or (token == self.split and room[hole] == 0):
                written[index] = self.best(logits[index], (self.delete, self.split))
                self.met["edits without room"] += 1
            elif token == self.split:
                room[hole] -= 1

    def run(self):
        self.prefill()
        self.last = None
        self.denoise(self.first)
        cells = self.last or self.cells(self.first * self.size, (self.first + 1) * self.size)
        filled = [[cell.token for cell in cells if cell.hole == i] for i in range(len(self.holes))]
        self.met["emptied holes"] += sum(not tokens for tokens in filled)
        return filled, Decode(self.canvas[self.prompt:self.limit], self.limit, self.passes, self.close, self.met)


def infill(network, text, holes, ends, edits, options):
    """(the tokens of each hole, the Decode)"""
    return Infill(network, text, holes, ends, edits, options).run()
