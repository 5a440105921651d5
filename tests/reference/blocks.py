"""Block diffusion and sparse attention, written from docs/methods/block_diffusion.md and sparse_attention.md alone, with
locks within a block from surelock.md.

`decode` runs one request and leaves a `Pass` per forward pass: its kind, the positions of its rows and the tokens that
it wrote. Nothing here is clever: keys and values of all positions lie in one store, a pass writes those of its rows and
then each row attends to the cells that its `View` names. Where the page leaves a choice, a comment that begins with
"Reading:" says which one is taken.
"""
import copy
import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from acceleration import Estimate, Lock, divergence, log_softmax, nearest_rank
from models import Store, softmax
from uniform import RngStream

DRAW, ORDER = 1, 2  # what a stream is for
DENSE_LAYERS = 2    # the first ones, unless a policy says otherwise
ROWS_TOGETHER = 1024  # of a prefill pass


@dataclass
class Sparse:
    method: str                # mage, quest, sparsed, flashblock, losa
    budget: int                # cells; of flashblock: written tokens from which on a step is exact
    page: int = 16             # quest, losa
    exact: float = 0.2         # sparsed
    active: float = 0.3125     # losa
    dense_layers: int = DENSE_LAYERS  # the first ones, which attend to all


@dataclass
class Options:
    gen_length: int = 32
    block_length: int = 4
    steps: int | None = None          # None: as many as positions in a block
    unmask: str = "low-confidence"
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    commit: str | None = None         # fused or apart; None: fused where that is possible
    sub_block_length: int | None = None  # of models that shift
    cache: str = "none"               # or block
    edit: tuple | None = None         # tau, most
    sparse: Sparse | None = None
    sparse_commit: str = "exact"      # or sparse
    sparse_after: int | None = None
    rope_scale: float = 1.0
    lock: Lock | None = None          # without unlocking and editing
    accept: float = 0.9               # of the rule soft
    focus: float | None = None        # masks that stay, in multiples of what a step writes
    drafts: int = 0                   # states of a block that a pass computes ahead
    seed: int = 0


DYNAMIC, ENTROPY_BOUND = 0.85, 0.35  # where no value is given


@dataclass
class Pass:
    kind: str                  # prefill, denoise, commit; draft, verify, decode of other decoders
    rows: list                 # positions in feed order
    committed: list = field(default_factory=list)  # (position, token), ascending
    locked: list = field(default_factory=list)     # positions, ascending
    # Of a denoise pass of block diffusion:
    block: int = 0
    step: int = 0              # within the block
    candidates: list = field(default_factory=list)


@dataclass
class Decode:
    tokens: list               # the answer
    limit: int                 # where the positions to generate end
    passes: list
    close: int | None          # the first pass in which a decision was too close to call, None: none was
    met: Counter               # how often each rare path was taken
# Attention


def largest(values, count):
    """Places of the `count` largest, ascending, ties to the lowest, and how far the last is above the next one."""
    order = np.argsort(-values, kind="stable")
    if count >= len(order):
        return np.arange(len(order)), np.inf
    last, following = values[order[count - 1]], values[order[count]]
    return np.sort(order[:count]), (last - following) / max(abs(last), abs(following), 1e-9)


def page_bounds(keys, page):
    """Largest and smallest value of each channel in each page: two arrays [pages, d] of keys [cells, d]."""
    pages = [keys[begin:begin + page] for begin in range(0, len(keys), page)]
    return np.array([p.max(axis=0) for p in pages]), np.array([p.min(axis=0) for p in pages])


def page_scores(queries, keys, page):
    """Quest's score of each page; queries [any number, d]."""
    high, low = page_bounds(keys, page)
    positive, negative = np.maximum(queries, 0).mean(axis=0), np.maximum(-queries, 0).mean(axis=0)
    return high @ positive - low @ negative


class View:
    """Cells that the rows of one block attend to in a pass: prefix cells and the block's own."""

    def __init__(self, begin, end, rows):
        self.begin, self.end, self.rows = begin, end, list(rows)

    def cells(self, layer, head, queries, keys):
        """Prefix cells of a layer and key/value head, ascending. queries [rows, group, d], keys [begin, d]."""
        return np.arange(self.begin)

    def weigh(self, layer, head, mass):
        """Attention mass of each cell of `cells`, summed over all rows and query heads."""

    def attend(self, layer, head, queries, keys, values):
        """Outputs [rows, group, d]; queries likewise, keys and values [cells, d]."""
        prefix = self.cells(layer, head, queries, keys[:self.begin])
        cells = np.concatenate([prefix, np.arange(self.begin, self.end)]).astype(np.int64)
        share = softmax(queries @ keys[cells].T / np.sqrt(queries.shape[-1]))
        self.weigh(layer, head, share.sum(axis=(0, 1))[:len(prefix)])
        return share @ values[cells]

    def look(self, layer, q, k):
        """Called before the attention of a layer, with the rows' queries and keys [rows, heads, d]."""

    def writes(self, layer):
        """Which rows write their keys and values."""
        return np.ones(len(self.rows), dtype=bool)

    def finish(self, layer):
        """Called after the attention of a layer; `input` has the rows' inputs of the layer."""


class Evicting(View):
    """FOCUS: masks leave the pass in the second layer. masks: positions; unread: the first one that no pass has
    computed to the end. All positions of the block behind the last row hold tokens that were read."""

    def __init__(self, begin, end, rows, masks, target, unread, see):
        super().__init__(begin, end, rows)
        self.masks, self.target, self.unread, self.see = masks, target, unread, see
        self.gone, self.seen_end = set(), rows[-1] + 1

    def importance(self, q, k):
        """Attention that each mask gets from all of them, of neighbours the best score."""
        places = [self.rows.index(mask) for mask in self.masks]
        total, group = np.zeros(len(places)), q.shape[1] // k.shape[1]
        for head in range(q.shape[1]):
            scores = q[places, head] @ k[places, head // group].T / np.sqrt(q.shape[-1])
            wide = np.pad(scores, ((0, 0), (1, 1)), constant_values=-np.inf)
            total += softmax(np.max([wide[:, :-2], wide[:, 1:-1], wide[:, 2:]], axis=0)).sum(axis=0)
        return total

    def look(self, layer, q, k):
        if len(self.masks) <= self.target or layer > 1:
            return
        if layer == 0:
            self.first = self.importance(q, k)
            return
        growth = self.importance(q, k) - self.first
        scale = max(np.max(np.abs(self.first)), 1e-9)
        bound = growth.mean() + growth.std()
        chosen = {mask for mask, g in zip(self.masks, growth) if g >= bound}
        self.see(min(np.abs(growth - bound)) / scale)
        if len(chosen) < self.target:
            places, _ = largest(growth, self.target)
            order = np.sort(growth)[::-1]
            self.see((order[self.target - 1] - order[self.target]) / scale)
            chosen = {self.masks[place] for place in places}
        stay = chosen | {mask for mask in self.masks if mask + 1 in chosen}
        last = max(stay)
        stay |= {mask for mask in self.masks if self.unread <= mask < last}
        self.gone = set(self.masks) - stay
        self.seen_end = max(row for row in self.rows if row not in self.gone) + 1

    def writes(self, layer):
        return np.array([layer < 2 or row not in self.gone for row in self.rows])

    def attend(self, layer, head, queries, keys, values):
        cells = np.array([*range(self.seen_end), *range(self.rows[-1] + 1, self.end)])
        return softmax(queries @ keys[cells].T / np.sqrt(queries.shape[-1])) @ values[cells]


class Remember(View):
    """Exact; keeps the `budget` cells with the largest mass."""

    def __init__(self, *where, budget, see, dense_layers=DENSE_LAYERS):
        super().__init__(*where)
        self.budget, self.see, self.chosen = budget, see, {}
        self.dense_layers = dense_layers

    def weigh(self, layer, head, mass):
        if layer >= self.dense_layers:
            self.chosen[layer, head], gap = largest(mass, self.budget)
            self.see(gap)


class Chosen(View):
    """The cells chosen earlier, and all from `since` on."""

    def __init__(self, *where, chosen, since, dense_layers=DENSE_LAYERS):
        super().__init__(*where)
        self.chosen, self.since = chosen, since
        self.dense_layers = dense_layers

    def cells(self, layer, head, queries, keys):
        if layer < self.dense_layers:
            return np.arange(self.begin)
        return np.concatenate([self.chosen[layer, head], np.arange(self.since, self.begin)])


class Pages(View):
    """The best pages for the queries of the pass, and the last one."""

    def __init__(self, *where, budget, page, see, dense_layers=DENSE_LAYERS):
        super().__init__(*where)
        self.budget, self.page, self.see = budget, page, see
        self.dense_layers = dense_layers

    def cells(self, layer, head, queries, keys):
        if layer < self.dense_layers:
            return np.arange(self.begin)
        scores = page_scores(queries.reshape(-1, queries.shape[-1]), keys, self.page)
        best, gap = largest(scores[:-1], self.budget // self.page - 1)
        if self.budget // self.page > 1:
            self.see(gap)
        pages = [*best, len(scores) - 1]
        return np.concatenate([np.arange(p * self.page, min((p + 1) * self.page, self.begin)) for p in pages])


@dataclass
class Kept:
    """The part of attention to the prefix that the rows of a block keep."""
    parts: dict = field(default_factory=dict)   # (layer, head, position): output [group, d], log of the sum [group]
    tokens: dict = field(default_factory=dict)  # position: token when the row kept its parts
    inputs: dict = field(default_factory=dict)  # (layer, position): input of the layer in the row's last pass


def log_sum(scores):
    """Logarithm of the sum of exp(scores) over the last axis."""
    top = scores.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(scores - top).sum(axis=-1))


class Keep(View):
    """Exact; each row keeps its attention to the prefix."""

    def __init__(self, *where, kept, canvas, see, dense_layers):
        super().__init__(*where)
        self.kept, self.canvas, self.see, self.dense_layers = kept, canvas, see, dense_layers

    def attend(self, layer, head, queries, keys, values):
        if layer >= self.dense_layers:
            self.keep(layer, head, queries, keys, values, range(len(self.rows)), np.arange(self.begin))
        return super().attend(layer, head, queries, keys, values)

    def keep(self, layer, head, queries, keys, values, places, cells):
        for i in places:
            scores = queries[i] @ keys[cells].T / np.sqrt(queries.shape[-1])
            self.kept.parts[layer, head, self.rows[i]] = softmax(scores) @ values[cells], log_sum(scores)
            self.kept.tokens[self.rows[i]] = self.canvas[self.rows[i]]

    def finish(self, layer):
        for i, row in enumerate(self.rows):
            self.kept.inputs[layer, row] = self.input[i]


class Reuse(Keep):
    """Attention to the block, merged with the kept attention to the prefix."""

    def attend(self, layer, head, queries, keys, values):
        if layer < self.dense_layers:
            return View.attend(self, layer, head, queries, keys, values)
        return self.merged(layer, head, queries, keys[self.begin:self.end], values[self.begin:self.end])

    def merged(self, layer, head, queries, keys, values):
        scores = queries @ keys.T / np.sqrt(queries.shape[-1])
        inside, weight, out = softmax(scores) @ values, log_sum(scores), []
        for i, row in enumerate(self.rows):
            outside, kept_weight = self.kept.parts[layer, head, row]
            share = 1 / (1 + np.exp(weight[i] - kept_weight))[:, None]  # of the prefix
            out.append(share * outside * self.adds(row) + (1 - share) * inside[i])
        return np.array(out)

    def adds(self, row):
        return self.kept.tokens.get(row) == self.canvas[row]


class Active(Reuse):
    """The rows whose input changed most attend to the best pages for their queries, and keep that."""

    INPUT_GAP = 2e-5  # of changes, relative to the input

    def __init__(self, *where, budget, page, count, **more):
        super().__init__(*where, **more)
        self.pages = Pages(*where, budget=budget, page=page, see=self.see, dense_layers=self.dense_layers)
        self.count, self.chosen = count, {}

    def attend(self, layer, head, queries, keys, values):
        if layer < self.dense_layers:
            return View.attend(self, layer, head, queries, keys, values)
        if layer not in self.chosen:
            self.chosen[layer] = self.most_changed(layer)
        active = self.chosen[layer]
        cells = self.pages.cells(layer, head, queries[active], keys[:self.begin])
        self.keep(layer, head, queries, keys, values, active, cells)
        return self.merged(layer, head, queries, keys[self.begin:self.end], values[self.begin:self.end])

    def most_changed(self, layer):
        now = np.array(self.input)
        changes = ((now - [self.kept.inputs[layer, row] for row in self.rows]) ** 2).mean(axis=1)
        scale = np.sqrt((now ** 2).mean())
        changes[changes < (1e-9 * scale) ** 2] = 0  # the same sums in another order
        chosen, _ = largest(changes, self.count)
        ordered = np.sqrt(np.sort(changes)[::-1])
        # Equal inputs of the first sparse layer are bitwise identical in the program; those of later ones may not be.
        if self.count < len(ordered) and (ordered[self.count] > 0 or layer > self.dense_layers):
            self.see((ordered[self.count - 1] - ordered[self.count]) / scale, self.INPUT_GAP)
        return chosen

    def adds(self, row):
        return True


def stretched(model, factor):
    """The model with theta multiplied by factor^(r / (r - 2)), r its rotated dimensions."""
    rotated = getattr(model.shape, "rotary_dim", 0) or model.shape.head_dim
    out = copy.copy(model)
    out.shape = replace(model.shape, theta=model.shape.theta * factor ** (rotated / (rotated - 2)))
    return out


class Network:
    """A model of models.py over the K/V of all positions of a canvas."""

    weights = {}               # of the positions whose tokens are mixed with the mask

    def __init__(self, model, rope_scale=1.0, shifted=False):
        self.model, self.mask_id, self.shifted = stretched(model, rope_scale), model.shape.mask_id, shifted

    def start(self, cells):
        self.store = Store(self.model.shape, cells)

    def mixed(self, tokens, rows):
        """(a model with a further token for each mixture, the tokens of the rows)"""
        name = next(n for n in ("model.word_embeddings.weight", "model.embed_tokens.weight") if n in self.model.tensors)
        table, tokens, further = self.model.tensors[name], np.array(tokens), []
        mask = table[self.mask_id]
        for i, position in enumerate(rows):
            if position in self.weights:
                w, token = self.weights[position], table[tokens[i]]
                mixture = w * token + (1 - w) * mask
                length = w * np.linalg.norm(token) + (1 - w) * np.linalg.norm(mask)
                tokens[i] = len(table) + len(further)
                further.append(mixture * length / (np.linalg.norm(mixture) + 1e-6))
        model = copy.copy(self.model)
        model.tensors = {**self.model.tensors, name: np.vstack([table, *further])}
        return model, tokens

    def compute(self, canvas, views):
        """Logits of the rows of all views, one after the other."""
        rows = np.concatenate([view.rows for view in views]).astype(np.int64)
        inputs, model, tokens = {}, self.model, np.asarray(canvas)[rows]
        if self.weights:
            model, tokens = self.mixed(tokens, rows)
        watch = model.see_input

        def see_input(layer, x):
            inputs[layer] = x
            watch(layer, x)

        def attend(layer, q, k, v):
            # All rows write before any reads.
            at = 0
            for view in views:
                own = slice(at, at + len(view.rows))
                view.look(layer, q[own], k[own])
                at += len(view.rows)
            new = np.concatenate([view.writes(layer) for view in views])
            self.store.k[layer, rows[new]], self.store.v[layer, rows[new]] = k[new], v[new]
            out, at = [], 0
            for view in views:
                view.input = inputs[layer][at:at + len(view.rows)]
                out.append(self._attend(layer, q[at:at + len(view.rows)], view))
                at += len(view.rows)
            return np.concatenate(out)

        model.see_input = see_input
        try:
            return model._forward(tokens, rows, attend)
        finally:
            model.see_input = watch

    def _attend(self, layer, q, view):
        """[rows, heads * d] of q [rows, heads, d]."""
        keys, values = self.store.k[layer], self.store.v[layer]
        group, out = q.shape[1] // keys.shape[1], []
        for head in range(keys.shape[1]):
            queries = q[:, head * group:(head + 1) * group]
            out.append(view.attend(layer, head, queries, keys[:, head], values[:, head]))
        view.finish(layer)
        return np.concatenate(out, axis=1).reshape(len(q), -1)

# Which positions a step commits


@dataclass
class Candidate:
    position: int
    token: int
    probability: float         # of the token
    margin: float
    entropy: float             # in nats


def parse_rule(rule):
    """('dynamic', 0.85) for 'dynamic'; the value is None where the rule has none."""
    name, _, value = rule.partition("=")
    default = {"dynamic": DYNAMIC, "entropy-bounded": ENTROPY_BOUND}.get(name)
    return name, float(value) if value else default


def choose(rule, candidates, count, stream, see):
    """The candidates that a step commits. count: n_s; see(a, b): the order of a and b mattered."""
    name, value = parse_rule(rule)
    score = {"sequential": lambda c: -c.position, "random": lambda c: stream.uniform(c.position),
             "margin": lambda c: c.margin, "entropy": lambda c: -c.entropy,
             "entropy-bounded": lambda c: -c.entropy}.get(name, lambda c: c.probability)
    order = sorted(candidates, key=lambda c: (-score(c), c.position))

    def first(number):
        if 0 < number < len(order):
            see(score(order[number - 1]), score(order[number]))
        return order[:number]

    if name in ("low-confidence", "margin", "entropy", "sequential", "random"):
        return first(count)
    if name == "dynamic":
        for c in order:
            see(c.probability, value)
        above = [c for c in order if c.probability > value]
        return above if len(above) >= count else first(count)
    if name == "threshold":
        for c in order:
            see(c.probability, value)
        return [c for c in order if c.probability >= value] or first(1)
    if name == "soft":
        number = 0
        for c in candidates:
            see(c.probability, value)
            if c.probability < value:
                break
            number += 1
        return candidates[:max(number, 1)]
    number = 1
    if name == "factor":
        while number < len(order):
            bound = 1 - value / (number + 2)
            see(order[number].probability, bound)
            if order[number].probability < bound:
                break
            number += 1
    else:
        assert name == "entropy-bounded", rule
        total = order[0].entropy
        while number < len(order):
            total += order[number].entropy
            see(total, value)
            if total >= value:
                break
            number += 1
    return first(number)

# The lock


class BlockLock:
    """Which rows of one block are locked: surelock.md, with the block as the canvas and its steps as the passes."""

    def __init__(self, options, begin, end, prompt, shifted, estimate):
        self.options, self.begin, self.end, self.prompt, self.shifted = options, begin, end, prompt, shifted
        self.estimate = estimate
        self.locked, self.age, self.posterior, self.last, self.passes = set(), Counter(), {}, {}, 0
        self.measures = True  # whether the next step computes every row that is not locked

    def predicted(self, row):
        """None where a row predicts nothing of its block."""
        row += self.shifted
        return row if row < self.end else None

    def update(self, known_before, known, logits, see):
        """After a step with these logits; known: positions that hold a token. Returns what locks."""
        options, rows = self.options, sorted(logits)
        for row in rows:
            self.age[row] += row in known_before
        now = {row: log_softmax(np.asarray(logits[row], dtype=np.float64)) for row in rows}
        unsure = {row: 1 - float(np.exp(np.max(now[row]))) for row in rows}
        lockable = [row for row in rows if row in known and self.age[row] >= options.min_age
                    and (self.predicted(row) is None or self.predicted(row) in known)]
        eager = {row for row in rows if options.prompt == "eager" and self.predicted(row) is not None
                 and self.predicted(row) < self.prompt}
        population = [unsure[row] for row in (lockable if options.population == "candidates" else rows)
                      if row not in eager]
        passing, gated = {}, options.gate is not None and options.gate < 100 and population
        theta = nearest_rank(population, options.gate) if gated else math.inf
        for row in lockable if self.measures else []:
            # Reading: a row that was never computed before is not measured.
            if row not in self.posterior:
                continue
            value = divergence(now[row], self.posterior[row])
            if gated and row not in eager:
                above = min((u for u in population if u > theta), default=math.inf)
                see(abs(unsure[row] - (theta if unsure[row] > theta else above)), 2e-5)
            if row in eager or unsure[row] <= theta:
                passing[row] = value
        eps, locked = self.eps(passing, now), []
        for row, value in passing.items():
            see(abs(value - eps), 5e-5 * math.sqrt(eps) + 2e-7)
            if eps > 0 and value <= eps:
                locked.append(row)
            self.last[row] = (self.passes, value)
        self.locked |= set(locked)
        self.posterior |= now
        self.passes += 1
        return locked

    def eps(self, passing, now):
        if self.estimate is None:
            return self.options.eps
        for row, value in passing.items():
            at, before = self.last.get(row, (-2, 0.0))
            if at == self.passes - 1:
                self.estimate.see(value, before, float(np.max(np.abs(now[row] - self.posterior[row]))))
        eps = self.estimate.eps()
        return eps if eps is not None else self.options.eps or 0.0

# Decoding


class Decoder:
    LOGIT_GAP = 3e-4
    PROBABILITY_GAP = 1e-4     # relative, of what positions are chosen by
    WEIGHT_ERROR = 2e-5        # relative, of a mixture's weight
    CELL_GAP = 3e-5            # relative, of masses and scores of pages

    def __init__(self, network, prompt, ends, options):
        self.network, self.ends, self.options = network, frozenset(ends), options
        self.size = options.block_length
        self.steps = options.steps or self.size
        assert 1 <= self.steps <= self.size and options.gen_length > 0
        assert prompt or not network.shifted
        self.prompt, self.limit = len(prompt), len(prompt) + options.gen_length
        self.first, self.blocks = self.prompt // self.size, (self.limit - 1) // self.size + 1
        length = self.blocks * self.size
        self.canvas = list(prompt) + [network.mask_id] * (length - self.prompt)
        self.masked = [position >= self.prompt for position in range(length)]
        self.sub = (options.sub_block_length or min(8, self.size)) if network.shifted else self.size
        assert self.size % self.sub == 0
        self.rule = options.unmask
        assert not (options.edit and network.shifted), "a shift leaves position 0 of a block without a row"
        sparse_commit = options.sparse is not None and options.sparse_commit == "sparse"
        self.fused = options.commit != "apart" and not network.shifted and not sparse_commit
        assert self.fused or options.commit != "fused"
        self.passes, self.close, self.met = [], None, Counter()
        self.soft = self.rule.startswith("soft")
        self.clock = 0             # steps of all blocks
        self.kept, self.updates = None, 0  # of the block; tokens since its rows kept all of their attention
        self.chosen, self.since = None, 0  # cells that sparse attention remembers, and from where on all are seen
        self.lock = None           # of the block
        self.estimate = Estimate(options.lock.delta) if options.lock and options.lock.delta else None
        self.scaled_gap = self.LOGIT_GAP / (options.temperature or 1.0)  # of logits over the temperature
        network.start(length)
        # Mixtures carry errors of a pass to the next ones, which they may multiply: a second run whose weights are off shows it.
        self.shadow = copy.copy(network) if self.soft else None
        if self.soft:
            self.shadow.start(length)

    def run(self):
        kept = self.prefill()
        for block in range(self.first, self.blocks):
            if self.ended() or self.denoise(block, kept):
                break
            if block + 1 < self.blocks:
                kept = self.commit(block)
        end = self.end_of_answer()
        if self.options.drafts:
            self.draft()
        return Decode(self.canvas[self.prompt:self.limit if end is None else end + 1], self.limit, self.passes,
                      self.close, self.met)

    # The answer

    def end_of_answer(self):
        """Position of the first end token with no mask before it, or None."""
        for position in range(self.prompt, self.limit):
            if self.masked[position]:
                return None
            if self.canvas[position] in self.ends:
                return position
        return None

    def ended(self):
        end = self.end_of_answer()
        self.met["stopped by an end"] += end is not None
        return end is not None

    # Passes

    def feed(self, kind, views):
        """One pass; returns {position: logits}."""
        rows = [int(position) for view in views for position in view.rows]
        self.passes.append(Pass(kind, rows))
        if self.soft:
            self.shadows = dict(zip(rows, self.shadow.compute(self.canvas, views)))
        return dict(zip(rows, self.network.compute(self.canvas, views)))

    def bounds(self, block):
        return block * self.size, (block + 1) * self.size

    def whole(self, block):
        return (*self.bounds(block), range(*self.bounds(block)))

    def write(self, tokens):
        """{position: token} of the last pass."""
        for position, token in tokens.items():
            self.canvas[position], self.masked[position] = token, False
        self.passes[-1].committed = sorted(tokens.items())

    def prefill(self):
        """Reads the prompt's blocks; returns the views of those that the first step shall compute."""
        rest, together = [View(*self.whole(block)) for block in range(self.first)], max(1, ROWS_TOGETHER // self.size)
        self.met["prefill in parts"] += len(rest) > together
        # Reading: of a longer prompt, what is left after the full passes is computed with the first step.
        while rest and not (self.fused and len(rest) <= together):
            logits = self.feed("prefill", rest[:together])
            rest = rest[together:]
        if self.first and not rest and self.prompt % self.size == 0:
            self.begin_next(logits, self.first)
        self.met["prompt fused"] += bool(rest)
        return rest

    def commit(self, block):
        """Returns the views that the next block's first step shall compute."""
        if self.fused:
            self.met["commit fused"] += 1
            return [View(*self.whole(block))]
        self.begin_next(self.feed("commit", [self.committing(block)]), block + 1)
        return []

    def begin_next(self, logits, block):
        """Position 0 of a block is the best token of the row before it."""
        if self.network.shifted:
            begin, _ = self.bounds(block)
            row = self.drawable(logits[begin - 1])
            self.see_best(row)
            self.write({begin: int(np.argmax(row))})

    # Decisions

    def see(self, gap, tolerance):
        if gap < tolerance and self.close is None:
            self.close = len(self.passes) - 1

    def see_cells(self, gap):
        self.see(gap, self.CELL_GAP)

    def see_order(self, a, b):
        self.see(abs(a - b) / max(abs(a), abs(b), 1e-3), self.PROBABILITY_GAP)

    def see_best(self, row, tolerance=LOGIT_GAP):
        two = np.partition(row, -2)[-2:]
        if np.isfinite(two[0]):
            self.see(two[1] - two[0], tolerance)

    def drawable(self, row):
        row = np.array(row, dtype=np.float64)
        row[self.network.mask_id] = -np.inf
        return row

    def filtered(self, row):
        """Logits over the temperature, filtered by top-p and then top-k, ties with the k-th included."""
        options, kept = self.options, np.array(row)
        if options.top_p < 1:
            order = np.argsort(-row, kind="stable")
            sums = np.cumsum(softmax(row[order]))
            number = int(np.searchsorted(sums, options.top_p, side="right")) + 1
            self.see(np.min(np.abs(sums - options.top_p)), self.PROBABILITY_GAP)
            if number < len(order):
                self.see(row[order[number - 1]] - row[order[number]], self.scaled_gap)
            kept[order[number:]] = -np.inf
        if options.top_k and options.top_k < len(row):
            ordered = np.sort(row)[::-1]
            self.see(ordered[options.top_k - 1] - ordered[options.top_k], self.scaled_gap)
            kept[row < ordered[options.top_k - 1]] = -np.inf
        return kept

    def candidate(self, row, block, step, position):
        """Samples a token for a position."""
        options = self.options
        scaled = np.asarray(row, dtype=np.float64) / (options.temperature or 1.0)
        p, visible = softmax(scaled), self.drawable(scaled)
        if options.temperature == 0:
            token, values = int(np.argmax(visible)), visible
        else:
            # Reading: the filters see the logits without the mask.
            kept = self.filtered(visible)
            stream = RngStream(options.seed, DRAW, block, step, position)
            values = np.array([x - np.log(-np.log(stream.uniform(t))) if x > -np.inf else -np.inf
                               for t, x in enumerate(kept)])
            token = int(np.argmax(values))
        best = np.sort(p)[::-1]
        entropy = -float(np.sum(p * np.log(np.where(p > 0, p, 1))))
        self.values[position] = values
        return Candidate(position, token, float(p[token]), float(best[0] - best[1]), entropy)

    def quota(self, step):
        """n_s."""
        # Reading: where S b' / B is no whole number the page's formulas are taken as they are, of the fraction.
        steps = self.steps * self.sub / self.size
        return int(self.sub // steps) + (step < self.sub % steps)

    # Steps

    def denoise(self, block, kept):
        """All steps of a block; whether the answer is complete."""
        step = 0
        if self.options.lock:
            self.lock = BlockLock(self.options.lock, *self.bounds(block), self.prompt, self.network.shifted,
                                  self.estimate)
        if self.soft:
            self.soften(block, kept)
            return self.ended()
        for begin in range(*self.bounds(block), self.sub):
            inside, within = range(begin, begin + self.sub), 0
            while any(self.masked[position] for position in inside):
                self.step(block, inside, step, within, kept)
                step, within, kept = step + 1, within + 1, []
                if not self.options.edit and self.ended():
                    return True
        if self.options.edit:
            for _ in range(self.options.edit[1]):
                if not self.step(block, range(*self.bounds(block)), step, step, kept):
                    self.met["edits came to rest"] += 1
                    break
                self.met["edited after the last mask"] += 1
                step += 1
            return self.ended()
        return False

    def soften(self, block, kept):
        """All steps of a block whose tokens are mixed with the mask."""
        inside = range(*self.bounds(block))
        for step in range(self.size):
            written = self.step(block, inside, step, step, kept)
            kept = []
            if any(self.masked[position] for position in inside):
                continue
            sure = all([self.reaches(w, self.options.accept) for w in self.network.weights.values()])
            self.met["all sure"] += sure
            self.met["came to rest"] += not written
            self.met["no step left"] += step + 1 == self.size
            if sure or not written:
                break
        self.network.weights = self.shadow.weights = {}

    def shadow_of(self, c):
        off = 1 + self.WEIGHT_ERROR * (-1) ** c.position
        return min(1.0, softmax(self.shadows[c.position] / (self.options.temperature or 1.0))[c.token] * off)

    def reaches(self, a, b):
        self.see_order(a, b)
        return a >= b

    def rows_of(self, block, inside, step):
        rows = range(*self.bounds(block))
        if self.options.cache == "block" and step > 0 and not self.masked[inside[0]]:
            self.met["sub-block alone"] += len(inside) < len(rows)
            rows = inside
        if self.lock:
            self.lock.measures = len(rows) == self.size
            rows = [row for row in rows if row not in self.lock.locked]
        if self.options.focus:
            if step == 0:
                self.read, self.unread, self.writing = set(), rows[0], []
            last = rows[-1]
            rows = [row for row in rows if not (row in self.read and (row == last or row + 1 in self.read))]
            self.met["tokens left out"] += len(rows) < self.size
        return rows

    def step(self, block, inside, step, within, kept):
        """One denoise pass; returns what it wrote."""
        view = self.stepping(block, self.rows_of(block, inside, step), step)
        known = self.known(block)
        logits, options, self.values = self.feed("denoise", kept + [view]), self.options, {}
        self.remember(view)
        self.clock += 1

        def draw(position):
            return self.candidate(logits[position - self.network.shifted], block, step, position)

        written = {}
        gone = self.leave(view) if self.options.focus else ()
        candidates = [draw(position) for position in inside if self.masked[position] and position not in gone]
        if candidates:
            stream = RngStream(options.seed, ORDER, block, step)
            chosen = choose(self.rule, candidates, self.quota(within), stream, self.see_order)
            self.met["more than the quota"] += len(chosen) > self.quota(within)
            written = {c.position: c.token for c in chosen}
        if options.edit:
            for position in inside:
                if self.masked[position] or position < self.prompt:
                    continue
                c = draw(position)
                self.see_best(self.values[position], self.scaled_gap)
                if c.token != self.canvas[position]:
                    self.see_order(c.probability, options.edit[0])
                    if c.probability > options.edit[0]:
                        self.met["edit"] += 1
                        written[position] = c.token
        if self.soft:
            anew = [draw(p) for p in inside if p >= self.prompt and not self.masked[p]]
            for c in anew:
                self.see_best(self.values[c.position], self.scaled_gap)
            changed = {c.position: c.token for c in anew if c.token != self.canvas[c.position]}
            self.met["changed"] += bool(changed)
            mixed = anew + [c for c in candidates if c.position in written]
            self.network.weights = {c.position: c.probability for c in mixed}
            self.shadow.weights = {c.position: self.shadow_of(c) for c in mixed}
            self.see(self.LOGIT_GAP - max(np.max(np.abs(logits[p] - self.shadows[p])) for p in inside), 0)
            written |= changed
        for position in written:
            self.see_best(self.values[position], self.scaled_gap)
        self.write(written)
        if self.options.focus and written:
            self.writing.append(len(written))
        self.updates = len(written) + (self.updates if isinstance(view, Reuse) else 0)
        self.passes[-1].block, self.passes[-1].step, self.passes[-1].candidates = block, step, candidates
        if self.lock:
            self.update_lock(block, known, {row: logits[row] for row in view.rows})
        return written

    def leave(self, view):
        """The masks that left the pass; notes what it has read."""
        self.met["masks evicted"] += bool(view.gone)
        self.met["more masks stayed than wanted"] += bool(view.gone) and len(view.masks) - len(view.gone) > view.target
        self.read |= {row for row in view.rows if not self.masked[row]}
        self.unread = max(self.unread, view.seen_end if view.gone else view.rows[-1] + 1)
        return view.gone

    def draft(self):
        """Replaces the passes by those of drafts: a state's pass is that of a draft if the steps before it write what
        was drafted."""
        passes, place, self.passes, close, self.close = self.passes, 0, [], self.close, None
        while place < len(passes):
            first = place
            record = passes[first]
            self.passes.append(Pass(record.kind, list(record.rows), list(record.committed)))
            drafts = self.drafts_after(passes[first - 1]) if record.kind == "denoise" and record.step else []
            self.passes[-1].rows += [*range(*self.bounds(record.block))] * len(drafts)
            for draft in drafts:
                ends = place + 1 == len(passes) or passes[place + 1].block != record.block
                self.met["draft rejected"] += not ends and passes[place].committed != draft
                if ends or passes[place].committed != draft:
                    break
                place += 1
                self.met["draft accepted"] += 1
                self.passes[-1].committed = sorted(self.passes[-1].committed + passes[place].committed)
            if close is not None and first <= close <= place:
                self.see(0, np.inf)
            place += 1

    def drafts_after(self, record):
        """The tokens of each step after a pass if all predict what this pass did, but those of a state without
        masks, which no pass computes."""
        out, step = [], record.step
        left = [c for c in record.candidates if (c.position, c.token) not in record.committed]
        while len(out) < self.options.drafts:
            step += 1
            stream = RngStream(self.options.seed, ORDER, record.block, step)
            chosen = choose(self.rule, left, self.quota(step), stream, self.see_order)
            left = [c for c in left if c not in chosen]
            if not left:
                break
            out.append(sorted((c.position, c.token) for c in chosen))
        return out

    def known(self, block):
        """Positions of a block that hold a token. A mask in the prompt is a mask to the lock."""
        return {p for p in range(*self.bounds(block)) if self.canvas[p] != self.network.mask_id}

    def update_lock(self, block, known, logits):
        if not any(self.masked[slice(*self.bounds(block))]) or self.end_of_answer() is not None:
            return
        self.met["saved rows"] += bool(self.lock.locked)
        locked = self.lock.update(known, self.known(block), logits, self.see)
        self.passes[-1].locked = locked
        self.met["locked"] += bool(locked)
        self.met["locked at a guessed eps"] += bool(locked) and self.estimate is not None

    # Sparse attention

    def stepping(self, block, rows, step):
        """The view of a step."""
        sparse, where = self.options.sparse, (*self.bounds(block), rows)
        if self.options.focus:
            masks = [row for row in rows if self.masked[row]]
            target = math.ceil((np.mean(self.writing) if self.writing else 1) * self.options.focus)
            return Evicting(*self.bounds(block), list(rows), masks, target, self.unread, self.see_cells)
        if sparse is None:
            return View(*where)
        over = where[0] > (0 if sparse.method == "flashblock" else sparse.budget)
        again = self.options.sparse_after is not None and step >= self.options.sparse_after
        if sparse.method == "mage":
            if step == 0:
                self.chosen = None
            remembers, chooses = step == 0, True
        elif sparse.method == "quest":
            remembers, chooses = False, True
        elif sparse.method in ("flashblock", "losa"):
            return self.keeping(where, step, over, again)
        else:
            planned = self.steps * (self.blocks - self.first)
            due = self.clock >= int(np.floor(sparse.exact * planned))
            remembers, chooses = due and self.chosen is None, self.chosen is not None
            self.met["late memory"] += remembers and not over
        if not over:
            return View(*where)
        if remembers:
            # Reading: a step that --sparse-after makes exact remembers all the same.
            self.met["remembered"] += 1
            return Remember(*where, budget=sparse.budget, see=self.see_cells, dense_layers=sparse.dense_layers)
        if again or not chooses:
            self.met["exact again"] += again
            return View(*where)
        self.met["sparse step"] += 1
        return self.sparse_view(where)

    def keeping(self, where, step, over, again):
        """The view of a step with FlashBlock or LoSA."""
        sparse = self.options.sparse
        if not over:
            return View(*where)
        if step == 0:
            self.kept = Kept()
        keeps = step == 0 or (sparse.method == "flashblock" and self.updates >= sparse.budget)
        if again and not keeps:
            self.met["exact again"] += 1
            return View(*where)
        more = {"kept": self.kept, "canvas": self.canvas, "see": self.see_cells, "dense_layers": sparse.dense_layers}
        self.met["kept" if keeps else "reused"] += 1
        if keeps:
            return Keep(*where, **more)
        if sparse.method == "flashblock":
            view = Reuse(*where, **more)
            self.met["written since"] += any(not view.adds(row) for row in view.rows)
            return view
        rows = where[2]
        more["see"] = lambda gap, tolerance=self.CELL_GAP: self.see(gap, tolerance)
        return Active(*where, budget=sparse.budget, page=sparse.page, count=math.ceil(sparse.active * len(rows)), **more)

    def sparse_view(self, where):
        sparse = self.options.sparse
        if sparse.method == "quest":
            return Pages(*where, budget=sparse.budget, page=sparse.page, see=self.see_cells,
                         dense_layers=sparse.dense_layers)
        return Chosen(*where, chosen=self.chosen, since=self.since, dense_layers=sparse.dense_layers)

    def remember(self, view):
        if isinstance(view, Remember):
            self.chosen, self.since = view.chosen, view.begin

    def committing(self, block):
        """The view of a commit pass. Reading: --sparse-after is about steps, of which this is none."""
        sparse, where = self.options.sparse, self.whole(block)
        if sparse is None or self.options.sparse_commit == "exact" or where[0] <= sparse.budget:
            return View(*where)
        if sparse.method != "quest" and self.chosen is None:
            return View(*where)
        self.met["sparse commit"] += 1
        return self.sparse_view(where)


def decode(network, prompt, ends, options):
    """Runs a request. `network` has mask_id, shifted, start(cells) and compute(canvas, views)."""
    return Decoder(network, prompt, ends, options).run()
