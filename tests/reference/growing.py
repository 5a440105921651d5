"""Canvases that change their length, written from docs/methods/growing_canvases.md and the published samplers.

- dreamon_generate: DreamOn's expand and delete tokens, with several holes, from the model's own generator
  (Dream-org/DreamOn-v0-7B, generation_utils.py), and dreamon_one_hole, that generator itself for its one hole;
- daedal_generate: DAEDAL (arXiv 2508.00819; Li-Jinsong/DAEDAL, models/LLaDA_DAEDAL.py).

Both at temperature 0. A decode keeps its canvas after every pass, so that a comparison sees every edit. Where the
published code leaves a choice, a comment that begins with "Reading:" says which way is taken.
"""
import collections
from dataclasses import dataclass, field

import numpy as np

from models import SHIFTED_FAMILIES, softmax
from samplers import Margins, dream_confidence, filter_logits, ranked, shift_right


@dataclass
class Growth:
    """A finished run. `canvases` has the canvas after each pass, `holes` the [begin, end) of each hole in the last."""
    canvases: list = field(default_factory=list)
    kinds: list = field(default_factory=list)
    holes: list = field(default_factory=list)
    close: int | None = None  # the first pass in which the reference nearly tied
    met: collections.Counter = field(default_factory=collections.Counter)


@dataclass
class Hole:
    """`origin` marks its positions; the range follows from them."""
    most: int
    fixed: bool
    budget: int


def logits_of(model, canvas, cfg_scale=0.0, fixed=None):
    canvas = np.array(canvas)
    logits = model.logits(canvas)
    if cfg_scale > 0:
        blank = model.logits(np.where(fixed, model.shape.mask_id, canvas))
        logits = blank + (cfg_scale + 1) * (logits - blank)
    return shift_right(logits) if model.shape.family in SHIFTED_FAMILIES else logits


def note(run, margins, canvas, kind):
    if run.close is None and margins.ambiguous():
        run.close = len(run.canvases)
    run.canvases.append(list(canvas))
    run.kinds.append(kind)


def dreamon_one_hole(model, ids, most, tokens, forbidden=(), top_p=0.9, rule="entropy", drops_rest=False):
    """The published generator on `ids`, whose one run of masks may come to have `most` tokens.

    It works on a buffer of the longest text, in which edits push tokens to the right and pull them to the left; the
    network sees the window at its beginning alone. Returns the ids of the window at the end.
    """
    mask, expand, delete = tokens
    first, start = ids.index(mask), ids.count(mask)
    longest = most + len(ids) - start
    budget = 2 * (longest - first)
    buffer, window = list(ids) + [delete] * (longest - len(ids)), len(ids)
    while mask in buffer[:window]:
        logits = logits_of(model, buffer[:window])
        masked = [p for p in range(window) if buffer[p] == mask]
        rows = logits[masked]
        rows[:, list(forbidden)] = -np.inf
        if window == longest or budget == 0:
            rows[:, expand] = -np.inf
        sure = dream_confidence(rule, filter_logits(rows, top_p, None, Margins()))
        rows[:, mask] = -np.inf
        best = int(np.argmax(sure))
        at, token = masked[best], int(np.argmax(rows[best]))
        if token == delete:
            gone = [p for p in masked if p >= at] if drops_rest else [at]
            buffer = [t for p, t in enumerate(buffer) if p not in gone] + [mask] * len(gone)
            window -= len(gone)
        elif token == expand:
            buffer = (buffer[:at] + [mask, mask] + buffer[at + 1:])[:longest]
            window, budget = window + 1, budget - 1
        else:
            buffer[at] = token
    return buffer[:window]


def dreamon_generate(model, prompt, answer, holes, ids, forbidden=(), top_p=0.9, rule="entropy", drops_rest=False,
                     budget=None):
    """One position a step.

    answer: ids with the mask where something is to be filled in. holes: [(begin, end, most)] within it; most equal to
    the length fixes a hole. ids: (mask, expand, delete). forbidden: never sampled. budget: expansions of a hole; None:
    twice the positions that the longest hole and the text after it take. Everything is a list whose elements
    are (id, hole or None): a hole's range is never computed from positions.
    """
    mask, expand, delete = ids
    run = Growth()
    state = [Hole(most, most == end - begin, budget or 2 * (most + len(answer) - end)) for begin, end, most in holes]
    cells = [(token, None) for token in prompt]
    for index, token in enumerate(answer):
        inside = [n for n, (begin, end, _) in enumerate(holes) if begin <= index < end]
        cells.append((token, inside[0] if inside else None))

    def length(number):
        return sum(hole == number for _, hole in cells)

    while any(token == mask for token, _ in cells):
        margins = Margins()
        logits = logits_of(model, [token for token, _ in cells])
        confidence = np.full(len(cells), -np.inf)
        tokens = np.full(len(cells), -1)
        for position, (token, number) in enumerate(cells):
            if token != mask:
                continue
            row = np.array(logits[position])
            row[list(forbidden)] = -np.inf
            hole = None if number is None else state[number]
            if hole is None or hole.fixed:
                row[[expand, delete]] = -np.inf
                run.met["fixed"] += 1
            elif hole.budget == 0 or length(number) >= hole.most:
                row[expand] = -np.inf
                run.met["full" if length(number) >= hole.most else "out of budget"] += 1
            filtered = filter_logits(row[None], top_p, None, margins)
            confidence[position] = dream_confidence(rule, filtered)[0]
            # Reading: the mask token counts in the distribution but is never written.
            row[mask] = -np.inf
            tokens[position] = np.argmax(row)
        order = ranked(confidence, confidence > -np.inf)
        if len(order) > 1:
            margins.see_choice(confidence[order[0]], confidence[order[1]])
        at = order[0]
        row = np.array(logits[at])
        row[mask] = -np.inf
        margins.see_tokens(row[None])
        number = cells[at][1]
        if tokens[at] == expand:
            state[number].budget -= 1
            cells[at:at + 1] = [(mask, number), (mask, number)]
            run.met["expand"] += 1
        elif tokens[at] == delete and number is not None:
            gone = [at]
            if drops_rest:  # every mask of the same hole that is not before it
                gone = [p for p in range(at, len(cells)) if cells[p] == (mask, number)]
            run.met["delete"] += 1
            run.met["rest"] += len(gone) > 1
            cells = [cell for p, cell in enumerate(cells) if p not in gone]
            run.met["emptied"] += length(number) == 0
        else:
            cells[at] = (int(tokens[at]), number)
        note(run, margins, [token for token, _ in cells], "denoise")
    for number in range(len(holes)):
        inside = [p for p, (_, hole) in enumerate(cells) if hole == number]
        run.holes.append((inside[0], inside[-1] + 1) if inside else None)
    return run


@dataclass
class Daedal:
    start: int = 64
    by: int = 8
    tail: int = 32
    enough: float = 0.5
    plenty: float = 0.9
    unsure: float = 0.1
    most: int = 2048
    block: int = 32
    tau: float = 0.9
    cfg_scale: float = 0.0


def daedal_generate(model, prompt, end, options, most_passes=4096):
    """A whole answer. The published loops keep lengths and positions of a batch; this is one sequence."""
    o, mask, run = options, model.shape.mask_id, Growth()
    first = len(prompt)
    fixed = [token != mask for token in prompt]
    canvas = list(prompt) + [mask] * min(o.start, o.most)

    def measure(margins):
        given = np.array(fixed + [False] * (len(canvas) - len(fixed)))
        logits = logits_of(model, canvas, o.cfg_scale, given)
        probability = softmax(logits)
        free = np.array(logits)
        free[:, mask] = -np.inf  # Reading: the mask token counts in the softmax but is nobody's best token
        best = np.argmax(free, axis=-1)
        sure = probability[np.arange(len(canvas)), best]
        ends = [sure[p] for p in range(len(canvas) - 1, first - 1, -1) if best[p] == end][:o.tail]
        for row in free[first:]:
            two = np.partition(row, -2)[-2:]
            margins.token = min(margins.token, float(two[1] - two[0]))
        return best, sure, sum(ends) / o.tail

    while True:
        margins = Margins()
        _, _, mass = measure(margins)
        room = o.most - (len(canvas) - first)
        if room > 0:
            margins.see_choice(mass, o.enough)
        if room == 0 or mass >= o.enough:
            break
        canvas += [mask] * min(o.by, room)
        run.met["grow"] += 1
        note(run, margins, canvas, "grow")
    canvas += [end] * min(o.tail // 2, room)
    given_ends = len(canvas) - min(o.tail // 2, room)
    run.met["ends"] += len(canvas) > given_ends
    # Guidance hides what was given, the appended end tokens too.
    given = [token != mask for token in canvas]
    note(run, margins, canvas, "grow")

    def measure_given(margins):
        nonlocal fixed
        fixed = given
        return measure(margins)

    begin = first
    while begin < len(canvas) and len(run.canvases) < most_passes:
        while begin < len(canvas) and mask not in canvas[:begin + o.block]:
            begin = min(begin + o.block, len(canvas))
        if begin >= len(canvas):
            break
        margins = Margins()
        best, sure, mass = measure_given(margins)
        masked = [p for p in range(min(begin + o.block, len(canvas))) if canvas[p] == mask]
        order = sorted(masked, key=lambda p: -sure[p])
        chosen = [p for p in order if sure[p] >= o.tau] or order[:1]
        for p in masked:
            margins.see_choice(sure[p], o.tau)
        if len(chosen) == 1 and len(order) > 1:
            margins.see_choice(sure[order[0]], sure[order[1]])
        room = o.most - (len(canvas) - first)
        # Reading: what is cut at the most length is the number of new masks, not the canvas's end.
        spread = None
        if room > 0:
            margins.see_choice(mass, o.plenty)
            for p in masked:
                margins.see_choice(sure[p], o.unsure)
            left = [p for p in masked if p not in chosen and sure[p] < o.unsure and p >= first]
            if mass < o.plenty and left:
                left.sort(key=lambda p: sure[p])
                spread = left[0]
                if len(left) > 1:
                    margins.see_choice(sure[left[0]], sure[left[1]])
        for p in chosen:
            canvas[p] = int(best[p])
        if spread is not None:
            new = min(o.by - 1, room)
            canvas[spread:spread] = [mask] * new
            given[spread:spread] = [False] * new
            run.met["spread"] += 1
            run.met["cut"] += new < o.by - 1
        note(run, margins, canvas, "denoise")
    return run
