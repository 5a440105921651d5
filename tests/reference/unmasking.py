"""Rules that decide what a step of masked diffusion writes and masks again, at temperature 0, each written as a loop over
whole canvases from the paper and the repository that it names, and from docs/methods/unmask.md where that says what
Lacuna does otherwise.

    local-leap  LocalLeap (arXiv 2510.07081)
    eb          EB-Sampler (arXiv 2505.24857)
    streaming   Streaming-dLLM (arXiv 2601.17917; xiaoshideta/Streaming-dLLM, LLaDA-1.5/generate.py)
    klass       KLASS (shkim0116/KLASS, src/model/llada_klass.py)
    wino        WINO (Feng-Hong/WINO-DLLM, LLaDA/decoding.py)
    saber       Saber (arXiv 2510.18165; zhaoyMa/Saber, decoding.py)
    credit      CreditDecoding (arXiv 2510.06133; inclusionAI/dInfer, CreditThresholdParallelDecoder)
    prophet     Prophet (arXiv 2508.19982; pixeli99/Prophet, generate_earlyexit.py)
    slow-fast   SlowFast (arXiv 2506.10848; LiangrunFlora/Slow-Fast-Sampling, generate_slow_fast_sampling.py)
    dsb         DSB (arXiv 2602.05992; lizhuo008/DSB, llada/generate.py, generate_dsb)
    d3llm       d3LLM (hao-ai-lab/d3LLM, d3llm_llada_generate_util.py, d3llm_dream_generate_util.py)
    adablock    AdaBlock-dLLM (arXiv 2509.26432; lgxi24/AdaBlock-dLLM, llada/generate_adablock.py)

What all of them share here: blocks from left to right, the mask token is never written, a mask of the prompt is written
with the first block, ties go to the lowest position.
"""
import collections
import copy
from dataclasses import dataclass, field

import numpy as np

from models import SHIFTED_FAMILIES, Store, attention, softmax
from uniform import RngStream

SUFFIX = 21  # what a stream is for


@dataclass
class Run:
    """canvases: after each pass. close: the first pass with a decision that single precision may take otherwise."""
    canvases: list = field(default_factory=list)
    close: int | None = None
    met: collections.Counter = field(default_factory=collections.Counter)

    def see(self, a, b, tolerance=1e-4):
        """Two numbers were compared that are known up to `tolerance`, relative to the larger."""
        if a != b and np.isfinite(a) and np.isfinite(b) and abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-3):
            self.close = len(self.canvases) if self.close is None else self.close

    def see_cut(self, values, count):
        """The `count` largest of some values were taken."""
        ordered = sorted(values, reverse=True)
        if 0 < count < len(ordered):
            self.see(ordered[count - 1], ordered[count])

    def see_tokens(self, logits):
        """The best tokens of these rows were taken."""
        for row in logits:
            second, best = np.sort(row)[-2:]
            if best - second < 1e-4 and self.close is None:
                self.close = len(self.canvases)


class Predictions:
    """Predictions of one pass: for every position its best token but the mask, that token's probability, the distribution.

    network: computes the logits of a canvas, for those of the unconditional one with `alone`; those of positions that it does not see are 0.
    """

    def __init__(self, model, canvas, fixed, cfg_scale, writes_masks=False, network=None):
        mask = model.shape.mask_id
        network = network or (lambda tokens, alone=False: model.logits(tokens))
        logits = network(canvas)
        if cfg_scale > 0:
            alone = network(np.where(fixed, mask, canvas), alone=True)
            logits = alone + (cfg_scale + 1) * (logits - alone)
        if model.shape.family in SHIFTED_FAMILIES:
            logits = np.concatenate([logits[:1], logits[:-1]])
        self.distributions = softmax(logits)
        self.logits = logits if writes_masks else np.where(np.arange(logits.shape[1]) == mask, -np.inf, logits)
        self.tokens = np.argmax(self.logits, axis=1)
        self.confidences = self.distributions[np.arange(len(canvas)), self.tokens]


def most_confident(positions, confidences, count):
    return sorted(positions, key=lambda p: (-confidences[p], p))[:count]


class LocalLeap:
    def __init__(self, tau=0.9, relaxed=0.75, radius=4):
        self.tau, self.relaxed, self.radius = tau, relaxed, radius

    def choose(self, run, masked, now, **_):
        c = now.confidences
        for p in masked:
            run.see(c[p], self.tau)
            run.see(c[p], self.relaxed)
        run.see_cut([c[p] for p in masked], 1)
        anchors = [p for p in masked if c[p] >= self.tau]
        chosen = set(most_confident(masked, c, 1)) | set(anchors)
        for p in masked:
            if c[p] >= self.relaxed and min((abs(p - a) for a in anchors), default=np.inf) <= self.radius:
                run.met["relaxed"] += p not in chosen
                chosen.add(p)
        return chosen


class EntropyBudget:
    def __init__(self, bound=0.001):
        self.bound = bound

    def choose(self, run, masked, now, **_):
        p = now.distributions
        entropies = {q: -float(np.sum(p[q] * np.log(np.maximum(p[q], 1e-300)))) for q in masked}
        ordered = sorted(masked, key=lambda q: (entropies[q], q))
        for a, b in zip(ordered, ordered[1:]):
            run.see(entropies[a], entropies[b])
        count = 1
        while count < len(ordered):
            some = [entropies[q] for q in ordered[:count + 1]]
            run.see(sum(some) - max(some), self.bound)
            if sum(some) - max(some) > self.bound:
                break
            count += 1
        run.met["several"] += 1 < count < len(ordered)
        return set(ordered[:count])


class Streaming:
    """The first pass of a block takes the threshold itself. Dream's published first pass always writes the block's first
    position alone; here it is as LLaDA's."""

    def __init__(self, tau=0.9, alpha=0.3):
        self.tau, self.alpha = tau, alpha
        self.is_first = True

    def start_block(self):
        self.is_first = True

    def choose(self, run, masked, now, seen_masks, seen, **_):
        threshold = self.tau if self.is_first else self.tau * (1 - self.alpha * (1 - seen_masks / seen))
        self.is_first = False
        c = now.confidences
        for q in masked:
            run.see(c[q], threshold)
        run.see_cut([c[q] for q in masked], 1)
        sure = {q for q in masked if c[q] >= threshold}
        run.met["below tau"] += any(c[q] < self.tau for q in sure)
        return sure | set(most_confident(masked, c, 1))


class Window:
    """A network that sees what precedes the block's end, `suffix` positions behind it, and the last one (Streaming-dLLM's
    deterministic_window_tail_sampler). With a cache, passes of a block after the first compute it, what is behind it, and the
    rows that predict masks of the prompt. A cut leaves out the positions from there on, of a network that sees all; with a
    stop (the dual cache), passes after the first compute no row from there on."""

    def __init__(self, model, size, suffix, is_cached, dropout=None):
        self.model, self.size, self.suffix, self.is_cached = model, size, suffix, is_cached
        self.dropout, self.blocks = dropout, 0
        self.cut = self.stop = None

    def start_block(self, low, high):
        behind = list(range(high, self.size))
        if self.dropout:
            behind = [p for p in behind[:self.suffix] if self.keeps(p, p - high)]
        else:
            behind = behind[:self.suffix] + behind[self.suffix:][-1:]
        self.blocks += 1
        self.seen = np.array(list(range(high)) + behind)
        self.shift = int(self.model.shape.family in SHIFTED_FAMILIES)
        self.low, self.high = low, high
        self.stores = {}

    def keeps(self, position, distance):
        """Whether DPad's dropout, (decay, scale, seed), leaves a position visible."""
        decay, scale, seed = self.dropout
        x = decay * distance / max(self.suffix - 1, 1)
        drawn = RngStream(seed, SUFFIX, self.blocks).uniform(position)
        return drawn < scale * np.exp(-x ** 2 / 2) / np.sqrt(2 * np.pi)

    def __call__(self, canvas, alone=False):
        """The cells of a block's store are the positions that it sees."""
        logits = np.zeros((self.size, self.model.shape.vocab))
        cells = np.arange(len(self.seen))
        if not alone:
            self.masked = canvas[:self.high] == self.model.shape.mask_id
        if self.is_cached and alone in self.stores:
            needed = np.append(np.roll(self.masked, -self.shift), np.ones(self.size - self.high, dtype=bool))
            needed[max(self.low - self.shift, 0):] = True
            needed[len(needed) if self.stop is None else self.stop:] = False
            cells = cells[needed[self.seen]]
        store = self.stores.setdefault(alone, Store(self.model.shape, len(self.seen)))
        if self.cut is not None:
            cells, store = cells[cells < self.cut], copy.copy(store)
            store.cells, store.k, store.v = self.cut, store.k[:, :self.cut], store.v[:, :self.cut]
        rows = self.seen[cells]
        logits[rows] = self.model.rows(canvas[rows], rows, cells, store)
        return logits


class Klass:
    """The Kullback-Leibler divergence is that of raw distributions, without the published 1e-12 under the logarithm."""

    def __init__(self, tau=0.9, kl=0.01, history=2):
        self.tau, self.kl, self.history = tau, kl, history
        self.before, self.divergences = None, []

    def start_block(self):
        self.divergences = []

    def choose(self, run, masked, now, **_):
        p = now.distributions
        if self.before is None:
            divergence = np.full(len(p), np.inf)
        else:
            divergence = np.sum(p * (np.log(p) - np.log(self.before)), axis=1)
        self.before = p
        self.divergences.append(divergence)
        c = now.confidences
        ready = set()
        if len(self.divergences) >= self.history:
            stable = np.all(np.array(self.divergences[-self.history:]) < self.kl, axis=0)
            ready = {q for q in masked if stable[q] and c[q] > self.tau}
        for q in masked:
            run.see(c[q], self.tau)
            run.see(divergence[q], self.kl, 2e-3)
        run.see_cut([c[q] for q in masked], 1)
        run.met["several"] += len(ready) > 1
        run.met["one by one"] += not ready
        run.met["unstable"] += any(c[q] > self.tau and q not in ready for q in masked)
        return ready or set(most_confident(masked, c, 1))


class Wino:
    def __init__(self, tau=0.6, back=0.9):
        self.tau, self.back = tau, back

    def start_block(self):
        self.accepted = 30

    def verify(self, model, canvas, fixed, low, high, cfg_scale):
        """Distributions of one mask for each position of the block, behind the canvas: they see each other and the
        canvas, but not their own place in it; the canvas does not see them."""
        length, block, mask = len(canvas), np.arange(low, high), model.shape.mask_id
        visible = np.ones((length + len(block), length + len(block)), dtype=bool)
        visible[:, length:] = False
        visible[length:, length:] = True
        visible[length + np.arange(len(block)), block] = False
        positions = np.concatenate([np.arange(length), block])

        def logits(tokens):
            tokens = np.concatenate([tokens, np.full(len(block), mask)])
            return model._forward(tokens, positions, lambda _, q, k, v: attention(q, k, v, visible))[length:]
        out = logits(canvas)
        if cfg_scale > 0:
            alone = logits(np.where(fixed, mask, canvas))
            out = alone + (cfg_scale + 1) * (out - alone)
        return softmax(out)

    def choose(self, run, masked, now, **_):
        c = now.confidences
        most = min(max(int(np.float32(len(masked)) * np.float32(0.7)), 5), 20)
        sure = [p for p in masked if c[p] > self.tau]
        for p in masked:
            run.see(c[p], self.tau)
        count = min(max(len(sure), 1), most)
        run.see_cut([c[p] for p in masked], count)
        run.met["widest"] += len(sure) > most
        return set(most_confident(masked, c, count))

    def revoke(self, run, canvas, chosen, now, verified, next_to, **_):
        """verified: the positions of the block that had a token before the pass; next_to: verify() of the block."""
        before, self.accepted = self.accepted, len(chosen)
        if len(chosen) <= 1:
            return []
        doubt = [(next_to[i][canvas[p]], p) for i, p in verified]
        for probability, _ in doubt:
            run.see(probability, self.back)
        doubt = sorted((probability, p) for probability, p in doubt if probability < self.back)
        if len(doubt) >= before:
            run.met["limited"] += 1
            if before > 1:
                run.see(doubt[before - 2][0], doubt[before - 1][0])
            doubt = doubt[:before - 1]
        return [p for _, p in doubt]


class Saber:
    """Fewer than `least` masks are all written. Positions that a pass sees for the first time are not masked again."""

    def __init__(self, least=2):
        self.least = least
        self.last, self.written = None, {}

    def choose(self, run, masked, now, opened, first_block, **_):
        c = now.confidences
        if self.last is None:
            self.last = np.full(len(c), -np.inf)
            self.last[opened] = 0.0
        self.growth = {p: c[p] - self.last[p] for p in opened if np.isfinite(self.last[p])}
        self.last[opened] = c[opened]
        bar = np.mean(list(self.written.values())) if self.written else 1.0
        sure = [p for p in masked if c[p] > bar]
        for p in masked:
            run.see(c[p], bar)
        count = min(max(len(sure), self.least), len(masked))
        run.see_cut([c[p] for p in masked], count)
        run.met["above the mean"] += len(sure) > self.least
        chosen = most_confident(masked, c, count)
        self.written |= {p: c[p] for p in chosen}
        return set(chosen)

    def revoke(self, run, canvas, chosen, now, opened, mask, **_):
        if not np.any(canvas[opened] == mask):
            return []
        written = max(self.least, len(chosen))
        count = min(max(self.least // 2, (written + 7) // 8), written - 1)
        growth = sorted((g, p) for p, g in self.growth.items() if canvas[p] != mask)
        if 0 < count < len(growth) and abs(growth[count - 1][0] - growth[count][0]) < 1e-6:
            run.close = len(run.canvases) if run.close is None else run.close
        run.met["several revoked"] += count > 1
        return [p for _, p in growth[:count]]


class Credit:
    """The mask token has no credit, as it is never written."""

    def __init__(self, tau=0.9, alpha=0.7, gamma=0.2, beta=0.8):
        self.tau, self.alpha, self.gamma, self.beta = tau, alpha, gamma, beta

    def start_block(self):
        self.matrix = None

    def choose(self, run, masked, now, mask, **_):
        if self.matrix is None:
            self.matrix = np.zeros_like(now.distributions)
        self.matrix *= self.beta
        self.matrix[masked, now.tokens[masked]] += now.confidences[masked] ** self.gamma
        fused = np.log(now.distributions) + self.alpha * np.log1p(self.matrix)
        distribution = softmax(fused)
        fused[:, mask] = -np.inf
        best = np.argmax(fused, axis=1)
        run.see_tokens(fused[masked])
        confidence = distribution[np.arange(len(best)), best]
        for p in masked:
            run.see(confidence[p], self.tau)
        run.see_cut([confidence[p] for p in masked], 1)
        run.met["another token"] += any(best[p] != now.tokens[p] for p in masked)
        run.met["early"] += any(confidence[p] >= self.tau > now.confidences[p] for p in masked)
        now.tokens = best
        return {p for p in masked if confidence[p] >= self.tau} | set(most_confident(masked, confidence, 1))


class Prophet:
    """Quotas as LLaDA's; the mask token may be written, and then stays a mask."""

    def __init__(self, early=7.5, mid=5.0, late=2.5, answer=None, length=5):
        self.bounds, self.answer, self.length = (early, mid, late), answer, length

    def fill(self, model, prompt, gen_length, block_length, steps, cfg_scale):
        mask, run = model.shape.mask_id, Run()
        canvas = np.array(list(prompt) + [mask] * gen_length, dtype=np.int64)
        fixed, begin = canvas != mask, len(prompt) + (self.answer or 0)
        region = range(begin, len(canvas) if self.answer is None else min(begin + self.length, len(canvas)))
        blocks = gen_length // block_length
        step = 0
        for low in range(len(prompt), len(canvas), block_length):
            high = low + block_length
            count, per_block = int(np.sum(canvas[low:high] == mask)), steps // blocks
            for i in range(per_block):
                step += 1
                quota = count // per_block + (i < count % per_block)
                masked = [int(p) for p in np.flatnonzero(canvas[:high] == mask)]
                if quota == 0 or not masked:
                    continue  # the published loop runs the network here
                now = Predictions(model, canvas, fixed, cfg_scale, writes_masks=True)
                top = np.sort(now.logits, axis=1)
                lead = np.mean([top[p, -1] - top[p, -2] for p in region])
                progress = step / steps
                bound = self.bounds[0 if progress < 0.33 else 1 if progress < 0.67 else 2]
                run.see(lead, bound)
                if lead >= bound:
                    chosen = np.flatnonzero(canvas == mask)
                    run.met["exit"] += 1
                    run.met["exit in an earlier block"] += high < len(canvas)
                else:
                    run.see_cut([now.confidences[p] for p in masked], quota)
                    chosen = most_confident(masked, now.confidences, quota)
                run.see_tokens(now.logits[chosen])
                canvas[chosen] = now.tokens[chosen]
                run.canvases.append(canvas.tolist())
        return run


class SlowFast:
    """The published loop explores on where the block has no mask left. Masks of the prompt belong to the first span."""

    def __init__(self, tau=0.9, slow=0.9, span=0.3, explore=6):
        self.tau, self.slow, self.span, self.explore = tau, slow, span, explore

    def fill(self, model, prompt, gen_length, block_length, cfg_scale, is_cached):
        mask, run = model.shape.mask_id, Run()
        canvas = np.array(list(prompt) + [mask] * gen_length, dtype=np.int64)
        fixed = canvas != mask
        network = Window(model, len(canvas), len(canvas), is_cached)

        def step(begin, end, tau, cut):
            """A pass that writes in canvas[begin:end]; the masks there, and all confidences."""
            network.cut = cut
            now = Predictions(model, canvas, fixed, cfg_scale, network=network)
            masked = [p for p in range(begin, end) if canvas[p] == mask]
            c = now.confidences
            for p in masked:
                run.see(c[p], tau)
            run.see_cut([c[p] for p in masked], 1)
            run.see_tokens(now.logits[masked])
            sure = [p for p in masked if c[p] >= tau]
            chosen = sure if len(sure) > 1 else most_confident(masked, c, 1)
            canvas[chosen] = now.tokens[chosen]
            run.canvases.append(canvas.tolist())
            return masked, c

        for low in range(len(prompt), len(canvas), block_length):
            high, first = low + block_length, 0 if low == len(prompt) else low
            network.start_block(low, high)
            last_end, cycles = low, 0
            while np.any(canvas[first:high] == mask):
                estimates, end, cycles = [], None, cycles + 1
                for _ in range(self.explore):
                    if not np.any(canvas[first:high] == mask):
                        break
                    masked, c = step(first, high, self.slow, None)
                    if end is not None:
                        continue
                    for p in masked:
                        run.see(c[p], self.span)
                    far = [p for p in masked if p >= last_end and c[p] >= self.span]
                    estimates.append(max(far) + 1 if far else min(last_end + 1, high))
                    if len(estimates) > 1 and np.std(estimates[-2:]) < 1.0:
                        end = estimates[-1]
                if end is None:
                    run.met["mean of two"] += len(estimates) > 1
                    end = int(np.mean(estimates[-2:]))
                cut = None
                while np.any(canvas[first:end] == mask):
                    step(first, end, self.tau, cut)
                    run.met["cut"] += cut is not None and cut < len(canvas)
                    cut = end
                last_end = end
            run.met["several cycles"] += cycles > 1
        return run


class SlidingBlock:
    def __init__(self, tau=0.9, start=32, most=None):
        self.tau, self.start, self.most = tau, start, most

    def start_block(self):
        self.num_written = 0

    def narrow(self, run, masked, low, high):
        """The masks that a step may write."""
        end = min(low + self.start + self.num_written, high)
        if self.most is not None:
            end = min(end, masked[0] + self.most)
        inside = [p for p in masked if p < end]
        run.met["narrow"] += len(inside) < len(masked)
        run.met["beyond its start"] += bool(inside) and inside[-1] >= low + self.start
        return inside

    def choose(self, run, masked, now, **_):
        c = now.confidences
        for p in masked:
            run.see(c[p], self.tau)
        run.see_cut([c[p] for p in masked], 1)
        chosen = {p for p in masked if c[p] >= self.tau} | set(most_confident(masked, c, 1))
        self.num_written += len(chosen)
        return chosen


class AdaptiveBlock:
    """A block's first pass decides where it ends, by its predictions for the masks of the window. Blocks of the usual length
    that are written already get no pass. Dream's published first pass with a cache writes the block's first position alone;
    here it is as LLaDA's."""

    def __init__(self, tau=0.9, delimiter=0.3):
        self.tau, self.delimiter = tau, delimiter

    def end(self, run, now, masked, low, size, gen_length, usual, delimiters):
        window = [p for p in masked if low <= p < min(low + int(0.25 * gen_length), size)]
        run.see_tokens(now.logits[window])
        c = {p: now.confidences[p] for p in window if now.tokens[p] in delimiters}
        for p in c:
            run.see(c[p], self.delimiter)
        run.see_cut(list(c.values()), 1)
        best = max(c, key=lambda p: (c[p], -p), default=None)
        if best is None or c[best] < self.delimiter:
            run.met["usual length"] += 1
            return min(low + usual, size)
        run.met["longer" if best >= low + usual else "delimiter"] += 1
        return best + 1

    def fill(self, model, prompt, gen_length, block_length, cfg_scale, delimiters, cache=None):
        mask, run = model.shape.mask_id, Run()
        canvas = np.array(list(prompt) + [mask] * gen_length, dtype=np.int64)
        fixed, size, low = canvas != mask, len(canvas), len(prompt)
        network = Window(model, size, size, cache is not None)
        while low < size:
            first, high = 0 if low == len(prompt) else low, None
            network.start_block(low, size)
            network.stop = None
            while np.any(canvas[first:high or size] == mask):
                now = Predictions(model, canvas, fixed, cfg_scale, network=network)
                masked = [p for p in range(first, high or size) if canvas[p] == mask]
                high = high or self.end(run, now, masked, low, size, gen_length, block_length, delimiters)
                masked = [p for p in masked if p < high]
                c = now.confidences
                for p in masked:
                    run.see(c[p], self.tau)
                run.see_cut([c[p] for p in masked], 1)
                run.see_tokens(now.logits[masked])
                chosen = sorted({p for p in masked if c[p] >= self.tau} | set(most_confident(masked, c, 1)))
                canvas[chosen] = now.tokens[chosen]
                run.canvases.append(canvas.tolist())
                network.stop = high if cache == "dual" else None
            low = high
        return run


class MultiBlock:
    """Blocks whose next ones begin before they end, with the K/V cache of both generators, which they call delayed.

    Passes that could write nothing, as every begun block is written, are left out, and so is the activation of blocks: the
    first block that has masks is always active, and it alone is made to write. A cache holds K/V once; the published one
    may hold those of a finished block twice. A prompt with masks is finished when they are written.
    """

    def __init__(self, bound=0.5, add=0.1):
        self.bound, self.add = bound, add

    def fill(self, model, prompt, gen_length, block_length, cfg_scale, delay=None, refresh=10**9, ends=()):
        mask, run = model.shape.mask_id, Run()
        canvas = np.array(list(prompt) + [mask] * gen_length, dtype=np.int64)
        fixed, size, shift = canvas != mask, len(canvas), int(model.shape.family in SHIFTED_FAMILIES)
        stores, rows = {}, np.arange(size)
        done = 0 if np.all(fixed[:len(prompt)]) else None
        states = [{"begin": 0, "end": len(prompt), "done_at": done}]  # the prompt, then begun blocks
        kept_end = passes = 0

        def masks(state):
            return int(np.sum(canvas[state["begin"]:state["end"]] == mask))

        def add_block():
            begin = states[-1]["end"]
            states.append({"begin": begin, "end": begin + block_length, "done_at": None})

        def network(tokens, alone=False):
            logits = np.zeros((size, model.shape.vocab))
            store = stores.setdefault(alone, Store(model.shape, size))
            logits[rows] = model.rows(tokens[rows], rows, rows, store)
            return logits

        add_block()
        while np.any(canvas == mask):
            passes += 1
            if states[-1]["end"] < size and 1 - masks(states[-1]) / block_length >= self.add:
                add_block()
            while states[-1]["end"] < size and not any(map(masks, states)):
                add_block()
            run.met["several blocks"] += sum(masks(state) > 0 for state in states[1:]) > 1
            if delay is not None:
                start, kept_end = self.first_row(run, states, masks, passes, kept_end, delay, refresh)
                rows = np.arange(max(start - shift, 0), size)
            now = Predictions(model, canvas, fixed, cfg_scale, network=network)
            chosen = self.choose(run, canvas, mask, states, masks, now, takes_best=not shift)
            canvas[chosen] = now.tokens[chosen]
            found = [p for p in range(len(prompt), size) if canvas[p] in ends]
            if found:
                run.met["ended early"] += np.any(canvas == mask)
                run.met["overwritten"] += any(canvas[p] not in (mask, canvas[found[0]]) for p in range(found[0], size))
                canvas[found[0]:] = canvas[found[0]]
            run.canvases.append(canvas.tolist())
        return run

    def first_row(self, run, states, masks, passes, kept_end, delay, refresh):
        """The first position that the pass computes, and the end of those whose K/V are kept from then on."""
        ready, waits = [], False
        for state in states:
            if state["end"] <= kept_end:
                continue
            if masks(state):
                break
            if state["done_at"] is None:
                state["done_at"] = passes
            if passes - state["done_at"] >= delay:
                ready.append(state)
            else:
                waits = True
        if ready:
            run.met["several kept"] += len(ready) > 1
            return kept_end, ready[-1]["end"]
        if waits or passes % refresh == 0:
            run.met["waits"] += waits and kept_end > 0
            run.met["refresh"] += not waits and kept_end > 0
            return 0, kept_end
        run.met["from the cache"] += kept_end > 0
        return kept_end, kept_end

    def choose(self, run, canvas, mask, states, masks, now, takes_best):
        open_ = [p for p in range(states[-1]["end"]) if canvas[p] == mask]
        first_end = next(state["end"] for state in states if masks(state))
        if any(canvas[:states[0]["end"]] == mask):
            first_end = states[1]["end"]  # masks of the prompt belong to the first block
        p = now.distributions
        entropy = {q: -float(np.sum(p[q] * np.log(np.maximum(p[q], 1e-300)))) for q in open_}
        run.see_tokens(now.logits[open_])
        for q in open_:
            run.see(entropy[q], self.bound)
        chosen = {q for q in open_ if entropy[q] <= self.bound}
        if takes_best and not chosen:
            run.see_cut([-entropy[q] for q in open_], 1)
            chosen.add(min(open_, key=lambda q: (entropy[q], q)))
        first = [q for q in open_ if q < first_end]
        if not any(q in chosen for q in first):
            run.met["forced"] += len(chosen) > 0
            run.see_cut([-entropy[q] for q in first], 1)
            chosen.add(min(first, key=lambda q: (entropy[q], q)))
        run.met["at once"] += any(q in chosen for q in open_ if q >= first_end)
        return sorted(chosen)


RULES = {"local-leap": LocalLeap, "eb": EntropyBudget, "streaming": Streaming, "klass": Klass, "wino": Wino, "saber": Saber, "credit": Credit, "prophet": Prophet,
         "slow-fast": SlowFast, "dsb": SlidingBlock, "adablock": AdaptiveBlock, "d3llm": MultiBlock}


def generate(model, prompt, gen_length, block_length, rule, cfg_scale=0.0, suffix=None, is_cached=False, dropout=None):
    """Fills gen_length masks behind the prompt by a rule. Returns a Run.

    suffix: positions behind the block that a pass sees, None: all; is_cached: what precedes the block keeps the K/V of its first pass.
    """
    mask, run = model.shape.mask_id, Run()
    canvas = np.array(list(prompt) + [mask] * gen_length, dtype=np.int64)
    fixed = canvas != mask
    network = Window(model, len(canvas), len(canvas) if suffix is None else suffix, is_cached, dropout)
    for low in range(len(prompt), len(canvas), block_length):
        high = low + block_length
        opened = np.flatnonzero(~fixed[:high])
        network.start_block(low, high)
        behind = network.seen[network.seen >= low]
        if hasattr(rule, "start_block"):
            rule.start_block()
        while np.any(canvas[:high] == mask):
            masked = [int(p) for p in np.flatnonzero(canvas[:high] == mask)]
            if hasattr(rule, "narrow"):
                masked = rule.narrow(run, masked, low, high)
            now = Predictions(model, canvas, fixed, cfg_scale, network=network)
            asked = {"opened": opened, "first_block": low == len(prompt), "mask": mask,
                     "seen_masks": int(np.sum(canvas[behind] == mask)), "seen": len(behind)}
            if isinstance(rule, Wino):
                asked["verified"] = [(p - low, p) for p in range(low, high) if canvas[p] != mask]
                asked["next_to"] = rule.verify(model, canvas, fixed, low, high, cfg_scale)
            chosen = sorted(rule.choose(run, masked, now, **asked))
            if not isinstance(rule, Credit):  # whose tokens are of another distribution
                run.see_tokens(now.logits[opened if isinstance(rule, Saber) else masked])
            canvas[chosen] = now.tokens[chosen]
            again = rule.revoke(run, canvas, chosen, now, **asked) if hasattr(rule, "revoke") else []
            run.met["revoked"] += len(again)
            canvas[again] = mask
            run.canvases.append(canvas.tolist())
    return run
