"""ReFusion at temperature 0, written from docs/methods/refusion.md alone.

`decode` runs one request and leaves a `Pass` per forward pass: its kind, the positions of its rows in feed order and
what it committed. Nothing here is clever: a `Cell` is a token with the keys and values it was computed with, a row of
a pass names the cells that it sees, and cells are never overwritten. Where the page leaves a choice, a comment that
begins with "Reading:" says which one is taken.
"""
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import models
from models import softmax

MODES = ("released", "paper", "lacuna")


@dataclass
class Options:
    mode: str = "lacuna"
    gen_length: int = 32
    block_length: int = 32
    slot_size: int = 8
    slot_threshold: float = 0.5
    token_threshold: float = 0.5
    kv: str = "reuse"          # or recompute, or recompute-apart
    accept: str = "threshold"  # or exact; lacuna alone
    fill: str = "verified"     # or side-by-side; lacuna alone
    revoke: float = 0.0        # lacuna alone


class Cell:
    """A token at a position. `keys` and `values` hold one entry per layer once the cell was fed."""

    def __init__(self, token, position):
        self.token, self.position, self.fed = int(token), int(position), False
        self.keys, self.values = {}, {}


@dataclass
class Row:
    """A row of a pass: writes the K/V of `cell`, then attends to the cells of `sees` and to its own."""
    cell: Cell
    sees: list


class Slot:
    """Consecutive positions and, while they are worked on, their tokens."""

    def __init__(self, begin, length):
        self.begin, self.length = begin, length
        self.tokens = [None] * length
        self.chance = [None] * length  # the probability that each token was accepted with
        self.kept = []                 # the cells of leading offsets whose K/V stay
        self.known = 0                 # offsets that are decided: the page's tag, or its known tokens
        self.done = False
        self.filled = False            # lacuna, verified: has been through fill passes after another slot
        self.count = None              # tokens to commit once it is done


@dataclass
class Pass:
    kind: str                  # plan, verify, predict, check, fill, recompute
    rows: list                 # positions in feed order
    pending: int = 0              # how many of them were pending, the prompt not counted
    committed: list = field(default_factory=list)  # (position, token, probability), ascending


@dataclass
class Decode:
    tokens: list               # the answer
    passes: list
    close: int | None          # the first pass in which a decision was too close to call, None: none was
    met: Counter               # how often each rare path was taken


class Network:
    """A causal model of models.py as `logits(rows)`, where each row names what it sees."""

    def __init__(self, model):
        self.model, self.mask_id = model, model.shape.mask_id

    def logits(self, rows):
        def attend(layer, q, k, v):
            for row, key, value in zip(rows, k, v):
                row.cell.keys[layer], row.cell.values[layer] = key, value
            out = []
            for place, row in enumerate(rows):
                cells = [*row.sees, row.cell]
                out.append(models.attention(q[place:place + 1], np.stack([cell.keys[layer] for cell in cells]),
                                            np.stack([cell.values[layer] for cell in cells])))
            return np.concatenate(out)

        tokens, positions = [row.cell.token for row in rows], [row.cell.position for row in rows]
        return self.model._forward(np.array(tokens), np.array(positions), attend)


class Decoder:
    LOGIT_GAP, PROBABILITY_GAP = 1e-3, 1e-4  # closer than this is too close to call

    def __init__(self, network, prompt, ends, options):
        self.network, self.ends, self.options = network, frozenset(ends), options
        self.verified = options.mode == "lacuna" and options.fill == "verified"
        assert not (self.verified and options.kv != "reuse"), "K/V are exact already"
        self.prompt = len(prompt)
        self.limit = self.prompt + options.gen_length
        self.over = False      # released: no further block is begun
        self.owes = False      # a pass for pending rows alone
        # Cell c of the store is clean[c]. One that was not fed is pending; so is the prompt before the first plan.
        self.clean = [Cell(token, position) for position, token in enumerate(prompt)]
        self.answer = {}       # position: token
        self.masked = []       # M
        self.passes, self.close, self.met = [], None, Counter()

    def run(self):
        options, begin, end = self.options, self.prompt, self.prompt + self.options.gen_length
        while begin < min(end, self.limit) and not self.over:
            high = min(begin + options.block_length, end)
            self.masked = [Slot(low, min(options.slot_size, high - low))
                           for low in range(begin, high, options.slot_size)]
            self.met["ragged slot"] += any(slot.length < options.slot_size for slot in self.masked)
            while self.masked:
                chosen = self.plan()
                if options.mode == "lacuna":
                    self.lacuna(chosen)
                else:
                    self.published(chosen)
            begin = high
        tokens = [self.answer[position] for position in sorted(self.answer) if position < self.limit]
        return Decode(tokens, self.passes, self.close, self.met)

    # Passes

    def feed(self, kind, rows):
        """One pass. Pending rows come first and see the cells before their own; returns the logits of `rows`."""
        if self.owes:
            self.owes = False
            self.feed("recompute", [])
        pending = [Row(cell, self.clean[:place]) for place, cell in enumerate(self.clean) if not cell.fed]
        everything = pending + rows
        logits = self.network.logits(everything)
        for row in everything:
            row.cell.fed = True
        debts = sum(row.cell.position >= self.prompt for row in pending)
        self.met["pending row"] += debts
        self.passes.append(Pass(kind, [row.cell.position for row in everything], debts))
        return logits[len(pending):]

    def sequence(self, kind, parts):
        """One pass over (slot, tokens of offsets 0..) parts; each row sees the clean cells and all rows before it.

        Returns [(cells, logits)] per part.
        """
        rows, fed = [], []
        for slot, tokens in parts:
            for offset, token in enumerate(tokens):
                cell = Cell(token, slot.begin + offset)
                rows.append(Row(cell, self.clean + fed))
                fed.append(cell)
        return self.split(rows, self.feed(kind, rows), [len(tokens) for _, tokens in parts])

    def apart(self, kind, parts):
        """One pass over (slot, tokens) parts that continue after the slot's kept cells; slots do not see each other."""
        rows = []
        for slot, tokens in parts:
            fed = []
            for token in tokens:
                cell = Cell(token, slot.begin + len(slot.kept) + len(fed))
                rows.append(Row(cell, self.clean + slot.kept + fed))
                fed.append(cell)
        return self.split(rows, self.feed(kind, rows), [len(tokens) for _, tokens in parts])

    @staticmethod
    def split(rows, logits, lengths):
        out, at = [], 0
        for length in lengths:
            out.append(([row.cell for row in rows[at:at + length]], logits[at:at + length]))
            at += length
        return out

    # Decisions

    def see(self, gap, tolerance):
        if gap < tolerance and self.close is None:
            self.close = len(self.passes) - 1

    def above(self, probability, threshold):
        self.see(abs(probability - threshold), self.PROBABILITY_GAP)
        return probability > threshold

    def scores(self, row):
        """Scores from which a token is picked.

        Reading: "the mask token is never drawn" is said of lacuna's plan; the tokens that replace drafts are picked
        without it too.
        """
        row = np.array(row, dtype=np.float64)
        if self.options.mode == "lacuna":
            row[self.network.mask_id] = -np.inf
        return row

    def pick(self, row, matters=True):
        scores = self.scores(row)
        if matters:
            two = np.partition(scores, -2)[-2:]
            self.see(two[1] - two[0], self.LOGIT_GAP)
        return int(np.argmax(scores))

    @staticmethod
    def chance(row, token):
        return float(softmax(row)[token])

    def is_end(self, token):
        return token in self.ends

    # Steps that the modes share

    def plan(self):
        """The selected slots with their drafts, and chance[0] = p[s][0]."""
        mask = self.network.mask_id
        logits = [out for _, out in self.sequence("plan", [(slot, [mask] * slot.length) for slot in self.masked])]
        first = []
        for slot, rows in zip(self.masked, logits):
            slot.tokens = [self.pick(row, matters=False) for row in rows]
            slot.chance = [self.chance(rows[0], slot.tokens[0])] + [None] * (slot.length - 1)
            slot.kept, slot.known, slot.done, slot.filled, slot.count = [], 0, False, False, None
            first.append(slot.chance[0])
        chosen = [place for place, p in enumerate(first) if self.above(p, self.options.slot_threshold)]
        if not chosen:
            best = max(range(len(first)), key=lambda place: (first[place], -place))
            for place, p in enumerate(first):
                if place != best:
                    self.see(first[best] - p, self.PROBABILITY_GAP)
            chosen = [best]
            self.met["fallback slot"] += 1
        for place in chosen:
            for row in logits[place]:
                self.pick(row)  # of selected slots every draft matters
        return [self.masked[place] for place in chosen]

    def commit(self, slot, count, cells, completed):
        """The first `count` tokens of a slot become clean. cells: those of leading offsets that hold right K/V."""
        if completed and self.options.kv != "reuse":
            cells = []
            self.owes = self.options.kv == "recompute-apart"
        for offset in range(count):
            token, position = slot.tokens[offset], slot.begin + offset
            self.clean.append(cells[offset] if offset < len(cells) else Cell(token, position))
            assert self.clean[-1].token == token and self.clean[-1].position == position
            self.answer[position] = token
            self.passes[-1].committed.append((position, token, slot.chance[offset]))
            if self.options.mode != "released" and self.is_end(token):
                self.limit = min(self.limit, position + 1)

    def leave(self, gone):
        """Slots leave M, and with them what the limit cuts off.

        Reading: committed tokens from the limit on stay clean; later passes see them.
        """
        self.masked = [slot for slot in self.masked if slot not in gone and slot.begin < self.limit]

    # released and paper

    def published(self, chosen):
        threshold, released = self.options.token_threshold, self.options.mode == "released"
        before = list(self.masked)  # Reading: the M of "index c of M" is that of the iteration's begin
        out = self.sequence("verify", [(slot, slot.tokens) for slot in chosen])
        for slot, (_, logits) in zip(chosen, out):
            for offset in range(1, slot.length):
                slot.chance[offset] = self.chance(logits[offset - 1], slot.tokens[offset])

        def ok(slot, offset):
            return (offset == 0 and released) or self.above(slot.chance[offset], threshold)

        def leading(slot):
            return next((offset for offset in range(slot.length) if not ok(slot, offset)), slot.length)

        runs = []  # of each slot until the first that is not whole
        for slot in chosen:
            runs.append(leading(slot))
            if runs[-1] < slot.length:
                break
        for e, (slot, run) in enumerate(zip(chosen, runs)):
            ended = [offset for offset in range(run) if self.is_end(slot.tokens[offset])]
            if ended:
                self.met["end in verify"] += 1
                for earlier, (cells, _) in zip(chosen[:e], out):
                    self.commit(earlier, earlier.length, cells, completed=False)
                self.commit(slot, ended[0] + 1, out[e][0], completed=False)
                self.over = True
                self.leave(chosen[:e] + before[before.index(slot):])
                return
        whole = [slot for slot, run in zip(chosen, runs) if run == slot.length]
        if whole:
            for slot, (cells, _) in zip(whole, out):
                self.commit(slot, slot.length, cells, completed=False)
            self.leave(whole)
            return
        self.met["completion"] += 1
        if released:
            for slot in chosen:
                slot.known = leading(slot)
            self.complete_released(chosen, before)
        else:
            self.complete_paper(chosen)

    def predict(self, slots, upto):
        """Masks from `known` on get the best token of their own rows. upto(slot): the kept offsets."""
        for slot in slots:
            slot.kept = slot.kept[:upto(slot)]
        mask = self.network.mask_id
        parts = [(slot, [slot.tokens[offset] if offset < slot.known else mask
                         for offset in range(len(slot.kept), slot.length)]) for slot in slots]
        for slot, (_, logits) in zip(slots, self.apart("predict", parts)):
            for offset in range(slot.known, slot.length):
                row = logits[offset - len(slot.kept)]
                slot.tokens[offset] = self.pick(row)
                slot.chance[offset] = self.chance(row, slot.tokens[offset])

    def check(self, slots, first_free):
        """Feeds the slots' tokens and grows `known`; afterwards `kept` holds the cells of all offsets."""
        parts = [(slot, slot.tokens[len(slot.kept):]) for slot in slots]
        for slot, (cells, logits) in zip(slots, self.apart("check", parts)):
            base = len(slot.kept)
            if first_free and slot.known < slot.length:
                slot.known += 1
            while slot.known < slot.length:
                if slot.known > 0:
                    # A token that is refused here gets another probability in the next predict.
                    slot.chance[slot.known] = self.chance(logits[slot.known - 1 - base], slot.tokens[slot.known])
                if not self.above(slot.chance[slot.known], self.options.token_threshold):
                    break
                slot.known += 1
            slot.kept = slot.kept + cells

    def complete_released(self, chosen, before):
        slots, a, c = list(chosen), 0, None
        while any(slot.known < slot.length for slot in slots):
            # Reading: a finished ragged slot holds `a` back at its length less 1, as "the smallest tag less 1" says.
            self.predict(slots, upto=lambda slot: min(a, slot.length))
            self.check(slots, first_free=True)
            for place, slot in enumerate(slots):
                # Reading: offsets `a..tag` are the accepted ones from `a` on, tag itself not among them.
                if any(self.is_end(token) for token in slot.tokens[a:slot.known]):
                    c = place
                    slot.known = slot.length
                    slots = slots[:place + 1]
                    break
            smallest = min(slot.known for slot in slots)
            a = smallest - 1
        for slot in slots:
            ended = [offset for offset in range(slot.length) if self.is_end(slot.tokens[offset])]
            count = ended[0] + 1 if ended else slot.length
            self.commit(slot, count, slot.kept, completed=True)
            if ended:
                break
        gone = list(chosen)
        if c is not None:
            self.met["end in completion"] += 1
            self.met["end behind the first"] += c > 0
            lost = [slot for slot in before[c:] if slot not in chosen and slot.begin < slots[-1].begin]
            self.met["released index error"] += bool(lost)
            gone += before[c:]
            self.over = True
        self.leave(gone)

    def complete_paper(self, chosen):
        slots, working, rounds = list(chosen), list(chosen), 0
        while working:
            if rounds:
                self.predict(working, upto=lambda slot: slot.known)
            self.check(working, first_free=rounds > 0)
            rounds += 1
            for slot in working:
                slot.count = slot.known
                ended = [offset for offset in range(slot.known) if self.is_end(slot.tokens[offset])]
                if ended:
                    slot.known = slot.count = ended[0] + 1
                    slot.done = True
                    slots = slots[:slots.index(slot) + 1]
                    self.met["end in completion"] += 1
                    break
                slot.done = slot.known == slot.length
            for slot in slots:
                slot.kept = slot.kept[:slot.known]
            working = [slot for slot in working if slot in slots and not slot.done]
        for slot in slots:
            self.commit(slot, slot.count, slot.kept, completed=True)
        self.leave(chosen)

    # lacuna

    def end_of(self, slot):
        """After the first end token among the current tokens, or the length."""
        return next((offset + 1 for offset, token in enumerate(slot.tokens) if self.is_end(token)), slot.length)

    def judge(self, slot, offset, row):
        """Does the token at `offset` stand before the row on its left? If not, that row's token takes its place."""
        draft = slot.tokens[offset]
        chance = self.chance(row, draft)
        if self.options.accept == "exact":
            stands = self.pick(row) == draft
        else:
            stands = self.above(chance, self.options.token_threshold)
        if not stands:
            # Reading: a replacement that is the draft again still ends the run, and its K/V are not kept.
            slot.tokens[offset] = self.pick(row)
            chance = self.chance(row, slot.tokens[offset])
        slot.chance[offset] = chance
        return stands

    def kept_part(self, slot, end):
        """Tokens that --revoke leaves of a slot that is done."""
        if self.options.revoke > 0:
            for offset in range(1, end):
                self.see(abs(slot.chance[offset] - self.options.revoke), self.PROBABILITY_GAP)
                if slot.chance[offset] < self.options.revoke:
                    self.met["revocation"] += 1
                    return offset
        return end

    def settle(self, group):
        """Slots that are done are cut by --revoke, then ended; returns the group without what an end drops.

        Reading: verified cuts a slot when it is committed. One that is done with an end token before that drops the
        slots after it also where the commit is going to cut the end token off; they stay masked.
        """
        for place, slot in enumerate(group):
            end = self.end_of(slot)
            if slot.done or slot.known < end:
                continue
            slot.done, slot.count = True, end if self.verified else self.kept_part(slot, end)
            if slot.count == end and self.is_end(slot.tokens[end - 1]):
                self.met["end in completion"] += 1
                return group[:place + 1]
        return group

    def lacuna(self, chosen):
        for place, slot in enumerate(chosen):
            if any(self.is_end(token) for token in slot.tokens):
                chosen = chosen[:place + 1]
                break
        written, rest, group = [], [], chosen
        while group:
            group, done = self.verify(group, rest)
            written += done
            if not group:
                break
            self.met["completion"] += 1
            group = self.fill(group)
            if self.verified:
                first, group = group[0], group[1:]
                first.count = self.kept_part(first, first.count)
                self.commit(first, first.count, first.kept, completed=True)
                if first.count < self.end_of(first):
                    rest.append(self.remainder(first, first.count))
                written.append(first)
                self.met["verified again"] += bool(group)
                for slot in group:
                    # Reading: chance[0] stays that of the plan's draft, which no later pass judges.
                    slot.known, slot.kept, slot.done, slot.filled, slot.count = 1, [], False, True, None
            else:
                moved = False
                for slot in group:
                    # Reading: all of them were committed by completion, also the slot that verify finished.
                    # Reading: those after a slot that was cut move when they are committed, so that all of their
                    # tokens are pending, whichever of them was done first.
                    self.commit(slot, slot.count, [] if moved else slot.kept, completed=True)
                    if slot.count < self.end_of(slot):
                        moved = True
                        rest.append(self.remainder(slot, slot.count))
                written, group = written + group, []
        # Slots that were dropped by an end stay masked, unless they are beyond the limit.
        self.masked = sorted(self.masked + rest, key=lambda slot: slot.begin)
        self.leave(written)

    def verify(self, group, rest):
        """Reads the slots in order and commits those before the first draft that does not stand.

        Returns the slots that continue, the one of that draft first, and the committed ones; what --revoke cuts off of
        these is added to `rest`.
        """
        ends = [self.end_of(slot) for slot in group]
        out = self.sequence("verify", [(slot, slot.tokens[:end]) for slot, end in zip(group, ends)])
        # The run, up to the first draft that does not stand.
        stopped = None
        for place, (slot, end, (cells, logits)) in enumerate(zip(group, ends, out)):
            for offset in range(1, end):
                if not self.judge(slot, offset, logits[offset - 1]):
                    stopped = (place, offset)
                    break
            if stopped:
                break
        place, offset = stopped or (len(group), 0)
        moved = False
        for slot, end, (cells, _) in list(zip(group, ends, out))[:place]:
            count = self.kept_part(slot, end)
            self.commit(slot, count, [] if moved else cells, completed=False)
            moved = moved or count < end
            if count < end:
                rest.append(self.remainder(slot, count))
            elif self.is_end(slot.tokens[count - 1]):
                self.met["end in verify"] += 1
        if stopped:
            self.met["refused again"] += group[place].filled
            group[place].known, group[place].kept = offset + 1, [] if moved else out[place][0][:offset]
            for slot in group[place + 1:]:
                # Reading: one whose end is 1 is done without a fill pass; nothing of it is kept, so it is pending.
                slot.known, slot.kept = 1, []
        return group[place:], group[:place]

    @staticmethod
    def remainder(slot, count):
        """The part that was cut off: a masked slot up to the length of the whole one, positions after an end token included."""
        return Slot(slot.begin + count, slot.length - count)

    def fill(self, group):
        group = self.settle(group)
        while working := [slot for place, slot in enumerate(group)
                          if not slot.done and (place == 0 or not slot.filled)]:
            ends = [self.end_of(slot) for slot in working]
            parts = [(slot, slot.tokens[len(slot.kept):end]) for slot, end in zip(working, ends)]
            for slot, end, (cells, logits) in zip(working, ends, self.apart("fill", parts)):
                base, upto = len(slot.kept), end
                for offset in range(slot.known, end):
                    if not self.judge(slot, offset, logits[offset - 1 - base]):
                        upto = offset
                        break
                slot.kept = (slot.kept + cells)[:upto]
                slot.known = min(upto + 1, end)
            group = self.settle(group)
        return group


def decode(network, prompt, ends, options):
    """Runs a request. `network` has mask_id and logits(rows); `ends` are the ids of E."""
    return Decoder(network, prompt, ends, options).run()
