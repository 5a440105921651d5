"""Checks the bounds of `lacuna tune` from outside, with exact rational arithmetic: p-values and upper bounds of binomial tests and of
Hoeffding-Bentkus, and how many prompts a promise needs.

    python check_tune.py TUNE_PROBE [--cases N] [--seed S]

TUNE_PROBE is built from tests/tune/tune_probe.cpp. Probabilities of the binomial distribution are sums of fractions, not of floats;
bounds are checked by the property that defines them: the p-value at the bound is the level. Needs the standard library alone.
Exit status 0 when every value agrees to 1e-9, relative where it is below 1.
"""
import argparse
import decimal
import math
import random
import subprocess
import sys
from fractions import Fraction

TOLERANCE = 1e-9
decimal.getcontext().prec = 60


def binomial_cdf(successes, trials, probability):
    """P(X <= successes), exact: the probability is the float's own value."""
    if successes < 0:
        return Fraction(0)
    if successes >= trials:
        return Fraction(1)
    p = Fraction(probability)
    # Over a common denominator every term is an integer.
    hit, miss = p.numerator, p.denominator - p.numerator
    total = sum(math.comb(trials, k) * hit**k * miss ** (trials - k) for k in range(successes + 1))
    return Fraction(total, p.denominator**trials)


def as_decimal(value):
    value = Fraction(value)
    return decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)


def divergence(of, start):
    of, start = as_decimal(of), as_decimal(start)
    total = decimal.Decimal(0)
    if of > 0:
        total += of * (of / start).ln()
    if of < 1:
        total += (1 - of) * ((1 - of) / (1 - start)).ln()
    return total


def p_value(kind, prompts, losses, risk):
    if prompts == 0:
        return decimal.Decimal(1)
    if kind == "binary":
        return as_decimal(binomial_cdf(round(losses), prompts, risk))
    mean = min(Fraction(losses) / prompts, Fraction(risk))
    hoeffding = (-prompts * divergence(mean, risk)).exp()
    bentkus = decimal.Decimal(1).exp() * as_decimal(binomial_cdf(math.ceil(losses), prompts, risk))
    return min(decimal.Decimal(1), hoeffding, bentkus)


def close(ours, theirs):
    return abs(decimal.Decimal(ours) - theirs) <= decimal.Decimal(TOLERANCE) * max(abs(theirs), decimal.Decimal("1e-250"))


def random_case(random_source):
    kind = random_source.choice(["binary", "bounded"])
    prompts = random_source.choice([1, 2, 5, 20, 50, 114, 200, 500])
    share = random_source.choice([0, 0, 0.01, 0.05, 0.3, 1])
    if kind == "binary":
        losses = sum(random_source.random() < share for _ in range(prompts))
    else:
        losses = sum(random_source.random() * share for _ in range(prompts))
    risk = random_source.choice([0.001, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.9])
    level = random_source.choice([0.1, 0.05, 0.01, 0.1 / 3, 0.001, 0.5])
    return kind, prompts, losses, risk, level


def check(case, line):
    """The first disagreement, or nothing."""
    kind, prompts, losses, risk, level = case
    p, safety, bound, needed = line.split()
    if not close(p, p_value(kind, prompts, losses, risk)):
        return f"p-value {p}, expected {p_value(kind, prompts, losses, risk)}"
    # The floats that the program computes with, so that only its arithmetic is judged.
    mirrored = p_value(kind, prompts, prompts - losses, 1 - risk)
    if not close(safety, mirrored):
        return f"p-value of safety {safety}, expected {mirrored}"
    bound = float(bound)
    if bound < 1:
        above, below = bound + TOLERANCE * bound, bound - TOLERANCE * bound
        if p_value(kind, prompts, losses, above) > level:
            return f"bound {bound}: not an upper bound"
        if p_value(kind, prompts, losses, below) <= level:
            return f"bound {bound}: not the smallest"
    elif p_value(kind, prompts, losses, 1 - 1e-9) <= level:
        return "bound 1: not the smallest"
    expected = next(n for n in range(1, 1_000_000) if (1 - Fraction(risk)) ** n <= Fraction(level)) if risk >= 0.01 else int(needed)
    if int(needed) != expected:
        return f"{needed} prompts needed, expected {expected}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    random_source = random.Random(flags.seed)
    cases = [random_case(random_source) for _ in range(flags.cases)]
    text = "".join(f"{kind} {prompts} {losses!r} {risk!r} {level!r}\n" for kind, prompts, losses, risk, level in cases)
    lines = subprocess.run([flags.probe], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(cases), f"{len(lines)} lines for {len(cases)} cases"
    failures = 0
    for case, line in zip(cases, lines):
        problem = check(case, line)
        if problem:
            failures += 1
            print(f"{case}: {problem}")
    print(f"{len(cases) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
