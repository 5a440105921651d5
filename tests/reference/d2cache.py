"""d2Cache (arXiv 2509.23094; Kamichanw/d2Cache, src/cache/d2cache.py) for LLaDA and Dream at temperature 0, written as a loop
over whole canvases from docs/methods/caches.md. The attention rollout is a product of matrices of all positions.
"""
import collections
from dataclasses import dataclass, field

import numpy as np

from models import SHIFTED_FAMILIES, Store, softmax
from samplers import dream_count, linspace_f32, quota_split


@dataclass
class Numbers:
    """The options of --cache d2cache, and --refresh."""
    current: int = 32
    rollout: float = 0.1
    sigma: float = 10.0
    inflate: int = 0
    refresh: int = 0


@dataclass
class Run:
    """canvases and rows: of each pass. close: the first pass with a decision that single precision may take otherwise."""
    canvases: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    close: int | None = None
    met: collections.Counter = field(default_factory=collections.Counter)

    def see(self, a, b, tolerance=1e-4):
        if a != b and abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-6) and self.close is None:
            self.close = len(self.canvases)

    def best(self, values, count):
        """Keys of the `count` largest values, ties to the lowest key."""
        order = sorted(values, key=lambda key: (-values[key], key))
        if 0 < count < len(order):
            self.see(values[order[count - 1]], values[order[count]])
        return order[:count]


class Network:
    """Keys and values of one sequence, and the rollout of its last pass."""

    def __init__(self, model, size):
        self.model, self.size, self.store = model, size, Store(model.shape, size)

    def logits(self, tokens, rows):
        self.product = np.eye(self.size)

        def attend(layer, q):
            keys = np.repeat(self.store.k[layer], q.shape[1] // self.store.k.shape[2], axis=1)
            weights = softmax(np.einsum("rhd,shd->rhs", q, keys) / np.sqrt(q.shape[2])).mean(axis=1)
            matrix = np.eye(self.size)
            matrix[rows] = weights
            matrix += np.eye(self.size)
            self.product = matrix / matrix.sum(axis=1, keepdims=True) @ self.product
            return list(range(self.size))

        out = np.full((self.size, self.model.shape.vocab), np.nan)
        out[rows] = self.model.rows(tokens[rows], rows, rows, self.store, seen=attend)
        return out


def density(known, position, sigma):
    """The share of known positions around one, by normal weights up to six sigma away."""
    total = found = 0.0
    reach = int(6 * sigma)
    for at in range(position - reach, position + reach + 1):
        weight = np.exp(-(at - position) ** 2 / (2 * sigma ** 2))
        total += weight
        found += weight * bool(at < 0 or known[min(at, len(known) - 1)])
    return found / total


def choose_rows(run, numbers, canvas, mask, shift, low, high, candidates, least, certainty, written, shares):
    """Rows of a pass that is not the first."""
    size, block = len(canvas), high - low
    end = high
    while end < size and np.sum(canvas[:end] == mask) < numbers.current:
        end = min(end + block, size)
    scores = {p: certainty[p] * density(canvas != mask, p, numbers.sigma)
              for p in range(end) if canvas[p] == mask}
    count = max(numbers.current, least)
    run.met["some candidates"] += count < len(candidates)
    taken = run.best({p: scores[p] for p in candidates}, count)
    others = run.best({p: score for p, score in scores.items() if p not in candidates}, count - len(taken))
    run.met["masks behind the block"] += len(others) > 0
    rows = {max(p - shift, 0) for p in taken + others} | set(written)
    rest = {p: shares[p] for p in range(size) if p not in rows}
    order = run.best(rest, len(rest))
    total = sum(rest.values())
    for place, row in enumerate(order):
        used = sum(rest[p] for p in order[:place + 1])
        if place > 0:
            run.see(used, numbers.rollout * total)
            if used > numbers.rollout * total:
                run.see(rest[order[place - 1]], rest[row])
                break
            run.met["several by rollout"] += 1
        rows.add(row)
    between = set()
    for a, b in zip(sorted(rows), sorted(rows)[1:]):
        if b - a <= numbers.inflate:
            between |= set(range(a + 1, b))
    run.met["inflated"] += len(between) > 0
    return sorted(rows | between)


def generate(model, prompt, gen_length, block_length, numbers, rule, steps=None, cfg_scale=0.0):
    """rule: a threshold, or the measure by which the steps choose: probability or entropy."""
    mask, run = model.shape.mask_id, Run()
    shift = int(model.shape.family in SHIFTED_FAMILIES)
    canvas = np.array(list(prompt) + [mask] * gen_length, dtype=np.int64)
    size, fixed = len(canvas), canvas != mask
    networks = [Network(model, size) for _ in range(2 if cfg_scale > 0 else 1)]
    certainty, written, shares = np.zeros(size), [], None

    def step(low, high, count):
        nonlocal written, shares
        candidates = [p for p in range(high) if canvas[p] == mask]
        number = len(run.canvases)
        rows = list(range(size))
        if number > 0 and not (numbers.refresh and number % numbers.refresh == 0):
            rows = choose_rows(run, numbers, canvas, mask, shift, low, high, candidates, count or 1, certainty, written, shares)
            run.met["rows left out"] += size - len(rows)
        logits = networks[0].logits(canvas, rows)
        shares = networks[0].product.sum(axis=0)
        if cfg_scale > 0:
            alone = networks[1].logits(np.where(fixed, mask, canvas), rows)
            logits = alone + (cfg_scale + 1) * (logits - alone)
        if shift:
            logits = np.concatenate([logits[:1], logits[:-1]])
        predicted = [p for p in range(size) if canvas[p] == mask and max(p - shift, 0) in rows]
        confidence, tokens = {}, {}
        for p in predicted:
            chances = softmax(logits[p])
            order = [t for t in np.argsort(-logits[p], kind="stable") if t != mask]
            tokens[p] = int(order[0])
            if p < high:
                run.see(logits[p][order[0]], logits[p][order[1]])
            confidence[p] = float(chances[order[0]])
            if rule == "entropy":
                confidence[p] = float(np.sum(chances * np.log(chances)))
            certainty[p] = np.exp(confidence[p]) if rule == "entropy" else confidence[p]
        allowed = {p: confidence[p] for p in predicted if p < high}
        chosen = run.best(allowed, 1 if count is None else count)
        if count is None:
            for c in allowed.values():
                run.see(c, rule)
            chosen = sorted(set(chosen) | {p for p, c in allowed.items() if c >= rule})
        for p in chosen:
            canvas[p] = tokens[p]
        written = chosen
        run.canvases.append(canvas.tolist())
        run.rows.append(rows)

    for low in range(len(prompt), size, block_length):
        high = low + block_length
        if steps is None:
            while np.any(canvas[:high] == mask):
                step(low, high, None)
            continue
        of_block = steps * block_length // gen_length
        times = linspace_f32(1, 1e-3, of_block + 1)
        quotas = quota_split(int(np.sum(canvas[low:high] == mask)), of_block)
        for i in range(of_block):
            masked = int(np.sum(canvas[:high] == mask))
            count = min(dream_count(masked, i, times) if shift else quotas[i], masked)
            if count > 0:
                step(low, high, count)
    return run
