"""SureLock's Theorem 1 held against a run that locks nothing, in NumPy, written from the paper (sections 2.2 and 2.3)
and from docs/methods/surelock.md.

Request takes the log-probabilities of every row in every pass; report() gives what `lacuna analyze lock --json`
prints, as dictionaries with the same keys.
"""
import math
from dataclasses import dataclass

import numpy as np

FLOOR = 1e-12  # divergences below are rounding
WINDOW = 8
LIKELY = math.log(1e-4)
QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}


@dataclass
class Setting:
    """Settings of the lock that is tried."""
    eps: float = 5e-4
    gate: float = 20
    min_age: int = 1


def quantile(values, share):
    """Nearest rank; None of nothing."""
    values = np.sort(np.asarray(values, dtype=np.float64))
    if len(values) == 0:
        return None
    return float(values[max(1, math.ceil(share * len(values))) - 1])


def log_softmax(logits):
    """[..., vocabulary] in float64."""
    logits = logits.astype(np.float64)
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))


def divergences(log_p):
    """D[t, row] = KL(p_t || p_{t-1}) and the largest change of a log-probability; NaN at t = 0."""
    change = log_p[1:] - log_p[:-1]
    # sum p c, plus sum p exp(-c) - sum p = 0: so written, small divergences do not cancel.
    kl = (np.exp(log_p[1:]) * (np.expm1(-change) + change)).sum(axis=-1)
    blank = np.full((1, log_p.shape[1]), np.nan)
    return np.concatenate([blank, kl]), np.concatenate([blank, np.abs(change).max(axis=-1)])


def lockable(known, shifted, min_age):
    """[passes, rows]: may the row lock after pass t? known[t, i]: position i has its token when pass t begins; one more
    row than there are passes, for the canvas at the end."""
    age = np.cumsum(known[:-1], axis=0)
    after = known[1:]
    predicted = after if not shifted else np.concatenate([after[:, 1:], np.ones_like(after[:, :1])], axis=1)
    return after & predicted & (age >= min_age)


class Request:
    """One request: what the theorem assumes and bounds, row by row."""

    def __init__(self, number, log_p, known, prompt, shifted, setting):
        self.number, self.log_p, self.prompt, self.setting = number, log_p, prompt, setting
        self.d, self.change = divergences(log_p)
        self.may = lockable(known, shifted, setting.min_age)
        self.u = 1 - np.exp(log_p.max(axis=-1))
        self.steps, self.locks = [], []
        self.locked_at = {}
        for t in range(1, len(log_p)):
            self.add_pass(t)
        for row, t in self.locked_at.items():
            self.add_lock(row, t)

    def constants(self, t, row):
        """Contraction and gain from pass t - 1 to t."""
        before = max(self.d[t - 1, row], FLOOR)
        return self.d[t, row] / before, self.change[t, row] / math.sqrt(before)

    def add_pass(self, t):
        rows = np.flatnonzero(self.may[t])
        population = sorted(self.u[t, row] for row in rows if row not in self.locked_at)
        theta = 0.0
        if population:
            theta = population[max(1, math.ceil(self.setting.gate * len(population) / 100)) - 1]
        for row in rows:
            step = {"request": self.number, "position": int(row) - self.prompt, "step": t, "divergence": self.d[t, row],
                    "converged": self.d[t, row] <= self.setting.eps,
                    "confident": self.setting.gate >= 100 or self.u[t, row] <= theta}
            if t > 1 and self.may[t - 1, row]:
                step["contraction"], step["gain"] = self.constants(t, row)
                if t > WINDOW and self.may[t - WINDOW:t, row].all():
                    first, last = max(self.d[t - WINDOW, row], FLOOR), max(self.d[t, row], FLOOR)
                    step["windowed"] = (last / first) ** (1 / WINDOW)
            step["locks"] = bool(row not in self.locked_at and step["converged"] and step["confident"])
            if step["locks"]:
                self.locked_at[row] = t
            self.steps.append(step)

    def add_lock(self, row, t):
        later = [self.constants(s, row) for s in range(t + 1, len(self.log_p))]
        change = np.abs(self.log_p[-1, row] - self.log_p[t, row])
        likely = np.maximum(self.log_p[-1, row], self.log_p[t, row]) >= LIKELY
        lock = {"lock_of_request": self.number, "lock_position": int(row) - self.prompt, "lock_step": t,
                "divergence": self.d[t, row], "uncertainty": self.u[t, row], "steps_after": len(later),
                "error": change.max(), "likely_error": change[likely].max(initial=0.0),
                "largest_contraction": None, "largest_gain": None, "bound": None}
        if later:
            lock["largest_contraction"] = max(c for c, _ in later)
            lock["largest_gain"] = max(g for _, g in later)
            lock["bound"] = bound(lock["largest_contraction"], lock["largest_gain"], lock["divergence"])
        self.locks.append(lock)


def bound(contraction, gain, divergence):
    """C_tail sqrt(D); None where the theorem says nothing."""
    if contraction >= 1:
        return None
    return gain / (1 - math.sqrt(contraction)) * math.sqrt(max(divergence, FLOOR))


def share(values):
    """Share of true ones; None of nothing."""
    values = list(values)
    return sum(map(bool, values)) / len(values) if values else None


def distributions(name, steps):
    """Rows with quantiles of each figure."""
    def row(figure, values, of):
        return {"rows": name, "figure": figure, **{q: quantile(values, at) for q, at in QUANTILES.items()},
                "share": of, "count": len(values)}

    found = {key: [s[key] for s in steps if key in s] for key in ("divergence", "contraction", "windowed", "gain")}
    return [row("divergence", found["divergence"], share(s["converged"] for s in steps)),
            row("contraction", found["contraction"], share(c < 1 for c in found["contraction"])),
            row("contraction over 8 steps", found["windowed"], share(c < 1 for c in found["windowed"])),
            row("gain", found["gain"], None)] if steps else []


def groups(key, steps):
    """Rows by step or position."""
    made = []
    for index in sorted({s[key] for s in steps}):
        of = [s for s in steps if s[key] == index]
        d = [s["divergence"] for s in of]
        made.append({key: index, "divergence_q50": quantile(d, 0.5), "divergence_q95": quantile(d, 0.95),
                     "contracting": share(s["contraction"] < 1 for s in of if "contraction" in s),
                     "converged": share(s["converged"] for s in of), "confident": share(s["confident"] for s in of),
                     "both": share(s["converged"] and s["confident"] for s in of),
                     "locks": sum(s["locks"] for s in of), "rows": len(of)})
    return made


def decades(locks):
    """Rows by the divergence at lock."""
    made, by = [], {}
    for lock in locks:
        d = lock["divergence"]
        by.setdefault(-math.inf if d < FLOOR else math.floor(math.log10(d)), []).append(lock)
    for decade in sorted(by):
        of = by[decade]
        figures = {"error": [k["error"] for k in of], "likely_error": [k["likely_error"] for k in of],
                   "tail": [k["error"] / math.sqrt(max(k["divergence"], FLOOR)) for k in of]}
        row = {"divergence_at_lock": "0" if decade == -math.inf else f"1e{decade}"}
        for name, values in figures.items():
            row |= {f"{name}_q50": quantile(values, 0.5), f"{name}_q95": quantile(values, 0.95)}
        made.append(row | {"contracts_to_the_end": share(k["largest_contraction"] < 1 for k in of), "locks": len(of)})
    return made


def bounds(steps, locks):
    """Rows of the bound with constants of all rows, and with each row's own."""
    made = []
    for name in ("q50", "q75", "q95", "of the row itself"):
        shared = None
        if name in QUANTILES:
            shared = [quantile([s[key] for s in steps if key in s], QUANTILES[name]) for key in ("contraction", "gain")]
        held, slack, applies = 0, [], 0
        for lock in locks:
            contraction, gain = shared or (lock["largest_contraction"], lock["largest_gain"])
            found = bound(contraction, gain, lock["divergence"])
            if found is None:
                continue
            applies += 1
            held += lock["error"] <= found + lock["steps_after"] * gain * math.sqrt(FLOOR)
            if lock["error"] > 0:
                slack.append(found / lock["error"])
        made.append({"constants": name, "contraction": shared and shared[0], "gain": shared and shared[1],
                     "tail": bound(*shared, 1.0) if shared else None,
                     "applies": applies / len(locks) if locks else None, "held": held / applies if applies else None,
                     "bound_over_error_q50": quantile(slack, 0.5), "locks": len(locks)})
    return made


def report(requests):
    """All rows, in the order of the program."""
    steps = [step for request in requests for step in request.steps]
    every = [lock for request in requests
             for lock in sorted(request.locks, key=lambda k: (k["lock_step"], k["lock_position"]))]
    moved = [lock for lock in every if lock["steps_after"] > 0]
    answer = [step for step in steps if step["position"] >= 0]
    return [*distributions("answer", answer), *distributions("prompt", [s for s in steps if s["position"] < 0]),
            *groups("step", steps), *groups("position", answer), *decades(moved), *bounds(steps, moved), *every]
