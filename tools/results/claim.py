"""A claim of a paper, and how it is judged."""

from dataclasses import dataclass

from evaluation import difference
from text import percent, times

MARGIN = 0.025  # of accuracy: a loss of at most this, in shares, counts as kept
YES, NO, OPEN = "yes", "no", "undecided"
MASKED, LOCK, WEAK, REFUSION, UNIFORM, MAGE, SHAPES = (
    f"[{name}.md]({name}.md)" for name in ("masked", "lock", "weak_guide", "refusion", "uniform", "mage", "shapes")
)


@dataclass(frozen=True)
class Claim:
    """A claim and what was found."""

    name: str
    paper: str  # the paper's figures, where they stand, and its conditions
    here: str  # conditions here
    found: str  # figure with interval
    verdict: str
    flips: str  # what would change the verdict
    page: str



def decided(holds):
    """The verdict of what is counted and not sampled."""
    return YES if holds else NO


def all_of(*verdicts):
    """The verdict of a claim with several parts."""
    return NO if NO in verdicts else OPEN if OPEN in verdicts else YES


def above(found, base, least):
    """Whether the accuracy exceeds the other one by more than `least`: undecided where the interval holds `least`."""
    _, low, high = difference(found, base)
    return YES if low > least else NO if high <= least else OPEN


def kept(found, base):
    """Whether at most MARGIN of accuracy is lost."""
    return above(found, base, -MARGIN)


def points(found, base):
    """Two accuracies, and their difference in points with its interval."""
    middle, low, high = (100 * each for each in difference(found, base))
    return (
        f"{percent(found.accuracy)} against {percent(base.accuracy)}: {middle:+.1f} points ({low:+.1f} to {high:+.1f})"
    )


def fewer(base, found):
    """How many times fewer rows."""
    return base.all_rows / found.all_rows


def as_fast(found, base, least=1.0):
    """Whether one is more than `least` times as fast as another: undecided where repeated runs of either say both."""
    slowest, fastest = min(found.rates) / max(base.rates), max(found.rates) / min(base.rates)
    return YES if slowest > least else NO if fastest <= least else OPEN


def speed(found, base):
    """Tokens per second of both, the ratio of the fastest runs, and how far repeated runs spread it."""
    slowest, fastest = min(found.rates) / max(base.rates), max(found.rates) / min(base.rates)
    spread = f" ({slowest:.2f} to {fastest:.2f} over {len(found.rates)} and {len(base.rates)} runs)"
    return f"{found.rate:.0f} against {base.rate:.0f} tokens per second: {times(found.rate / base.rate)}{spread}"
