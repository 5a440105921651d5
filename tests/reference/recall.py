"""The instrument `lacuna analyze recall`, written from section 2 of docs/methods/sparse_attention.md alone.

`Recorder` is a network of blocks.py that keeps what every pass computed: decode a request with it, then `report` works
out the rows that the program prints. Everything is float64 and spelled out.
"""
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from acceleration import divergence, log_softmax, nearest_rank
from blocks import DENSE_LAYERS, Network, largest, page_scores
from models import softmax

SETS = ("this step", "first step", "quest", "quest per token", "sparsed")
EXACT_SHARE = 0.2  # SparseD's
BINS = 8           # of the masked share


@dataclass
class Seen:
    """One pass: its canvas before it, its block (the last view's), and that view's values by layer."""
    canvas: list
    begin: int
    end: int
    logits: np.ndarray = None                    # [rows of the block, vocab]
    hidden: dict = field(default_factory=dict)   # [rows, hidden]
    queries: dict = field(default_factory=dict)  # [rows, heads, d]
    keys: dict = field(default_factory=dict)     # [cells up to the block's end, kv heads, d]
    values: dict = field(default_factory=dict)


class Recorder(Network):
    def start(self, cells):
        super().start(cells)
        self.passes = []

    def compute(self, canvas, views):
        last = views[-1]
        count = len(last.rows)
        seen = Seen(list(canvas), last.begin, last.end)
        self.passes.append(seen)
        self.last_view = last

        def keep(layer, x):
            seen.hidden[layer] = x[-count:].copy()

        self.model.see_input = keep
        logits = super().compute(canvas, views)
        seen.logits = logits[-count:]
        return logits

    def _attend(self, layer, q, view):
        if view is self.last_view:
            seen = self.passes[-1]
            seen.queries[layer] = q.copy()
            seen.keys[layer] = self.store.k[layer, :view.end].copy()
            seen.values[layer] = self.store.v[layer, :view.end].copy()
        return super()._attend(layer, q, view)


class Head:
    """One key/value head of a layer in one pass."""

    def __init__(self, seen, layer, head, see):
        self.see, self.prefix = see, seen.begin
        self.keys, self.values = seen.keys[layer][:, head], seen.values[layer][:, head]
        group = seen.queries[layer].shape[1] // seen.keys[layer].shape[1]
        self.queries = seen.queries[layer][:, head * group:(head + 1) * group]  # [rows, group, d]
        self.weights = softmax(self.queries @ self.keys.T / np.sqrt(self.keys.shape[-1]))  # [rows, group, cells]
        self.on_prefix = self.weights[:, :, :self.prefix]

    def heaviest(self, mass, budget):
        cells, gap = largest(mass, budget)
        self.see(gap)
        return set(cells.tolist())

    def of_block(self, budget):
        return self.heaviest(self.on_prefix.sum(axis=(0, 1)), budget)

    def of_rows(self, budget):
        return [self.heaviest(row.sum(axis=0), budget) for row in self.on_prefix]

    def pages(self, queries, budget, page):
        """Cells of the last page and of the others that score most by these queries [any number, d]."""
        scores = page_scores(queries, self.keys[:self.prefix], page)
        best, gap = largest(scores[:-1], budget // page - 1)
        if budget // page > 1:
            self.see(gap)
        return {cell for p in (*best, len(scores) - 1) for cell in range(p * page, min((p + 1) * page, self.prefix))}

    def accuracy(self, chosen, own, budget):
        return np.mean([len(cells & mine) / budget for cells, mine in zip(chosen, own)])

    def mass(self, chosen):
        shares = []
        for cells, row in zip(chosen, self.on_prefix):
            shares += [weights[sorted(cells)].sum() / weights.sum() for weights in row]
        return np.mean(shares)

    def squares(self, chosen):
        """Squared length of the error of the outputs, and of the outputs."""
        difference, exact = 0.0, 0.0
        for cells, row in zip(chosen, self.weights):
            kept = sorted(cells) + list(range(self.prefix, len(self.keys)))
            for weights in row:
                whole = weights @ self.values
                part = weights[kept] @ self.values[kept] / weights[kept].sum()
                difference += np.sum((part - whole) ** 2)
                exact += np.sum(whole ** 2)
        return np.array([difference, exact])


def gap(first, now):
    """Distance of [rows, width]: per position and of the block's average, each absolute and over the first step's length."""
    def length(x):
        return np.linalg.norm(x, axis=-1)

    row, block = np.mean(length(now - first)), length(now.mean(axis=0) - first.mean(axis=0))
    return np.array([row, row / np.mean(length(first)), block, block / length(first.mean(axis=0))])


class Instrument:
    """Observations of requests; `report` turns them into rows."""

    def __init__(self, budgets, page, see):
        self.budgets, self.page, self.see = budgets, page, see
        self.cells, self.states, self.predictions, self.steps = [], [], [], []

    def add(self, recorder, done, prompt, options):
        """A request that was decoded with the recorder; done: what decode() returned."""
        first_block = prompt // options.block_length
        blocks = (prompt + options.gen_length - 1) // options.block_length + 1 - first_block
        planned = (options.steps or options.block_length) * blocks
        exact, clock, block, first, remembered = int(np.floor(EXACT_SHARE * planned)), 0, None, None, {}
        for record, seen in zip(done.passes, recorder.passes, strict=True):
            if record.kind != "denoise":
                continue
            if seen.begin != block:
                block, first = seen.begin, seen
                self.steps.append(0)
            self.steps[-1] += 1
            clock += 1
            masked = [p for p in range(seen.begin, seen.end) if p >= prompt and seen.canvas[p] == recorder.mask_id]
            place = {"step": self.steps[-1], "share": len(masked) / options.block_length}
            if seen.begin <= self.budgets[0]:
                continue
            self.predict(recorder, first, seen, masked, place)
            for layer in range(DENSE_LAYERS, recorder.model.shape.layers):
                self.observe(recorder, first, seen, layer, place | {"layer": layer}, remembered)
            for budget in self.budgets:
                if clock > exact and seen.begin > budget and budget not in remembered:
                    remembered[budget] = seen

    def predict(self, recorder, first, seen, masked, place):
        divergences = []
        for position in masked:
            row = position - seen.begin - recorder.shifted
            if row < 0 or first.canvas[position] != recorder.mask_id:
                continue
            now, before = (log_softmax(np.delete(each.logits[row], recorder.mask_id)) for each in (seen, first))
            divergences.append(divergence(now, before))
        if divergences:
            self.predictions.append(place | {"kl": np.mean(divergences)})

    def observe(self, recorder, first, seen, layer, place, remembered):
        count = seen.keys[layer].shape[1]
        heads = [Head(seen, layer, head, self.see) for head in range(count)]
        queries = np.mean([gap(first.queries[layer][:, q], seen.queries[layer][:, q])
                           for q in range(seen.queries[layer].shape[1])], axis=0)
        self.states.append(place | {"gaps": np.concatenate([gap(first.hidden[layer], seen.hidden[layer]), queries]),
                                    "prefix": np.mean([head.on_prefix.sum(axis=-1) for head in heads])})
        for budget in self.budgets:
            if seen.begin <= budget:
                continue
            recall, union, figures = [], [], defaultdict(list)
            for index, head in enumerate(heads):
                now, own, rows = head.of_block(budget), head.of_rows(budget), len(head.queries)
                then = Head(first, layer, index, self.see).of_block(budget)
                d = head.queries.shape[-1]
                chosen = {"this step": [now] * rows, "first step": [then] * rows,
                          "quest": [head.pages(head.queries.reshape(-1, d), budget, self.page)] * rows,
                          "quest per token": [head.pages(row, budget, self.page) for row in head.queries]}
                if budget in remembered:
                    source = remembered[budget]
                    kept = Head(source, layer, index, self.see).of_block(budget)
                    chosen["sparsed"] = [kept | set(range(source.begin, seen.begin))] * rows
                recall.append(len(then & now) / budget)
                union.append(len(set.union(*own)) / budget)
                for name, cells in chosen.items():
                    figures[name].append((head.accuracy(cells, own, budget), head.mass(cells), *head.squares(cells)))
            sets = {}
            for name, found in figures.items():
                found = np.array(found)
                sets[name] = (*found[:, :2].mean(axis=0), np.sqrt(found[:, 2].sum() / found[:, 3].sum()))
            self.cells.append(place | {"budget": budget, "recall": np.mean(recall), "union": np.mean(union), "sets": sets})

    def report(self):
        """The rows that the program prints but the last one, each a dictionary in the order of its keys."""
        rows = []
        for split in (None, "layer", "step", "masked"):
            rows += self.for_each(self.cells, split, self.recall_row, by_budget=True)
        for split in (None, "layer"):
            rows += self.for_each(self.cells, split, self.set_rows, by_budget=True)
        for split in (None, "layer", "step", "masked"):
            rows += self.for_each(self.states, split, self.state_row)
        for split in (None, "step", "masked"):
            rows += self.for_each(self.predictions, split, self.prediction_row)
        return rows

    def for_each(self, observations, split, make, by_budget=False):
        if split not in ("step", "masked"):
            observations = [each for each in observations if each["step"] > 1]
        bins = defaultdict(list)
        for each in observations:
            share = max(int(np.ceil(each["share"] * BINS)), 1) - 1
            label = {None: 0, "masked": share}.get(split, each.get(split))
            bins[each["budget"] if by_budget else 0, label].append(each)
        rows = []
        for (budget, label), members in sorted(bins.items(), key=lambda item: item[0]):
            head = {"budget": budget} if by_budget else {}
            if split == "masked":
                head["masked"] = f"{label / BINS:.3f}-{(label + 1) / BINS:.3f}"
            elif split:
                head[split] = label
            rows += [head | row for row in make(members)]
        return rows

    @staticmethod
    def low(name, values):
        return {name: np.mean(values), f"{name}_p10": nearest_rank(values, 10), f"{name}_min": min(values)}

    @staticmethod
    def high(name, values):
        return {name: np.mean(values), f"{name}_p90": nearest_rank(values, 90), f"{name}_max": max(values)}

    def recall_row(self, members):
        return [self.low("recall", [each["recall"] for each in members])
                | self.low("union_ratio", [each["union"] for each in members]) | {"observations": len(members)}]

    def set_rows(self, members):
        rows = []
        for name in SETS:
            found = [each["sets"][name] for each in members if name in each["sets"]]
            if found:
                accuracy, mass, error = zip(*found)
                rows.append({"cells_of": name} | self.low("accuracy", accuracy) | self.low("mass", mass)
                            | self.high("error", error) | {"observations": len(found)})
        return rows

    def state_row(self, members):
        names = [f"{name}{relative}" for name in ("hidden_gap", "hidden_block_gap", "query_gap", "block_gap")
                 for relative in ("", "_relative")]
        means = np.mean([each["gaps"] for each in members], axis=0)
        return [dict(zip(names, means)) | {"prefix_share": np.mean([each["prefix"] for each in members]),
                                           "observations": len(members)}]

    def prediction_row(self, members):
        return [self.high("kl", [each["kl"] for each in members]) | {"observations": len(members)}]
