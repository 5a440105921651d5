"""Headline claims of the papers next to those of claims.py: speeds against other models, quality under literal rules, memory."""

import mage
import uniform
from claim import (
    MAGE, MASKED, NO, OPEN, REFUSION, SHAPES, UNIFORM, YES, Claim, above, all_of, as_fast, decided, kept, points, speed,
)
from errors import BookError
from text import percent, times

FIGURE_3A = ("lacuna bench decode -m random:llada-8b,layers=2 --prompt-length 143 --gen-length {} --lock eps=5e-3,gate=20 "
             "--timed-passes 4 --threads 2")
CANVAS = 1333 + 256  # FlashDLM's prompt with eight worked examples, and its answer
# model: (guide, the paper's total and the model's own, GB of Tables 9 and 10)
GUIDES = {"llada-8b": (20.7, {"qwen2.5-0.5b": 22.6, "qwen2.5-1.5b": 24.8, "qwen2.5-7b": 38.0}),
          "dream-7b": (14.6, {"qwen2.5-0.5b": 16.5, "qwen2.5-1.5b": 18.7, "qwen2.5-7b": 31.9})}
MEMORY_COMMAND = "lacuna inspect -m random:{} --guide random:{} --canvas {} --json"
NEAR = 1.05  # times the paper's own ratio of memory
TIMED = "--batch 1 --samples 16 --threads 1"


def speedups(found):
    """(lowest, middle, highest) speedup of `lacuna bench decode` over its repeated runs."""
    plain, setting = found["plain"], found["setting"]
    return (plain["seconds_min"] / setting["seconds_max"], 1 / found["time_ratio"],
            plain["seconds_max"] / setting["seconds_min"])


def shown_speedup(found):
    """The speedup, its range over repeated runs, and what FLOPs allow."""
    low, middle, high = speedups(found)
    spread = f"{low:.2f} to {high:.2f}" if high > low else "one run"
    return f"{times(middle)} ({spread}; {1 / found['flops_ratio']:.2f} by FLOPs)"


def faster(found, base):
    """Whether one `lacuna bench decode` saves more time than another: undecided where their ranges overlap."""
    (low, _, high), (base_low, _, base_high) = speedups(found), speedups(base)
    return YES if low > base_high else NO if high < base_low else OPEN


def reaches(found, least):
    """Whether a speedup is at least `least`: undecided where repeated runs say both."""
    low, _, high = speedups(found)
    return YES if low >= least else NO if high < least else OPEN


def surelock(asked):
    """The literal algorithm."""
    flags = "lacuna eval -m mini-llada --judge mini-qwen --task arithmetic --gen-length 32 --steps 32 --batch 8"
    rest = "--samples 200 --threads 1"
    plain = asked.command(f"{flags} {rest}")
    literal, variant = (asked.command(f"{flags} --lock eps=5e-3,gate=20{more} {rest}") for more in (",min-age=0", ""))
    yield Claim(
        "SureLock: quality is kept, the literal Algorithm 1 (min-age=0)",
        "judge's scores 0.96 to 1.09 times the baseline's (Table 3); perplexity 1.02 to 1.37 times (Table 2); the paper does "
        "not say whether its program locks a row in the pass that writes its token, as Algorithm 1 does",
        "mini-llada, arithmetic, one block of 32, one token a step, m = 20, ε = 5e-3; the claim above is of min-age=1, "
        "Lacuna's default",
        f"{points(literal, plain)} with {literal.row_ratio:.3f} of the rows; min-age=1 "
        f"{percent(variant.accuracy)} with {variant.row_ratio:.3f}",
        kept(literal, plain),
        "a model on which the K/V of a mask are near those of the token that replaces it",
        MASKED,
    )


def figure_3a(asked):
    """Time that locks save by the length of the answer."""
    short, long = (asked.result(FIGURE_3A.format(length)) for length in (64, 1024))
    yield Claim(
        "SureLock: longer answers gain more time (Figure 3a)",
        'a figure without numbers: greater gains for N ≥ 256 and B > 1, and "no runtime gain" at N = 64, B = 1 (Experiment 4)',
        "two layers of LLaDA-8B's shape with random weights, a prompt of 143 tokens, batch 1; simulated locks, of the prompt's "
        "rows as well, which are most of the short canvas",
        f"{shown_speedup(long)} at 1,024 tokens against {shown_speedup(short)} at 64",
        faster(long, short),
        "a machine on which a pass takes the same time whatever its rows, as a GPU does with few of them",
        SHAPES,
    )


def refusion(asked):
    """ReFusion against masked models, and what reuse saves."""
    twin = "lacuna eval -m build/twins/{} --task records"
    slots = asked.command(f"{twin.format('refusion')} --refusion lacuna {TIMED}")
    fast = " --unmask threshold=0.9 --cache dual"
    claimed = "over 18× on average (abstract); by the mean rates of Table 1 5.9 times LLaDA's, 8.2 times Dream's, 1.8 and "
    claimed += "2.0 times those with Fast-dLLM; A100, batch 1"
    for name, model, more, least in (("LLaDA, one token a step", "llada", "", 18),
                                     ("Dream, one token a step", "dream", "", 18),
                                     ("LLaDA with threshold and dual cache", "llada", fast, 1.8)):
        masked = asked.command(f"{twin.format(model)}{more} {TIMED}")
        yield Claim(
            f"ReFusion: {least:g} times as fast as masked models, {name}",
            claimed,
            "trained alike on the same data, records, one sample at a time, processor time of a CPU; the masked models did "
            "not learn the task in that time",
            speed(slots, masked),
            as_fast(slots, masked, least),
            "longer answers, of which a masked model computes every position in each step",
            REFUSION,
        )
    rest = "--batch 8 --samples 200 --threads 1"
    accurate, inaccurate = (asked.command(f"{twin.format(model)}{more} {rest}")
                            for model, more in (("refusion", " --refusion lacuna"), ("llada-long", "")))
    yield Claim(
        "ReFusion: more accurate than a masked model",
        "34% more on average than prior masked models (abstract); at equal data 59.93 against LLaDA's 14.43 (Table 2)",
        "trained alike, LLaDA four times as long, records, Lacuna's rules",
        points(accurate, inaccurate),
        above(accurate, inaccurate, 0),
        "training until the masked model knows the task",
        REFUSION,
    )


def reuse(asked):
    """Speed of reused K/V."""
    for task in ("arithmetic", "records"):
        flags = f"lacuna eval -m mini-refusion --task {task} --refusion released --kv"
        kept_kv, again = (asked.command(f"{flags} {kv} {TIMED}") for kv in ("reuse", "recompute"))
        yield Claim(
            f"ReFusion: reusing K/V is 1.16 times as fast as recomputing them, {task}",
            "1.16 to 1.33 times on seven tasks (Table 4); recomputing takes a forward pass of its own",
            "mini-refusion, released rules, one sample at a time; here the K/V are recomputed as rows of the next pass, so "
            f"that no pass is added and the rows grow by {percent(again.all_rows / kept_kv.all_rows - 1)}; refusion.md counts what both "
            "compute, from which no such order follows",
            speed(kept_kv, again),
            as_fast(kept_kv, again, 1.16),
            "recomputation in a pass of its own (--kv recompute-apart), or slots that are more often completed in parallel",
            REFUSION,
        )


def autoregressive(asked):
    """Guided diffusion against its guide alone."""
    flags = "lacuna eval -m {} --task arithmetic --gen-length 32 --batch 1"
    alone = asked.command(f"{flags.format('mini-qwen')} --samples 16 --threads 1")
    for match in ("exact", "relative=0.5"):
        guided = asked.command(f"{flags.format('mini-llada')} --guide mini-qwen --cache free --guide-match {match} "
                               "--guide-fallback dlm --samples 16 --threads 1")
        yield Claim(
            f"FlashDLM: as fast as an autoregressive model, {match}",
            '"a comparable and even faster latency" (abstract), of "same-sized" models (section 1); GSM8K: Dream-7B guided 2.55 to '
            '3.43 s, LLaDA-8B 4.29 to 5.31 s, against '
            "1.59 to 3.23 s of Qwen2.5-1.5B to 7B alone (Table 4)",
            "mini-llada guided by mini-qwen against mini-qwen alone, which has its size; one sample at a time",
            speed(guided, alone),
            as_fast(guided, alone),
            "a machine on which a pass of 32 rows takes no longer than one of a single row, as a GPU is, and a guide much "
            "smaller than the model that it is compared with",
            MASKED,
        )


def memory(asked):
    """Memory of guided diffusion."""
    for model, (own, totals) in GUIDES.items():
        cells, verdicts = [], []
        for guide, total in totals.items():
            found = asked.result(MEMORY_COMMAND.format(model, guide, CANVAS))
            alone, both = found["memory"]["run"]["total_bytes"], found["guide"]["total_bytes_with_model"]
            cells.append(f"{both / 1e9:.1f} GB with {guide.partition('-')[2]}")
            verdicts.append(decided(both / alone <= NEAR * total / own))
        yield Claim(
            f"FlashDLM: a guide adds little memory beyond its own, {model}",
            f"{own} GB alone, {', '.join(f'{total}' for total in totals.values())} GB with Qwen2.5 0.5B, 1.5B and 7B (Tables "
            "9 and 10)",
            f"what `lacuna inspect` computes for a canvas of {CANVAS:,} positions; yes where the ratio to the model alone is "
            "at most 5% above the paper's",
            f"{alone / 1e9:.1f} GB alone; {', '.join(cells)}",
            all_of(*verdicts),
            "a guide that keeps K/V or logits of more positions",
            MASKED,
        )


def steps_command(model, count):
    """The row of page uniform.md with so many steps."""
    return uniform.eval_command(model, uniform.steps_flags(count), uniform.FULL["samples"], 8)


def uniform_cache(asked):
    """Uniform against masked noise, perplexity with the cache, and how often the next block is refreshed."""
    sweep = {count: [asked.command(steps_command(model, count)) for model in ("mini-gidd", "mini-gidd-mask")]
             for count in uniform.FULL["step_counts"]}
    least = min(sweep)
    yield Claim(
        "Uniform-Cache: uniform diffusion degrades more gracefully than masked diffusion as steps decrease",
        "Figure 6.5, perplexity without numbers: 512 positions, 512 to 4 steps, ancestral sampling",
        f"mini-gidd against mini-gidd-mask, arithmetic, 32 positions, ancestral sampling at temperature 0.3; judged at {least} "
        "steps",
        "; ".join(f"{count} steps {percent(one.accuracy)} against {percent(other.accuracy)}"
                  for count, (one, other) in sweep.items()) + f"; at {least} {points(*sweep[least])}",
        above(*sweep[least], 0),
        "more samples, or a masked model that is no better at many steps",
        UNIFORM,
    )
    flags = f"{uniform.BLOCK_STEPS} --tokens-per-step 1 --cache {{}} {uniform.NO_SHORTCUTS} --judge mini-qwen"
    plain, cached = (asked.command(uniform.eval_command("mini-gidd", flags.format(cache), uniform.FULL["samples"], 8))
                     for cache in ("none", "uniform"))
    if None in (plain.perplexity_low, cached.perplexity_low):
        raise BookError("perplexities without intervals decide nothing")
    yield Claim(
        "Uniform-Cache: caching lowers perplexity",
        "5.33 [4.79, 5.93] uncached, 4.86 [4.30, 5.49] cached; 10.20 and 5.79 in one block of 512, 3.74 and 2.98 with 1,536 "
        "positions (Table 6.1)",
        "mini-gidd, arithmetic, blocks of 16, one token a step, judged by mini-qwen; yes where the intervals do not overlap",
        f"{cached.perplexity:.3f} ({cached.perplexity_low:.3f} to {cached.perplexity_high:.3f}) against "
        f"{plain.perplexity:.3f} ({plain.perplexity_low:.3f} to {plain.perplexity_high:.3f})",
        YES if cached.perplexity_high < plain.perplexity_low else NO if cached.perplexity_low > plain.perplexity_high
        else OPEN,
        "free text, whose perplexity is not near 1",
        UNIFORM,
    )
    if not asked.grid.has_shapes:
        return
    never, usual = (asked.result(uniform.shape_command(uniform.FULL["shapes"][0], f"{uniform.PLAN} --cache uniform{more}", 1))
                    for more in (" --refresh 0", ""))
    yield Claim(
        "Uniform-Cache: never refreshing the next block is faster than R = 4",
        "12.2 against 11.9 times the uncached speed (Table 6.10)",
        "one layer of GIDD 3B's shape with random weights on a CPU, batch 1; two runs of the program, whose same passes differ by "
        "more than R = 0 saves (uniform.md)",
        f"{shown_speedup(never)} against {shown_speedup(usual)}",
        faster(never, usual),
        "timings that repeat to within the 2% of FLOPs that R = 0 saves",
        UNIFORM,
    )


RECALL = "lacuna analyze recall -m {} --task arithmetic --gen-length 32 --ignore-eos --budgets 16,24 --page 4 --samples 4{} --threads 2"


def anchoring(asked):
    """Recall of the first step's selection, trained in blocks and not."""
    model, control = ({row["budget"]: row["recall"] for row in mage.found_table(asked, command, "budget", "recall")}
                      for command in (RECALL.format("mini-sdar", ""), RECALL.format("mini-qwen3", " --as-blocks 8")))
    yield Claim(
        "MAGE: training in blocks makes the first step's selection serve later steps",
        "recall rises by 5 to 11 points over the autoregressive backbone (section 3.2)",
        "mini-sdar against mini-qwen3, from which it was trained, asked as blocks of 8; arithmetic; yes from 5 points on",
        ", ".join(f"{100 * (model[budget] - control[budget]):+.1f} points at {budget} cells" for budget in model),
        decided(all(model[budget] - control[budget] >= 0.05 for budget in model)),
        "a backbone whose selections change as little without such training",
        MAGE,
    )


def quest(asked):
    """Quest with a budget of four pages."""
    for unmask, name in ((mage.UNMASK["single"], "one token a step"), (mage.UNMASK["dynamic"], "all tokens above 0.9999")):
        flags = f"-m mini-sdar --task arithmetic --gen-length 32 --unmask {unmask} --sparse"
        selected, paged = (asked.evaluate(f"{flags} {sparse}") for sparse in ("mage=16", "quest=16,page=4"))
        yield Claim(
            f"MAGE: more accurate than Quest at a budget of four pages, {name}",
            "36.50, 41.47 and 45.01 against MAGE's 45.90, 46.27 and 46.37 at 256, 512 and 1,024 (LongBench, SDAR-8B, Table 2): "
            "16 pages and more",
            f"mini-sdar, arithmetic, budget of 16 of about 30 cells, blocks of 8, {name}, two of four layers exact; Quest with "
            "pages of 4 cells",
            points(selected, paged),
            above(selected, paged, 0),
            "contexts of which four pages are a small part",
            MAGE,
        )


def judged(asked):
    """All of them."""
    yield from surelock(asked)
    if asked.grid.has_shapes:
        yield from figure_3a(asked)
    yield from autoregressive(asked)
    yield from memory(asked)
    if asked.grid.has_trained:
        yield from refusion(asked)
    yield from reuse(asked)
    yield from uniform_cache(asked)
    yield from anchoring(asked)
    yield from quest(asked)
