"""Uniform diffusion for GIDD and Sumi models, written from docs/methods/uniform_diffusion.md alone.

`decode` runs one request and leaves a `Pass` per forward pass: the positions of its rows, ascending, and the tokens it
changed. Nothing here is clever: the canvas is a list of all positions, a pass computes some of them and reads the K/V of
the others from a store. Where the page leaves a choice, a comment that begins with "Reading:" says which one is taken.
"""
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from models import Store, softmax

CANVAS, DRAW, COIN, CORRECT = 16, 1, 17, 18  # what a stream is for
BITS = 2 ** 64 - 1
GOLDEN = 0x9e3779b97f4a7c15


def mix_bits(x):
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & BITS
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & BITS
    return x ^ (x >> 31)


class RngStream:
    """Random numbers by coordinates: the same ones for the same coordinates and index."""

    def __init__(self, *coordinates):
        self.key = 0
        for coordinate in coordinates:
            self.key = mix_bits((self.key * GOLDEN + mix_bits((int(coordinate) + GOLDEN) & BITS)) & BITS)

    def bits(self, index):
        return mix_bits((self.key + (int(index) + 1) * GOLDEN) & BITS)

    def uniform(self, index):
        return ((self.bits(index) >> 12) + 0.5) * 2.0 ** -52

    def below(self, index, count):
        return ((self.bits(index) >> 32) * count) >> 32


@dataclass
class Options:
    # None: the family's default.
    gen_length: int = 32
    steps: int | None = None
    block_length: int | None = None
    context: int | None = None
    sampler: str | None = None         # adaptive, threshold, ancestral, greedy
    threshold: tuple = (0.9, 1)        # tau, least
    tokens_per_step: int | None = None
    schedule: str | None = None        # cosine, linear
    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    min_length: int = 0
    noise: str | None = None           # safe, hub
    cache: str = "none"                # prefix, uniform
    refresh: int = 4
    block_exit: str = "fixed-point"    # or steps
    last_layer: str = "needed"         # or all; exact, so nothing here reads it
    boundary: tuple | None = None      # blocks, full-every
    drift: tuple | None = None         # tau, page, budget
    self_correct: dict | None = None   # settings that differ from the defaults
    ignore_eos: bool = False
    seed: int = 0

    def with_defaults(self, noise, positions):
        """With the defaults of the noise's family."""
        usual = {"steps": 32, "block_length": 32, "context": positions, "sampler": "adaptive", "tokens_per_step": 3,
                 "schedule": "cosine", "temperature": 0.0, "noise": "safe"}
        if noise.whole:
            usual |= {"steps": noise.generation.get("num_denoising_steps", 128), "block_length": self.gen_length,
                      "context": min(noise.generation.get("canvas_length", 2048), positions),
                      "sampler": "ancestral", "schedule": "linear", "noise": "hub",
                      "tokens_per_step": noise.generation.get("tokens_per_step", 1),
                      "temperature": 0.0 if self.sampler == "greedy" else 1.0}
        return replace(self, **{name: value for name, value in usual.items() if getattr(self, name) is None})


CORRECTION = {"most": 128, "temperature": 0.1, "patience": 32, "tokens": 1, "full-every": 1}


@dataclass
class Pass:
    kind: str                  # full, rows, correct
    rows: list                 # positions, ascending
    changed: list = field(default_factory=list)  # (position, token), ascending


@dataclass
class Decode:
    tokens: list               # the answer
    start: list                # the canvas before the first pass
    limit: int                 # where the positions to generate end
    passes: list
    close: int | None          # the first pass in which a decision was too close to call, None: none was
    met: Counter               # how often each rare path was taken


def sigmoid(x):
    return 1 / (1 + np.exp(-x)) if x >= 0 else np.exp(x) / (1 + np.exp(x))


class Noise:
    """The noise process of a config.json: `level(u)` and, at a level, `pi(token)`."""

    def __init__(self, config, generation=None):
        self.generation = generation or {}
        self.whole = config.get("architectures") == ["SumiForMaskGeneration"]
        self.vocab, self.mask = config["vocab_size"], -1 if self.whole else config.get("mask_token_id", 3)
        self.ids = [token for token in range(self.vocab) if token != self.mask]  # what uniform noise shows
        ends = config.get("eos_token_id", 1)
        self.ends = {token for token in (ends if isinstance(ends, list) else [ends]) if token >= 0}
        self.bos = config.get("bos_token_id", 0)
        self.closing = [config["eos_token_id"], self.bos] if self.whole else []
        self.special = {self.mask, self.bos, config.get("pad_token_id", -1)} | self.ends
        self.shift = 1000.0 if self.whole else config.get("noise_type", 0.0)
        limits = self.generation if self.whole else config
        self.low, self.high = limits.get("min_log_snr", -9.0), limits.get("max_log_snr", 9.0)

    def level(self, u, schedule):
        c = (1e-3 if schedule == "cosine" else 1e-4) if self.whole else 0
        u = c + (1 - 2 * c) * u
        f = (1 + np.cos(np.pi * u)) / 2 if schedule == "cosine" else 1 - u
        least, most = (0, 1) if self.whole else (sigmoid(self.low), sigmoid(self.high))
        alpha = least + (most - least) * f
        log_snr = min(max(np.log(alpha / (1 - alpha)), self.low), self.high)
        return Level(self, log_snr)

    def first(self, position, seed, allowed):
        """Initial token of a position."""
        stream = RngStream(seed, CANVAS, position)
        if stream.uniform(0) < sigmoid(self.low + self.shift):
            return allowed[stream.below(1, len(allowed))]
        return self.mask


class Level:
    def __init__(self, noise, log_snr):
        self.noise, self.alpha = noise, sigmoid(log_snr)
        self.beta = 1 - self.alpha
        self.uniform = sigmoid(log_snr + noise.shift)  # w

    def pi(self, token):
        return 1 - self.uniform if token == self.noise.mask else self.uniform / len(self.noise.ids)


def mixture(token, chance, noisier, cleaner):
    """The three weights of the ancestral step (stay, draw from x_hat, draw from pi_s); chance = x_hat(token)."""
    r = noisier.alpha / cleaner.alpha
    c = max(0.0, noisier.beta * noisier.pi(token) - r * cleaner.beta * cleaner.pi(token))
    d = noisier.alpha * chance + noisier.beta * noisier.pi(token)
    if d == 0:
        return 1.0, 0.0, 0.0
    stay = r * (cleaner.alpha * chance + cleaner.beta * cleaner.pi(token)) / d
    return stay, c * cleaner.alpha / d, c * cleaner.beta / d


class Network:
    """A GIDD model of models.py with the K/V of `cells` positions. Knows how far its K/V moved."""

    def __init__(self, model, generation=None):
        self.model, self.noise = model, Noise(model.config, generation)
        self.positions = model.config.get("max_position_embeddings", 1024)

    def start(self, cells):
        self.store = Store(self.model.shape, cells)

    def compute(self, canvas, rows, clean):
        """Logits of these rows and their drift: what 1 - cosine of keys and of values is, halved, mean over layers."""
        rows = np.asarray(rows)
        k, v = self.store.k[:, rows].copy(), self.store.v[:, rows].copy()
        logits = self.model.rows(np.asarray(canvas)[rows], rows, rows, self.store, clean)
        drift = (self._apart(k, self.store.k[:, rows]) + self._apart(v, self.store.v[:, rows])) / 2
        return logits, drift.mean(axis=0)

    @staticmethod
    def _apart(before, after):
        """1 - cosine per layer and row. Reading: of all heads together."""
        a, b = (x.reshape(*x.shape[:2], -1) for x in (before, after))
        length = np.sqrt(np.sum(a * a, axis=-1) * np.sum(b * b, axis=-1))
        return 1 - np.sum(a * b, axis=-1) / np.where(length > 0, length, 1)


class Decoder:
    LOGIT_GAP = 3e-4
    SCORE_GAP, COIN_GAP, DRIFT_GAP = 3e-4, 1e-4, 1e-2  # relative

    def __init__(self, network, prompt, options):
        self.network, self.noise = network, network.noise
        self.options = options = options.with_defaults(self.noise, network.positions)
        prompt = list(prompt)
        if self.noise.bos >= 0 and prompt[:1] != [self.noise.bos]:
            prompt = [self.noise.bos] + prompt
        assert prompt and self.noise.mask not in prompt
        # Reading: the token in front belongs to the prompt, and so to S_p.
        self.size = options.context
        self.prompt, self.limit = len(prompt), len(prompt) + options.gen_length
        assert self.limit + len(self.noise.closing) <= self.size <= network.positions
        forbidden = self.noise.special if options.noise == "safe" else set()
        allowed = [token for token in range(self.noise.vocab) if token not in forbidden]
        self.canvas = prompt + [self.noise.first(p, options.seed, allowed) for p in range(self.prompt, self.size)]
        self.canvas[self.limit:self.limit + len(self.noise.closing)] = self.noise.closing
        self.start = list(self.canvas)
        self.levels = [self.noise.level(j / options.steps, options.schedule) for j in range(options.steps + 1)]
        self.passes, self.close, self.met = [], None, Counter()
        self.clock = 0                # steps of the whole run, skipped ones included
        self.computed = {}            # position: the step that computed it last
        self.rates = {}               # position: drift per step
        self.denoised = {}            # whole canvas: position: the step that denoised it last
        network.start(self.size)

    def run(self):
        options = self.options
        if self.noise.whole:
            self.whole_canvas()
            written = self.canvas[self.prompt:self.limit]
            if options.self_correct is not None:
                written = self.correct(len(written))
            return Decode(written, self.start, self.limit, self.passes, self.close, self.met)
        blocks = -(-options.gen_length // options.block_length)
        for block in range(blocks):
            begin, end = self.bounds(block)
            self.block(block, begin, end, last=block == blocks - 1)
            written = self.canvas[self.prompt:min(end, self.limit)]
            if not options.ignore_eos and any(token in self.noise.ends for token in written):
                self.met["stopped by an end"] += block < blocks - 1
                break
        if options.self_correct is not None:
            written = self.correct(len(written))
        return Decode(written, self.start, self.limit, self.passes, self.close, self.met)

    def bounds(self, block):
        begin = self.prompt + block * self.options.block_length
        return begin, min(begin + self.options.block_length, self.size)

    # Passes

    def feed(self, kind, rows, clean):
        """One pass; returns {position: logits}."""
        rows = sorted(rows)
        logits, drift = self.network.compute(self.canvas, rows, clean)
        self.passes.append(Pass(kind, rows))
        for position, moved in zip(rows, drift):
            since = self.clock - self.computed.get(position, self.clock)
            if since:
                self.rates[position] = moved / since
            self.computed[position] = self.clock
        return dict(zip(rows, logits))

    def change(self, tokens):
        """Writes {position: token}; returns what is another token now."""
        changed = sorted((p, int(token)) for p, token in tokens.items() if token != self.canvas[p])
        for position, token in changed:
            self.canvas[position] = token
        self.passes[-1].changed = changed
        return changed

    # Decisions

    def see(self, gap, tolerance):
        if gap < tolerance and self.close is None:
            self.close = len(self.passes) - 1

    def see_order(self, a, b, tolerance):
        if a != b:
            self.see(abs(a - b) / max(abs(a), abs(b)), tolerance)

    def visible(self, row, position):
        """Logits without the mask, and without end tokens where the answer must not end yet."""
        row = self.maskless(row)
        if position < self.prompt + self.options.min_length:
            row[list(self.noise.ends)] = -np.inf
        return row

    def maskless(self, row):
        row = np.array(row, dtype=np.float64)
        if self.noise.mask >= 0:
            row[self.noise.mask] = -np.inf
        return row

    def see_best(self, row, temperature=1.0):
        two = np.partition(row, -2)[-2:]
        self.see(two[1] - two[0], self.LOGIT_GAP / temperature)

    def filtered(self, row):
        """Logits over the temperature that top-p and then top-k leave, ties with the k-th included."""
        options = self.options
        row = row / options.temperature
        kept = np.array(row)
        if options.top_p < 1:
            order = np.argsort(-row, kind="stable")
            sums = np.cumsum(softmax(row[order]))
            count = int(np.searchsorted(sums, options.top_p, side="right")) + 1
            self.see(np.min(np.abs(sums - options.top_p)), self.COIN_GAP)
            if count < len(order):
                self.see(row[order[count - 1]] - row[order[count]], self.LOGIT_GAP)
            kept[order[count:]] = -np.inf
        if options.top_k and options.top_k < len(row):
            order = np.sort(row)[::-1]
            if np.isfinite(order[options.top_k]):
                self.see(order[options.top_k - 1] - order[options.top_k], self.LOGIT_GAP)
            kept[row < order[options.top_k - 1]] = -np.inf
        return kept

    def x_hat(self, row):
        if self.options.temperature == 0:
            self.see_best(row)
            return np.eye(len(row))[int(np.argmax(row))]
        return softmax(self.filtered(row))

    def draw(self, row, block, step, position):
        if self.options.temperature == 0:
            self.see_best(row)
            return int(np.argmax(row))
        return self.gumbel(self.filtered(row), RngStream(self.options.seed, DRAW, block, step - 1, position),
                           self.options.temperature)

    def gumbel(self, row, stream, temperature):
        """A draw from softmax(row); row was divided by the temperature."""
        values = np.array([x - np.log(-np.log(stream.uniform(token))) if x > -np.inf else -np.inf
                           for token, x in enumerate(row)])
        self.see_best(values, min(temperature, 1.0))
        return int(np.argmax(values))

    # Steps

    def adaptive(self, logits, block, step):
        level, scores, rows = self.levels[self.options.steps - step + 1], {}, {}
        for position, row in logits.items():
            token, rows[position] = self.canvas[position], self.visible(row, position)
            p = softmax(rows[position])
            scores[position] = level.pi(token) * (np.max(p) - p[token])
            if level.pi(token) > 0:
                others = np.delete(rows[position], token)
                # Whether the token is the best one decides whether the score is above 0.
                self.see(abs(np.max(others) - rows[position][token]), self.LOGIT_GAP)
            else:
                self.met["no noise"] += 1
        order = sorted((p for p in scores if scores[p] > 0), key=lambda p: (-scores[p], p))
        count = self.options.tokens_per_step
        if len(order) > count:
            self.see_order(scores[order[count - 1]], scores[order[count]], self.SCORE_GAP)
        return {p: self.draw(rows[p], block, step, p) for p in order[:count]}

    def threshold(self, logits, block, step):
        """Page: "Threshold". Returns {} where the block is left."""
        (tau, least), level, lead, rows = self.options.threshold, self.levels[self.options.steps - step + 1], {}, {}
        for position, row in logits.items():
            token, rows[position] = self.canvas[position], self.visible(row, position)
            if level.pi(token) == 0:
                self.met["no noise"] += 1
                continue
            p = softmax(rows[position])
            lead[position] = np.max(p) - p[token]
            self.see(abs(np.max(np.delete(rows[position], token)) - rows[position][token]), self.LOGIT_GAP)
            self.see_order(lead[position], tau, self.SCORE_GAP)
        above = [p for p in lead if lead[p] > tau]
        others = {p for p in lead if lead[p] > 0} - set(above)
        count = least - len(above)
        if not above and not least:
            others = {p for p in others if self.canvas[p] == self.noise.mask}
            count = 1
        order = sorted(others, key=lambda p: (-lead[p], p))
        if 0 < count < len(order):
            self.see_order(lead[order[count - 1]], lead[order[count]], self.SCORE_GAP)
        below = order[:max(count, 0)]
        self.met["below the threshold"] += bool(below)
        self.met["several above the threshold"] += len(above) > 1
        return {p: self.draw(rows[p], block, step, p) for p in above + below}

    def ancestral(self, logits, block, step):
        steps, out = self.options.steps, {}
        cleaner = self.levels[steps - step]
        for position, row in logits.items():
            since = self.denoised.get(position, step - 1)
            self.met["an older level"] += since < step - 1
            noisier = self.levels[steps - since]
            row, token = self.visible(row, position), self.canvas[position]
            stay, model, _ = mixture(token, self.x_hat(row)[token], noisier, cleaner)
            stream = RngStream(self.options.seed, COIN, block, step - 1, position)
            u = stream.uniform(0)
            if stay < 1:
                for bound in (stay, stay + model):
                    self.see(abs(u - bound), self.COIN_GAP * bound)
            if u < stay:
                continue
            if u < stay + model:
                self.met["drawn from the model"] += 1
                out[position] = self.draw(row, block, step, position)
            elif stream.uniform(1) < cleaner.uniform:
                self.met["drawn from the noise"] += 1
                out[position] = self.noise.ids[stream.below(2, len(self.noise.ids))]
            else:
                self.met["masked again"] += 1
                out[position] = self.noise.mask
        return out

    def greedy(self, logits, block, step):
        out = {}
        for position, row in logits.items():
            row = self.visible(row, position)
            self.see_best(row)
            out[position] = int(np.argmax(row))
        return out

    # Blocks

    def sampler(self):
        return {"adaptive": self.adaptive, "threshold": self.threshold, "ancestral": self.ancestral,
                "greedy": self.greedy}[self.options.sampler]

    def leaves(self, chosen):
        """Whether a step that chose these positions is the last of its block, whatever the cache."""
        leaves = self.options.sampler == "threshold" and self.options.block_exit == "fixed-point" and not chosen
        self.met["left below the threshold"] += leaves
        return leaves

    def whole_canvas(self):
        """Section 6."""
        options, answer = self.options, range(self.prompt, self.limit)
        act = self.sampler()
        self.denoised = {p: 0 for p in range(self.prompt, self.size)}
        can_rest = options.block_exit == "fixed-point" and options.sampler != "ancestral" and options.temperature == 0
        resting, stale, left = False, True, False
        for step in range(1, options.steps + 1):
            self.clock += 1
            if left:
                continue
            everything = (step == 1 or options.cache == "none"
                          or (options.refresh > 0 and step % options.refresh == 0))
            if resting and can_rest and not (everything and stale and options.cache == "uniform"):
                self.met["skipped step"] += 1
                continue
            self.met["a refresh of a block at rest"] += resting and can_rest
            logits = self.feed("full" if everything else "rows", range(self.size) if everything else answer, 0)
            fixed = range(self.limit, self.limit + len(self.noise.closing))
            logits = {p: row for p, row in logits.items() if p in self.denoised and p not in fixed}
            chosen = act(logits, 0, step)
            changed = self.change(chosen)
            left = self.leaves(chosen)
            self.denoised |= {p: step for p in logits}
            self.met["changed behind the answer"] += any(p >= self.limit for p, _ in changed)
            self.met["rows of the answer alone"] += not everything
            if everything:
                stale = False
            if changed:
                stale = True
            resting = not changed

    def block(self, block, begin, end, last):
        options = self.options
        following = range(end, min(end + options.block_length, self.size))
        uniform = options.cache == "uniform"
        can_rest = options.block_exit == "fixed-point" and options.sampler != "ancestral" and options.temperature == 0
        resting = left = False
        # Whether a pass has yet to compute the next block from the tokens that this block has now.
        # Reading: at first one has; a boundary pass that leaves the next block out is none.
        stale = True
        for step in range(1, options.steps + 1):
            self.clock += 1
            if left:
                continue
            kind, rows, wanted = "rows", range(begin, end), []
            if step == 1:
                kind, rows = "full", range(self.size)
                if uniform and options.boundary and block % options.boundary[1]:
                    self.met["boundary"] += 1
                    reach = min(begin + (options.boundary[0] - 1) * options.block_length, self.size)
                    kind, rows = "rows", range(begin - options.block_length, reach)
            elif options.cache == "none":
                kind, rows = "full", range(self.size)
            elif options.cache == "prefix":
                rows = range(begin, self.size)
            elif options.drift:
                wanted = self.pages(end)
            elif options.refresh and step % options.refresh == 0 and not last:
                wanted = following if stale or not (resting and can_rest) else []
                if wanted:
                    self.met["refresh"] += 1
            if step > 1 and resting and can_rest and not wanted:
                self.met["skipped step"] += 1
                continue
            if wanted:
                self.met["wanted rows"] += 1
                self.met["a refresh of a block at rest"] += resting and can_rest
                rows = [*rows, *wanted]
            logits = self.feed(kind, rows, clean=begin)
            logits = {p: logits[p] for p in range(begin, end)}
            chosen = self.sampler()(logits, block, step)
            changed = self.change(chosen)
            left = self.leaves(chosen)
            if set(following) <= set(rows):
                stale = False
            if changed:
                stale = True
            resting = not changed

    def pages(self, end):
        """The positions after the block whose K/V have probably moved too far."""
        tau, length, budget = self.options.drift
        found = []
        for low in range(end, self.size, length):
            page = range(low, min(low + length, self.size))
            if all(p in self.rates for p in page):
                expected = np.mean([self.rates[p] * (self.clock - self.computed[p]) for p in page])
                # numpy's products round differently with other rows: K/V that did not change drift by 1e-17 here, and
                # by exactly 0 in the engine, whose rows do not depend on each other.
                expected = 0 if abs(expected) < 1e-13 else expected
                if tau > 0 or expected > 0:
                    self.see_drift(expected, tau)
                if expected > tau:
                    found.append((expected, page))
        found.sort(key=lambda entry: (-entry[0], entry[1].start))
        for (a, _), (b, _) in zip(found, found[1:]):
            if sum(len(page) for _, page in found) > budget:
                self.see_drift(a, b)
        out = []
        for _, page in found:
            if len(out) + len(page) <= budget:
                out += page
            else:
                self.met["over budget"] += 1
        return out

    def see_drift(self, a, b):
        # The pass that this decides about is the next one.
        if a != b and abs(a - b) / max(abs(a), abs(b)) < self.DRIFT_GAP and self.close is None:
            self.close = len(self.passes)

    # Self-correction

    def correct(self, length):
        settings = CORRECTION | self.options.self_correct
        answer = range(self.prompt, self.prompt + length)
        best, used, kept, last = -1.0, 0, {}, []
        for i in range(settings["most"]):
            kind, rows = "full", range(self.size)
            if i % settings["full-every"]:
                blocks = sorted({(p - self.prompt) // self.options.block_length for p in last})
                rows = [p for block in blocks for p in range(*self.bounds(block)) if p < answer.stop]
                kind = "rows"
                self.met["partial correction"] += 1
            self.clock += 1
            for position, row in self.feed(kind, rows, clean=self.prompt).items():
                if position not in answer:
                    continue
                row = self.maskless(row)
                scaled = row / settings["temperature"]
                y = self.gumbel(scaled, RngStream(self.options.seed, CORRECT, i, position),
                                settings["temperature"])
                kept[position] = (y, float(softmax(scaled)[y]), int(np.argmax(row)), row)
            scores = {p: kept[p][1] for p in answer if kept[p][0] != self.canvas[p] and kept[p][1] > 0}
            order = sorted(scores, key=lambda p: (-scores[p], p))
            count = settings["tokens"]
            if len(order) > count:
                a, b = scores[order[count - 1]], scores[order[count]]
                # A score near 1 is 1 in float32.
                self.see(abs(a - b) / a, 10 * self.SCORE_GAP)
            before = list(self.canvas)
            changed = self.change({p: kept[p][0] for p in order[:count]})
            if not changed:
                self.met["nothing to correct"] += 1
                break
            self.met["corrected"] += 1
            last = [p for p, _ in changed]
            for p in answer:
                token, row = self.canvas[p], kept[p][3]
                if token != self.noise.mask:
                    self.see(abs(np.max(np.delete(row, token)) - row[token]), self.LOGIT_GAP)
            accuracy = np.mean([kept[p][2] == self.canvas[p] for p in answer])
            if accuracy > best:
                best, used = accuracy, 0
            else:
                used += 1
            if used > settings["patience"]:
                self.met["out of patience"] += 1
                self.canvas = before
                # Reading: what is undone was never committed.
                self.passes[-1].changed = []
                break
        return self.canvas[answer.start:answer.stop]


def decode(network, prompt, options):
    return Decoder(network, prompt, options).run()
