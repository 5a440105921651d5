"""Deterministic (temperature 0) decoders, written from the papers and the published samplers.

- llada_generate: semi-autoregressive low-confidence remasking of LLaDA's generate.py (arXiv 2502.09992),
  with classifier-free guidance (arXiv 2410.18514) and the two switches against end tokens;
- dream_generate: diffusion_generate of Dream (arXiv 2508.15487), algorithms maskgit_plus, topk_margin, entropy;
- rnd1_generate: RND1's diffusion_sample (RadicalNumerics/RND1, rnd/sampling.py);
- the first two with the parallel decoding rules of Fast-dLLM (arXiv 2505.22618): threshold and factor;
- greedy_generate: one token at a time.

Which rows a pass computes is up to a `network`: WholeCanvas here, acceleration.Cached for the methods that skip rows.

Each run also tells how close its decisions were (`Margins`), so that a comparison with float32 arithmetic can
tell a wrong answer from a tie.
"""
from dataclasses import dataclass, field

import numpy as np

from models import LLADA_FAMILIES, SHIFTED_FAMILIES, softmax


class NoProgress(RuntimeError):
    """The rule commits the mask token itself for ever: the published loops never end here."""


@dataclass
class Margins:
    """The smallest distance seen between a decision and its alternative."""
    token: float = np.inf   # best logit minus second best, at positions whose token mattered
    choice: float = np.inf  # relative distance of the confidences that decided which positions are committed
    lock: float = np.inf    # distance to a bound of the lock, in units of what float32 may change

    def see_tokens(self, logits):
        """Records the gap of every row of `logits`."""
        if len(logits):
            two = np.partition(logits, -2, axis=-1)[:, -2:]
            self.token = min(self.token, float(np.min(two[:, 1] - two[:, 0])))

    def see_choice(self, a, b):
        """Records that the order of the confidences a and b mattered."""
        if a == b:
            return  # an exact tie (end tokens removed, or one token left of a nucleus) goes to the lowest position
        if np.isfinite(a) and np.isfinite(b):
            self.choice = min(self.choice, abs(a - b) / max(abs(a), abs(b), 1e-3))

    def see_lock(self, value, bound, noise):
        """Records that the order of value and bound mattered, known up to `noise`."""
        if np.isfinite(value) and np.isfinite(bound):
            self.lock = min(self.lock, abs(value - bound) / noise)

    def ambiguous(self, tolerance=1e-4):
        return self.token < tolerance or self.choice < tolerance or self.lock < 1


@dataclass
class Decode:
    """A finished run. `tokens` is the generated part of `canvas`; commits are (forward pass, positions)."""
    canvas: list
    tokens: list
    margins: Margins
    forward_passes: int
    commits: list = field(default_factory=list)


class WholeCanvas:
    """Computes every row in every pass, as the published decoders do."""

    def start(self, model, canvas, prompt_length, cfg_scale=0.0):
        self.model, self.fixed, self.cfg_scale = model, canvas != model.shape.mask_id, cfg_scale

    def logits(self, canvas, low, high, eligible):
        """Raw logits of every row, guided if asked for; [low, high) is the block, `eligible` may be committed now."""
        logits = self.model.logits(canvas)
        if self.cfg_scale > 0:
            unconditional = self.model.logits(np.where(self.fixed, self.model.shape.mask_id, canvas))
            logits = unconditional + (self.cfg_scale + 1) * (logits - unconditional)
        return logits

    def committed(self, canvas, positions):
        """Called once after each pass, with what it committed already in `canvas`."""


def quota_split(masks, steps):
    """How many positions each step commits: masks // steps, the first masks % steps steps one more."""
    return [masks // steps + (1 if i < masks % steps else 0) for i in range(steps)]


def linspace_f32(start, end, count):
    """float32 linspace as torch fills it: the first half upwards from start, the second downwards from end."""
    start, end = np.float32(start), np.float32(end)
    if count == 1:
        return np.array([start], dtype=np.float32)
    step = np.float32((end - start) / np.float32(count - 1))
    half = count // 2
    return np.array([start + step * np.float32(i) if i < half else end - step * np.float32(count - 1 - i)
                     for i in range(count)], dtype=np.float32)


def dream_count(masked, step, times):
    """Dream's number of positions for one step: trunc(masked * (1 - s/t)) in float32; the last step takes all."""
    if step == len(times) - 2:
        return masked
    keep = np.float32(1) - times[step + 1] / times[step]
    return int(np.float32(masked) * np.float32(keep))


def dream_schedule(masks, steps, eps=1e-3):
    """Counts of all steps when every committed token is a real one."""
    times, counts = linspace_f32(1, eps, steps + 1), []
    for i in range(steps):
        counts.append(dream_count(masks - sum(counts), i, times))
    return counts


def ranked(confidence, eligible):
    """Eligible positions, most confident first, ties to the lowest position."""
    positions = np.flatnonzero(eligible)
    return positions[np.argsort(-confidence[positions], kind="stable")]


def take_quota(confidence, eligible, count, margins):
    """The `count` most confident eligible positions."""
    order = ranked(confidence, eligible)
    if 0 < count < len(order):
        margins.see_choice(confidence[order[count - 1]], confidence[order[count]])
    return order[:count]


def take_threshold(confidence, eligible, threshold, margins):
    """Fast-dLLM, threshold: the most confident position always, every other one whose confidence reaches the threshold."""
    order = ranked(confidence, eligible)
    chosen = [order[0]]
    for position in order[1:]:
        margins.see_choice(confidence[position], threshold)
        if confidence[position] >= threshold:
            chosen.append(position)
    if len(chosen) == 1 and len(order) > 1:
        margins.see_choice(confidence[order[0]], confidence[order[1]])
    return np.array(chosen)


def take_factor(confidence, eligible, factor, margins):
    """Fast-dLLM, factor: the longest prefix with c_(n) >= 1 - factor / (n + 1), the most confident position always.

    From (n + 1)(1 - c_(n)) < f of the paper's Theorem 1. The published loop also accepts the last masked
    position when it is the first to fail; that slip is not repeated here.
    """
    order = ranked(confidence, eligible)
    count = 1
    while count < len(order):
        bound = 1.0 - factor / (count + 2)
        margins.see_choice(confidence[order[count]], bound)
        if confidence[order[count]] < bound:
            break
        count += 1
    if count < len(order):
        margins.see_choice(confidence[order[count - 1]], confidence[order[count]])
    return order[:count]


def parallel_rule(rule):
    """('threshold', 0.9) for 'threshold=0.9', ('factor', 1.0) for 'factor=1.0', None for the others."""
    name, _, value = rule.partition("=")
    return (name, float(value)) if name in ("threshold", "factor") and value else None


def take_parallel(parallel, confidence, eligible, margins):
    take = take_threshold if parallel[0] == "threshold" else take_factor
    return take(confidence, eligible, parallel[1], margins)


def llada_generate(model, prompt, gen_length, steps=None, block_length=None, rule="low-confidence", cfg_scale=0.0,
                   logits_eos_inf=False, confidence_eos_eot_inf=False, eot_id=None, network=None):
    """LLaDA's generate at temperature 0. `steps` counts the whole run; threshold and factor ignore it.

    Kept from the published code:
    - masks inside the prompt are ordinary masks: they are eligible from the first block on and take part of its quota,
      and guidance masks only what was not a mask at the start;
    - nothing suppresses the mask token: committing it uses up quota and leaves the position masked and eligible,
      also in later blocks;
    - guidance is L = Lu + (cfg_scale + 1)(L - Lu), Lu from the canvas with the prompt masked;
    - confidence_eos_eot_inf takes end of text and end of turn out of the softmax after the argmax (at temperature 0
      the published code writes both into one tensor), so a position whose candidate is an end token has confidence 0.
    """
    mask_id, eos_id = model.shape.mask_id, model.shape.eos_id
    block_length = gen_length if block_length is None else block_length
    if gen_length % block_length:
        raise ValueError("gen_length must be a multiple of block_length")
    blocks = gen_length // block_length
    parallel = parallel_rule(rule)
    if parallel is None:
        steps = gen_length if steps is None else steps
        if steps % blocks:
            raise ValueError("steps must be a multiple of the number of blocks")
        if rule != "low-confidence":
            raise ValueError(f"no deterministic LLaDA rule named {rule}")
    canvas = np.array(list(prompt) + [mask_id] * gen_length, dtype=np.int64)
    network = network or WholeCanvas()
    network.start(model, canvas, len(prompt), cfg_scale)
    margins, commits, passes = Margins(), [], 0

    def predict(eligible):
        nonlocal passes
        passes += 2 if cfg_scale > 0 else 1
        logits = network.logits(canvas, low, high, eligible)
        if logits_eos_inf:
            logits[:, eos_id] = -np.inf
        return logits

    def confidences(logits):
        candidate = np.argmax(logits, axis=-1)
        visible = logits.copy()
        if confidence_eos_eot_inf:
            visible[:, [eos_id, eot_id]] = -np.inf
        return candidate, softmax(visible)[np.arange(len(canvas)), candidate]

    def commit(chosen, candidate, logits, eligible):
        # Where end tokens change the confidence, the candidate of every eligible position decides the order.
        margins.see_tokens(logits[eligible] if confidence_eos_eot_inf else logits[chosen])
        canvas[chosen] = candidate[chosen]
        network.committed(canvas, chosen)
        commits.append((passes, sorted(int(p) for p in chosen)))

    for block in range(blocks):
        low = len(prompt) + block * block_length
        high = low + block_length
        before = np.arange(len(canvas)) < high
        if parallel:
            while np.any(canvas[low:high] == mask_id):
                eligible = (canvas == mask_id) & before
                logits = predict(eligible)
                candidate, confidence = confidences(logits)
                chosen = take_parallel(parallel, confidence, eligible, margins)
                commit(chosen, candidate, logits, eligible)
                if np.all(canvas[chosen] == mask_id):
                    raise NoProgress("only mask tokens were committed")
            continue
        for count in quota_split(int(np.sum(canvas[low:high] == mask_id)), steps // blocks):
            if count == 0:
                continue  # the published loop runs the network here and changes nothing
            eligible = (canvas == mask_id) & before
            logits = predict(eligible)
            candidate, confidence = confidences(logits)
            commit(take_quota(confidence, eligible, count, margins), candidate, logits, eligible)
    return Decode(canvas.tolist(), canvas[len(prompt):].tolist(), margins, passes, commits)


def remask(canvas, mask_id, open_, candidate, confidence, step, steps, margins):
    """One step of P2 (Open-dCoder): of the positions that were masked at first, the trunc(n (1 - (step + 1) / steps))
    least confident ones are masked; masked ones of the others are written. Returns the written positions."""
    count = len(open_) - int(np.float32(len(open_)) * np.float32(1 - (step + 1) / steps))
    kept = take_quota(confidence, np.isin(np.arange(len(canvas)), open_), count, margins)
    written = np.array([p for p in kept if canvas[p] == mask_id], dtype=np.int64)
    canvas[np.setdiff1d(open_, kept)] = mask_id
    canvas[written] = candidate[written]
    return written


def filter_logits(logits, top_p, top_k, margins):
    """Dream's nucleus, then top-k. Nucleus keeps tokens up to the first whose cumulative probability exceeds top_p."""
    logits = logits.copy()
    if top_p is not None and top_p < 1:
        order = np.argsort(-logits, axis=-1, kind="stable")
        cumulative = np.cumsum(softmax(np.take_along_axis(logits, order, axis=-1)), axis=-1)
        for row in range(len(logits)):
            for c in cumulative[row]:
                margins.see_choice(c, top_p)
                if c > top_p:
                    break
            keep = np.concatenate([[True], cumulative[row, :-1] <= top_p])
            logits[row, order[row, ~keep]] = -np.inf
    if top_k:
        bound = np.sort(logits, axis=-1)[:, -min(top_k, logits.shape[-1])]
        logits[logits < bound[:, None]] = -np.inf
    return logits


def dream_confidence(algorithm, logits):
    """maskgit: largest probability; margin: largest minus second; entropy: sum p ln(p + 1e-10), larger is surer."""
    p = softmax(logits)
    if algorithm == "maskgit":
        return np.max(p, axis=-1)
    if algorithm == "margin":
        two = np.partition(p, -2, axis=-1)[:, -2:]
        return two[:, 1] - two[:, 0]
    if algorithm == "entropy":
        return np.sum(p * np.log(p + 1e-10), axis=-1)
    raise ValueError(f"no deterministic Dream rule named {algorithm}")


def shift_right(logits):
    """Dream predicts position i at row i-1; row 0 serves position 0 too."""
    return np.concatenate([logits[:1], logits[:-1]])


def dream_generate(model, prompt, gen_length, steps=None, block_length=None, rule="maskgit", top_p=None, top_k=None,
                   eps=1e-3, network=None):
    """Dream's diffusion_generate at temperature 0, alg_temp 0; or Fast-dLLM's rules over the whole canvas.

    Masks inside the prompt are ordinary masks and count for the schedule. Nothing suppresses the mask token.
    With block_length the blocks go from left to right, each with the schedule of its share of the steps, as in
    Fast-dLLM's Dream code.
    """
    mask_id = model.shape.mask_id
    block_length = gen_length if block_length is None else block_length
    steps = gen_length if steps is None else steps
    parallel = parallel_rule(rule)
    if gen_length % block_length or (not parallel and steps % (gen_length // block_length)):
        raise ValueError("gen_length must be a multiple of block_length, and steps of the number of blocks")
    canvas = np.array(list(prompt) + [mask_id] * gen_length, dtype=np.int64)
    network = network or WholeCanvas()
    network.start(model, canvas, len(prompt))
    margins, commits, passes = Margins(), [], 0

    def predict(masked):
        logits = shift_right(network.logits(canvas, low, high, masked))
        confidence = np.full(len(canvas), -np.inf)
        filtered = filter_logits(logits[masked], top_p, top_k, margins)
        confidence[masked] = dream_confidence("maskgit" if parallel or rule == "p2" else rule, filtered)
        return logits, confidence

    def commit(chosen, logits):
        margins.see_tokens(logits[chosen])
        canvas[chosen] = np.argmax(logits[chosen], axis=-1)
        network.committed(canvas, chosen)
        commits.append((passes, sorted(int(p) for p in chosen)))

    for low in range(len(prompt), len(canvas), block_length):
        high = low + block_length
        before = np.arange(len(canvas)) < high
        if parallel:
            while np.any((canvas == mask_id) & before):
                masked = (canvas == mask_id) & before
                passes += 1
                logits, confidence = predict(masked)
                chosen = take_parallel(parallel, confidence, masked, margins)
                commit(chosen, logits)
                if np.all(canvas[chosen] == mask_id):
                    raise NoProgress("only mask tokens were committed")
            continue
        if rule == "p2":
            open_ = np.flatnonzero((canvas == mask_id) & before)
            num_steps = steps * block_length // gen_length
            for i in range(num_steps):
                if not np.any(canvas[open_] == mask_id):
                    break
                passes += 1
                logits, confidence = predict(np.isin(np.arange(len(canvas)), open_))
                margins.see_tokens(logits[open_])
                written = remask(canvas, mask_id, open_, np.argmax(logits, axis=-1), confidence, i, num_steps, margins)
                commits.append((passes, sorted(int(p) for p in written)))
            continue
        times = linspace_f32(1, eps, steps * block_length // gen_length + 1)
        for i in range(len(times) - 1):
            masked = (canvas == mask_id) & before
            count = dream_count(int(np.sum(masked)), i, times)
            passes += 1
            if count == 0:
                continue
            logits, confidence = predict(masked)
            commit(take_quota(confidence, masked, count, margins), logits)
    return Decode(canvas.tolist(), canvas[len(prompt):].tolist(), margins, passes, commits)


def rnd1_generate(model, prompt, gen_length, steps=None, block_length=None, rule="entropy", top_p=None, top_k=None,
                  network=None):
    """RND1's diffusion_sample at temperature 0.

    The published rule says which positions remain: after step i of T, trunc(N (T - 1 - i) / T) of the N masks of the
    beginning, those of the largest entropy, with share and product in float32. What a step writes is final, the mask
    token too, and is read as such by later steps.

    Readings: the published code ranks by the entropy at its temperature, here at temperature 1; all positions of the
    answer are written, where it makes one fewer than asked for and leaves the last to a pad token; masks inside the
    prompt are ordinary masks, where it keeps them; with blocks each has the schedule of its share of the steps. Its
    entropies of a filtered distribution are NaN; here they are those of what the filter leaves.
    """
    mask_id = model.shape.mask_id
    block_length = gen_length if block_length is None else block_length
    blocks = gen_length // block_length
    if steps is None:
        steps = model.config["num_diffusion_steps"] if blocks == 1 else gen_length
    if gen_length % block_length or steps % blocks:
        raise ValueError("gen_length must be a multiple of block_length, and steps of the number of blocks")
    canvas = np.array(list(prompt) + [mask_id] * gen_length, dtype=np.int64)
    network = network or WholeCanvas()
    network.start(model, canvas, len(prompt))
    margins, commits, passes = Margins(), [], 0
    for low in range(len(prompt), len(canvas), block_length):
        high = low + block_length
        remaining = set(np.flatnonzero((canvas == mask_id) & (np.arange(len(canvas)) < high)).tolist())
        total, per_block = len(remaining), steps // blocks
        for left in range(per_block - 1, -1, -1):
            keep = int(np.float32(total) * np.float32(left / per_block))
            if keep >= len(remaining):
                continue  # the published loop runs the network here and changes nothing
            passes += 1
            masked = np.isin(np.arange(len(canvas)), list(remaining))
            logits = shift_right(network.logits(canvas, low, high, masked))
            uncertainty = np.full(len(canvas), -np.inf)
            uncertainty[masked] = -dream_confidence(rule, filter_logits(logits[masked], top_p, top_k, margins))
            # From the highest position down, so that of equal ones the higher remains.
            order = sorted(remaining, key=lambda p: (-uncertainty[p], -p))
            if keep:
                margins.see_choice(uncertainty[order[keep - 1]], uncertainty[order[keep]])
            chosen = np.array(sorted(order[keep:]))
            margins.see_tokens(logits[chosen])
            canvas[chosen] = np.argmax(logits[chosen], axis=-1)
            network.committed(canvas, chosen)
            commits.append((passes, chosen.tolist()))
            remaining -= set(chosen.tolist())
    return Decode(canvas.tolist(), canvas[len(prompt):].tolist(), margins, passes, commits)


def greedy_generate(model, prompt, gen_length):
    """The most probable next token, `gen_length` times, whatever it is."""
    tokens, margins = list(prompt), Margins()
    for _ in range(gen_length):
        last = model.logits(tokens)[-1:]
        margins.see_tokens(last)
        tokens.append(int(np.argmax(last)))
    return Decode(tokens, tokens[len(prompt):], margins, gen_length)


def decode(model, prompt, setting, eot_id=None, network=None):
    """Runs one setting: a dict with gen_length and, as far as the family has them, steps, block_length, rule,
    cfg_scale, logits_eos_inf, confidence_eos_eot_inf, top_p, top_k, eps."""
    family = model.shape.family
    if family == "rnd1" and parallel_rule(setting.get("rule", "")) is None and setting.get("rule") != "p2":
        return rnd1_generate(model, prompt, network=network, **setting)
    if family in LLADA_FAMILIES:
        return llada_generate(model, prompt, eot_id=eot_id, network=network, **setting)
    if family in SHIFTED_FAMILIES:
        return dream_generate(model, prompt, network=network, **setting)
    return greedy_generate(model, prompt, setting["gen_length"])
