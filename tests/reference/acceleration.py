"""Caches, SureLock and the guide, written from docs/methods/caches.md, surelock.md and guided_diffusion.md, and the papers they name.

`Cached` is a network for the decoders of samplers.py: it chooses the rows of each pass (cache policy), leaves out the
locked ones and decides what locks; `guided_generate` is guided diffusion on top of it. Every pass leaves a `Pass` in
`trace`. Where the page leaves a choice, the comment at that line says which one is taken.
"""
import math
import re
from dataclasses import dataclass, field

import numpy as np

from models import Store, softmax
from samplers import Decode, Margins, decode, shift_right

CACHES = ("none", "prefix", "dual", "free", "free-literal", "dkv")  # sparse-dllm, too, which takes no locks
SPARSE_DLLM = re.compile(r"sparse-dllm(?:=(?P<keep>[0-9.]+))?(?:,pool=(?P<pool>[0-9]+))?")
DLLM_CACHE = re.compile(r"dllm-cache(?:=(?P<ratio>[0-9.]+))?(?:,answer=(?P<answer>[0-9]+))?")
DKV_REFRESH = {"llada": 8, "llada_moe": 8, "dream": 4}


@dataclass
class Lock:
    """The options of --lock. gate None: off. eps None: delta alone."""
    eps: float | None = 5e-4
    gate: float | None = 20
    min_age: int = 1
    population: str = "candidates"
    prompt: str = "paper"
    unlock_every: int | None = None
    budget: int = 32
    unlock_eps: float | None = None
    interval: int = 4
    cooldown: int = 4
    strictness: float = 0.5
    delta: float | None = None


@dataclass
class Pass:
    """One forward pass: of the diffusion model (denoise, draft) or of the guide (verify)."""
    kind: str
    rows: list
    block: int = 0
    committed: list = field(default_factory=list)  # (position, token)
    locked: list = field(default_factory=list)
    unlocked: list = field(default_factory=list)
    probed: list = field(default_factory=list)     # the probes among `rows`
    reused: int = 0  # how many of `rows` all layers but the first have left out


def nearest_rank(values, percent):
    """The k-th smallest value, k = max(1, ceil(percent / 100 * n))."""
    return sorted(values)[max(1, math.ceil(percent / 100 * len(values))) - 1]


def log_softmax(logits):
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def divergence(log_p, log_q):
    """KL(p || q) in nats; what rounding makes negative is 0."""
    return max(0.0, float(np.sum(np.exp(log_p) * (log_p - log_q))))


class Estimate:
    """rho and G of the lock's error bound, from rows whose D was measured in two passes in a row."""
    ENOUGH, LARGEST_RHO, BOUNDS = 64, 0.99, (1e-8, 5e-2)

    def __init__(self, delta):
        self.delta, self.ratios, self.slopes, self.smallest = delta, [], [], math.inf

    def see(self, now, before, change):
        self.smallest = min(self.smallest, before)
        if before >= 1e-6:
            self.ratios.append(now / before)
            self.slopes.append(change / math.sqrt(before))

    def eps(self):
        """None while the estimate is not to be used."""
        if len(self.ratios) < self.ENOUGH:
            return None
        rho, slope = nearest_rank(self.ratios, 95), nearest_rank(self.slopes, 95)
        if not rho < self.LARGEST_RHO:
            return None
        low, high = self.BOUNDS
        return high if slope == 0 else min(high, max(low, (self.delta * (1 - math.sqrt(rho)) / slope) ** 2))


class KeptLayers:
    """dLLM-Cache: what attention and feed-forward of each layer last added to the answer's rows."""

    def __init__(self, model, answer, ratio, margins):
        self.model, self.answer, self.margins = model, answer, margins
        self.count = math.floor(ratio * len(answer))
        self.kept = {}  # (layer, part, row): what it added
        self.chosen = {}  # layer: its rows of the answer

    def compute(self, tokens, rows, store, is_whole):
        """Logits of `rows`, of which the answer's are computed whole or in part."""
        of_answer = np.array([row in self.answer for row in rows])

        def renewed(layer, values):
            chosen = list(self.answer)
            if layer > 0 and not is_whole:
                now, before = values[of_answer].reshape(len(chosen), -1), store.v[layer, chosen].reshape(len(chosen), -1)
                scale = np.linalg.norm(now, axis=1) * np.linalg.norm(before, axis=1)
                distances = 1 - np.sum(now * before, axis=1) / scale
                order = np.argsort(-distances, kind="stable")
                if 0 < self.count < len(order):
                    last, other = distances[order[self.count - 1]], distances[order[self.count]]
                    self.margins.see_lock(last, other, 5e-6 * math.sqrt(abs(last)) + 1e-10)
                chosen = [self.answer[at] for at in order[:self.count]]
            self.chosen[layer] = set(chosen)
            return np.array([row not in self.answer or row in self.chosen[layer] for row in rows])

        def amend(layer, part, out):
            out = out.copy()
            for at in np.flatnonzero(of_answer):
                key = (layer, part, rows[at])
                if rows[at] in self.chosen[layer]:
                    self.kept[key] = out[at].copy()
                else:
                    out[at] = self.kept[key]
            return out

        default, self.model.amend = self.model.amend, amend
        try:
            return self.model.rows(tokens, rows, rows, store, renewed=renewed)
        finally:
            self.model.amend = default


class Cached:
    """Computes the rows that a cache policy and the lock leave, one pass after the other."""

    def __init__(self, cache="none", refresh=None, cache_block=None, block_length=None, lock=None, prompt_block=None):
        self.prompt_block = prompt_block
        self.cache, self.refresh, self.cache_block, self.block_length = cache, refresh, cache_block, block_length
        self.lock, self.trace, self.margins = lock, [], Margins()
        self.measured = []  # D of every lockable row that passed the gate, for choosing eps
        self.rounds = []    # with a guide: (drafts, drafts accepted) of each round
        sparse = SPARSE_DLLM.fullmatch(cache)
        self.keep, self.pool = (float(sparse["keep"] or 0.5), int(sparse["pool"] or 3)) if sparse else (None, None)
        dllm = DLLM_CACHE.fullmatch(cache)
        self.dllm = (float(dllm["ratio"] or 0.25), int(dllm["answer"] or 0)) if dllm else None
        self.choices = 0    # of cells that Sparse-dLLM keeps, in all layers

    def start(self, model, canvas, prompt_length, cfg_scale=0.0):
        self.model, self.mask, self.size, self.prompt = model, model.shape.mask_id, len(canvas), prompt_length
        self.shifted = model.shape.family == "dream"
        self.cfg_scale, self.fixed = cfg_scale, canvas != self.mask
        self.stores = [Store(model.shape, self.size) for _ in range(2 if cfg_scale > 0 else 1)]
        self.block_length = self.block_length or self.size - prompt_length
        self.cache_block = self.cache_block or self.block_length
        if self.cache == "dkv" and not self.refresh:
            self.refresh = DKV_REFRESH[model.shape.family]
        if self.dllm:
            self.answer = range(max(prompt_length - 1, 0) if self.shifted else prompt_length, self.size)
            self.interval = self.dllm[1] or (2 if self.shifted else 7)
            self.refresh = self.refresh or (25 if self.shifted else 50)
            self.layers = [KeptLayers(model, self.answer, self.dllm[0], self.margins) for _ in self.stores]
        self.once = 0  # end of the prompt's blocks that are computed once
        if self.prompt_block:
            whole = next((at for at in range(prompt_length) if canvas[at] == self.mask), prompt_length)
            self.once = max(whole - (1 if self.shifted else 0), 0) // self.prompt_block * self.prompt_block
        self.passes, self.block, self.block_passes, self.frozen = 0, None, 0, 0
        # Passes that computed the row with its token as input. A mask is nobody's present token: it stays at 0, or
        # FreeCache and dKV-Cache would freeze masks.
        self.age = np.zeros(self.size, dtype=int)
        self.posterior, self.last_d = {}, {}  # row -> log posterior of its last computation; (pass, D)
        self.locked, self.unlocked_at = {}, {}  # row -> pass, log posterior at the lock, last probe; pass
        self.estimate = Estimate(self.lock.delta) if self.lock and self.lock.delta else None

    # Rows of a pass

    def policy_rows(self, canvas, low, high, predictors):
        """Rows that the policy alone computes, before candidates are added and locked rows are left out."""
        self.keeps = self.is_confined = False
        everything = list(range(self.size))
        step = 1 if self.shifted else 0
        within = self.block_passes  # passes of this block so far
        if self.passes == 0 or self.cache == "none":
            return everything
        if self.dllm:
            return everything if self.passes % self.refresh == 0 else list(self.answer)
        if self.cache in ("prefix", "dual"):
            if within == 0 or (self.refresh and within % self.refresh == 0):
                return everything
            return everything[max(low - step, 0):None if self.cache == "prefix" else high]
        if self.keep is not None:
            # The first two passes of a block are whole, and all that predict a position outside of it.
            number = within % self.refresh if self.refresh else within
            first = max(low - step, 0)
            self.keeps = number > 0
            if number < 2 or any(not first <= row < high for row in predictors):
                return everything
            self.is_confined = True
            return everything[first:high]
        if self.cache == "dkv":
            if self.passes % self.refresh == 0 or within < 2:
                return everything
            converged = self.age >= 1
            if self.shifted:
                converged = converged & np.append(self.age[1:] >= 1, True)
            return [row for row in everything if not converged[row]]
        finished = self.age >= 1 if self.cache == "free" else canvas != self.mask
        end, reach = 0, self.prompt
        while reach > end and np.all(finished[end:reach]):
            end, reach = reach, min(reach + self.cache_block, self.size)
        self.frozen = max(self.frozen, end)
        if self.refresh and self.passes % self.refresh == 0:
            return everything
        return everything[max(self.frozen - step, 0):]

    def logits(self, canvas, low, high, eligible):
        """Raw logits [size, vocab] of one pass; rows that are not computed are NaN."""
        if (low, high) != self.block:
            self.block, self.block_passes = (low, high), 0
        candidates = np.flatnonzero(eligible)
        predictors = {max(int(p) - 1, 0) if self.shifted else int(p) for p in candidates}
        rows = set(self.policy_rows(canvas, low, high, predictors))
        self.measures = self.cache in ("none", "free", "free-literal") or len(rows) == self.size
        rows = sorted((rows | predictors) - set(self.locked))
        rows = [row for row in rows if row >= self.once]
        if self.passes == 0:
            for begin in range(0, self.once, self.prompt_block or 1):
                block = np.arange(begin, begin + self.prompt_block)
                self.model.rows(canvas[block], block, block, self.stores[0],
                                seen=lambda layer, q: list(range(block[-1] + 1)))
        if not predictors <= set(rows):
            raise RuntimeError("a row that predicts a candidate is locked")
        probes = []
        # Not said by the page: where D is not measured, no row is probed either.
        if self.lock and self.lock.unlock_every and self.passes % self.lock.unlock_every == 0 and self.measures:
            probes = sorted(self.locked, key=lambda row: (self.locked[row][2], row))[:self.lock.budget]
        # Probes are computed whatever the cache policy says of their rows.
        computed = rows + probes
        cells = np.array(rows + [-1] * len(probes))
        live = range(max(low - 1, 0) if self.shifted else low, high)
        is_whole = not self.dllm or self.passes % self.interval == 0

        def compute(half, tokens):
            store = self.stores[half]
            if self.dllm:
                return self.layers[half].compute(tokens[computed], computed, store, is_whole)
            return self.model.rows(tokens[computed], computed, cells, store, **self.seen(store, live))

        out = compute(0, canvas)
        if self.cfg_scale > 0:
            unconditional = compute(1, np.where(self.fixed, self.mask, canvas))
            out = unconditional + (self.cfg_scale + 1) * (out - unconditional)
        self.age[rows] += canvas[rows] != self.mask  # a probe leaves its cell alone, so it does not age it
        self.age[:self.once] += self.passes == 0
        self.computed, self.probes, self.out = rows, probes, dict(zip(computed, log_softmax(out)))
        logits = np.full((self.size, out.shape[-1]), np.nan)
        logits[rows] = out[:len(rows)]
        first = list(range(self.once)) if self.passes == 0 else []
        self.trace.append(Pass("denoise", first + sorted(computed), (low - self.prompt) // max(high - low, 1),
                               probed=sorted(probes), reused=0 if is_whole else len(self.answer) - self.layers[0].count))
        return logits

    def seen(self, store, live):
        """The cells that Sparse-dLLM lets the rows of a pass attend to, as an argument of Model.rows()."""
        others = [cell for cell in range(self.size) if cell not in live]
        if not self.keeps or max(1, math.floor(self.keep * len(others))) >= len(others):
            return {}
        if self.is_confined:
            return {"seen": lambda layer, q: store.kept[layer] + list(live)}
        store.kept = {}

        def choose(layer, q):
            """q is that of all rows but those that are computed once: the pass is whole."""
            first = live.start - (self.size - len(q))
            store.kept[layer] = self.best(q[first:first + len(live)], store.k[layer], others)
            self.choices += 1
            return list(range(self.size))

        return {"seen": choose}

    def best(self, queries, keys, cells):
        """The share of `cells` whose keys, or those of neighbours, score best for the mean query: the mean over heads."""
        heads = queries.shape[1]
        keys = np.repeat(keys[cells], heads // keys.shape[1], axis=1)
        scores = np.mean([keys[:, head] @ np.mean(queries[:, head], axis=0) for head in range(heads)], axis=0)
        reach = self.pool // 2
        pooled = np.array([max(scores[max(at - reach, 0):at + reach + 1]) for at in range(len(cells))])
        count = max(1, math.floor(self.keep * len(cells)))
        order = np.argsort(-pooled, kind="stable")
        last, other = pooled[order[count - 1]], pooled[order[count]]
        if last != other:  # equal ones are the score of one neighbour
            self.margins.see_lock(last, other, 2e-5 * float(np.max(np.abs(scores))))
        return sorted(cells[at] for at in order[:count])

    # The lock, after each pass

    def predicted(self, row):
        """The position that a row predicts, None for the last row of a shifted model."""
        if not self.shifted:
            return row
        return row + 1 if row + 1 < self.size else None

    def committed(self, canvas, positions):
        """The pass is over and its commits are in `canvas`."""
        record = self.trace[-1]
        record.committed = sorted((int(p), int(canvas[p])) for p in positions)
        if self.lock:
            self.update_locks(canvas, record)
        self.passes += 1
        self.block_passes += 1

    def in_prompt(self, row):
        return row < self.prompt and self.predicted(row) is not None and self.predicted(row) < self.prompt

    def update_locks(self, canvas, record):
        lock, now = self.lock, self.passes
        known = canvas != self.mask
        lockable = [row for row in self.computed if known[row] and self.age[row] >= lock.min_age
                    and (self.predicted(row) is None or known[self.predicted(row)])
                    # Not said by the page: a row that cools down is none of the population either.
                    and (row not in self.unlocked_at or now - self.unlocked_at[row] > lock.cooldown)]
        u = {row: 1 - float(np.exp(np.max(log_p))) for row, log_p in self.out.items()}
        eager = {row for row in self.computed if lock.prompt == "eager" and self.in_prompt(row)}
        population = [row for row in (lockable if lock.population == "candidates" else self.computed)
                      if row not in eager]
        theta, beyond = None, math.inf
        if lock.gate is not None and lock.gate < 100 and population:
            theta = nearest_rank([u[row] for row in population], lock.gate)
            beyond = min((u[row] for row in population if u[row] > theta), default=math.inf)
        # q is the posterior of the last pass that computed the row, even if that pass measured nothing; a probe is no
        # such pass, so that a row unlocked is compared with its posterior at the lock.
        d = {row: divergence(self.out[row], self.posterior[row]) if row in self.posterior else math.inf
             for row in (lockable if self.measures else [])}
        passing = {row: value for row, value in d.items() if theta is None or row in eager or u[row] <= theta}
        eps = self.bound(passing)
        for row, value in d.items():
            needed = lock.strictness * eps if row in self.unlocked_at else eps
            if theta is not None and row not in eager and value <= needed:
                self.margins.see_lock(u[row], theta if u[row] > theta else beyond, 2e-5)
            if row not in passing:
                continue
            self.measured.append(value)
            if needed > 0:
                # logits off by z change D by about sqrt(2 D) z
                self.margins.see_lock(value, needed, 5e-5 * math.sqrt(needed) + 2e-7)
                if value <= needed:
                    self.locked[row] = (now, self.out[row], now)
                    record.locked.append(row)
        self.probe(theta, eps, record)
        for row, value in passing.items():
            self.last_d[row] = (now, value)
        self.posterior.update({row: self.out[row] for row in self.computed})

    def bound(self, d):
        """eps of this pass. Samples of delta= come from the rows that pass the gate and count in the pass itself."""
        if not self.estimate:
            return self.lock.eps
        for row, value in d.items():
            before = self.last_d.get(row, (-2, 0.0))
            if before[0] == self.passes - 1 and np.isfinite(before[1]) and np.isfinite(value):
                change = float(np.max(np.abs(self.out[row] - self.posterior[row])))
                self.estimate.see(value, before[1], change)
        eps = self.estimate.eps()
        return eps if eps is not None else self.lock.eps or 0.0

    def probe(self, theta, eps, record):
        lock, now = self.lock, self.passes
        bound = 10 * eps if lock.unlock_eps is None else lock.unlock_eps
        floor = 0.0 if theta is None else theta
        for row in self.probes:
            since, at_lock, _ = self.locked[row]
            self.locked[row] = (since, at_lock, now)
            u = 1 - float(np.exp(np.max(self.out[row])))
            drift = divergence(self.out[row], at_lock)
            if now - since <= lock.interval:
                continue
            if drift > bound:
                self.margins.see_lock(u, floor, 2e-5)
            if u > floor:
                self.margins.see_lock(drift, bound, 5e-5 * math.sqrt(bound) + 2e-7)
            if u > floor and drift > bound:
                del self.locked[row]
                self.unlocked_at[row] = now
                record.unlocked.append(row)


# The guide

@dataclass
class Guide:
    """A causal model of the same vocabulary and the rules of --guide-*. ends: its end tokens, its usual one first."""
    model: object
    match: str = "relative=0.5"
    fallback: str = "dlm"
    block: int = 32
    ends: tuple = ()


def best_ids(logits):
    """Ids, best first, ties to the lowest."""
    return np.argsort(-logits, kind="stable")


def accepted(match, logits, draft, draft_logit, margins):
    """Does the guide's row `logits` accept the draft, whose logit for the diffusion model is draft_logit?"""
    name, _, value = match.partition("=")
    order = best_ids(logits)
    if name == "tau-literal":
        bound = float(value) * logits[order[0]]
        margins.see_lock(draft_logit, bound, 1e-3)
        return bool(draft_logit > bound)
    best = {"exact": 1, "top-k": int(value or 2) if name == "top-k" else 0, "relative": 2}[name]
    inside = draft in order[:best]
    other = order[min(best, len(order) - 1) if inside else best - 1]  # the first one out, or the last one in
    if other != draft:
        margins.token = min(margins.token, float(abs(logits[draft] - logits[other])))
    if name != "relative" or not inside:
        return bool(inside)
    p = softmax(logits)
    margins.see_choice(p[draft], float(value) * p[order[0]])
    return bool(p[draft] >= float(value) * p[order[0]])


def guided_generate(model, prompt, gen_length, guide, network=None, block_length=None, cfg_scale=0.0,
                    logits_eos_inf=False, ends=()):
    """Guided diffusion. `ends`: the ids that end an answer for the diffusion model, its usual one first.

    Masks inside the prompt are drafted with the first block; the guide's sequence then holds, in order of position,
    known tokens between the drafts, which nobody judges.
    """
    mask_id, judge = model.shape.mask_id, guide.model
    ends, guide_ends = list(ends) or [model.shape.eos_id], list(guide.ends) or [judge.shape.eos_id]
    block_length = gen_length if block_length is None else block_length
    network = network or Cached()
    canvas = np.array(list(prompt) + [mask_id] * gen_length, dtype=np.int64)
    network.start(model, canvas, len(prompt), cfg_scale)
    margins, store, exact = network.margins, Store(judge.shape, len(canvas)), 0
    rounds = []

    def to_guide(tokens):
        """The guide's ids: of the answer; the prompt is passed on as it is.

        Not said by the page: an end token of both models stays what it is, and what was committed is told in the
        same way as the drafts.
        """
        out = tokens.copy()
        out[len(prompt):][np.isin(tokens[len(prompt):], [end for end in ends if end not in guide_ends])] = guide_ends[0]
        return out

    while np.any(canvas == mask_id):
        first = int(np.argmax(canvas == mask_id))
        low = len(prompt) + max(first - len(prompt), 0) // block_length * block_length
        high = min(low + block_length, len(canvas))
        masked = (canvas == mask_id) & (np.arange(len(canvas)) < high)
        logits = network.logits(canvas, low, high, masked)
        network.committed(canvas, [])
        network.trace[-1].kind = "draft"
        logits = shift_right(logits) if model.shape.family == "dream" else logits.copy()
        logits[:, mask_id] = -np.inf
        logits[:, judge.shape.vocab:] = -np.inf
        if logits_eos_inf:
            logits[:, model.shape.eos_id] = -np.inf
        places = [int(p) for p in np.flatnonzero(masked)]
        drafts = canvas.copy()
        drafts[places] = np.argmax(logits[places], axis=-1)
        told = to_guide(drafts)
        taken, refused, done = [], None, 0
        while refused is None and done < len(places):
            part = places[done:done + guide.block]
            # From the first row that is new to the row that judges the last draft; that draft's own row judges nothing.
            rows = list(range(exact, part[-1]))
            out = dict(zip(rows, judge.rows(told[rows], rows, rows, store)))
            exact = part[-1]
            network.trace.append(Pass("verify", rows, network.trace[-1].block))
            for place in part:
                margins.see_tokens(logits[place:place + 1])
                if not accepted(guide.match, out[place - 1], told[place], logits[place, drafts[place]], margins):
                    refused = place
                    break
                taken.append(place)
            done += len(part)
        commits = {place: drafts[place] for place in taken}
        if refused is not None and guide.fallback == "ar":
            row = out[refused - 1].copy()
            if mask_id < len(row):
                row[mask_id] = -np.inf  # not said by the page: the mask is no token to commit
            margins.see_tokens(row[None])
            token = int(best_ids(row)[0])
            commits[refused] = ends[0] if token in guide_ends and token not in ends else token
        elif not taken:
            commits[places[0]] = drafts[places[0]]
        for place, token in commits.items():
            canvas[place] = token
        network.trace[-1].committed = sorted((place, int(token)) for place, token in commits.items())
        network.rounds.append((len(places), len(taken)))
        rounds.append((network.passes, sorted(commits)))
        # Exact are the rows computed from what is now committed. The row before the next draft judges it, so it is
        # computed (again) with that draft.
        same = (to_guide(canvas) == told) & (canvas != mask_id)
        known = int(np.argmin(np.append(canvas != mask_id, False)))
        exact = min(exact, known - 1, int(np.argmin(np.append(same, False))))
    return Decode(canvas.tolist(), canvas[len(prompt):].tolist(), margins, network.passes, rounds)


def accelerate(model, prompt, setting, method, eot_id=None):
    """Runs one setting (see samplers.decode) under a method: {cache, refresh, cache_block, prompt_block, lock, guide}, all optional.

    Returns the Decode, whose margins cover the lock and the guide, and the Cached, whose trace has the passes.
    """
    network = Cached(method.get("cache", "none"), method.get("refresh"), method.get("cache_block"),
                     setting.get("block_length"), method.get("lock"), method.get("prompt_block"))
    if method.get("guide"):
        done = guided_generate(model, prompt, guide=method["guide"], network=network,
                               ends=[model.shape.eos_id] + ([eot_id] if eot_id is not None else []), **setting)
    else:
        done = decode(model, prompt, setting, eot_id, network)
        done.margins.lock = min(done.margins.lock, network.margins.lock)
    return done, network


def total_rows(network):
    """Rows computed by the diffusion model in the whole run, both halves of guidance counted.

    Rows that a pass computes in the first layer alone count as the share that this layer is of all.
    """
    halves, layers = len(network.stores), network.model.shape.layers
    return sum(halves * len(record.rows) - math.floor(halves * record.reused * (layers - 1) / layers + 0.5)
               for record in network.trace if record.kind != "verify")
