"""The opening page: accuracy relative to time and rows, for every method of every family."""
import sys
from pathlib import Path

import figures
import text
from book import figure, table, value
from text import code, percent

sys.path.append(str(Path(__file__).resolve().parents[1]))
import draw_decoders  # noqa: E402  (a tool next to this folder)

QUESTION = draw_decoders.QUESTION
ARITHMETIC = "--task arithmetic"
LOCK = "--lock eps=5e-3,gate=20"
GUIDE = "--guide mini-qwen --cache free --eos-exit --guide-match"
BALANCED_LOSS, FAST_LOSS = 0.01, 0.1  # accuracy that a setting may lose, in shares


def joined(*flags):
    """Flags with one space between them."""
    return " ".join(each for each in flags if each)


# Rules that save passes, but for the threshold; those that mask again what they have written are not for Dream.
RULES = ["local-leap", "eb", "eb=0.01", "streaming", "klass", "credit", "slow-fast", "dsb=0.9,start=8",
         "prophet=15,mid=10,late=5"]
REVOKING = ["wino", "saber=4"]


def masked(base, rules):
    """Settings of masked models. `base`: flags of one token per step; `rules`: other rules that save passes."""
    return [
        ("uncached", base),
        *((label, joined(base, flags)) for label, flags in (
            ("blocks", "--block-length 8"),
            ("blocks, exit", "--block-length 8 --eos-exit"),
            ("blocks, prefix", "--block-length 8 --cache prefix --eos-exit"),
            ("blocks, dual", "--block-length 8 --cache dual --eos-exit"),
            ("blocks, free", "--block-length 8 --cache free --eos-exit"),
            ("dkv", "--cache dkv"),
            ("d2cache", "--cache d2cache=8"),
            ("dllm-cache", "--cache dllm-cache"),
            ("lock", LOCK),
            ("blocks, lock", f"--block-length 8 --eos-exit {LOCK}"),
            ("blocks, free, lock", f"--block-length 8 --cache free --eos-exit {LOCK}"),
            ("blocks, sparse-dllm", "--block-length 8 --cache sparse-dllm --eos-exit"),
            ("blocks, suffix", "--block-length 8 --suffix 8 --eos-exit"),
            ("prompt once", "--prompt-block 32"),
        )),
        ("threshold", "--unmask threshold=0.9"),
        ("threshold, dkv", "--unmask threshold=0.9 --cache dkv"),
        ("threshold, d2cache", "--unmask threshold=0.9 --cache d2cache=8"),
        ("threshold, free", "--unmask threshold=0.9 --cache free"),
        ("threshold, lock", f"--unmask threshold=0.9 {LOCK}"),
        ("blocks, threshold", "--block-length 8 --unmask threshold=0.9 --eos-exit"),
        ("blocks, threshold, dual", "--block-length 8 --unmask threshold=0.9 --cache dual --eos-exit"),
        ("blocks, threshold, free", "--block-length 8 --unmask threshold=0.9 --cache free --eos-exit"),
        ("blocks, factor, dual", "--block-length 8 --unmask factor=1 --cache dual --eos-exit"),
        ("blocks, threshold, suffix", "--block-length 8 --unmask threshold=0.9 --suffix 8 --eos-exit"),
        ("threshold, prompt once", "--unmask threshold=0.9 --prompt-block 32"),
        ("blocks, d3llm", "--block-length 8 --unmask d3llm --eos-exit"),
        ("blocks, d3llm, delayed", "--block-length 8 --unmask d3llm --cache delayed --eos-exit"),
        ("blocks, adablock", "--block-length 8 --unmask adablock --delimiter . --eos-exit"),
        *((rule.partition(",")[0], f"--unmask {rule}") for rule in rules),
        ("guide exact", f"{GUIDE} exact"),
        ("guide", f"{GUIDE} top-k=2"),
        ("guide, lock", f"{GUIDE} top-k=2 {LOCK}"),
    ]


def gidd(base, three):
    """Settings of GIDD models. `base`: flags of one token per step; `three`: of three."""
    return [
        ("uncached", base),
        ("prefix", f"{base} --cache prefix"),
        ("uniform, R=1", f"{base} --cache uniform --refresh 1"),
        ("uniform, R=4", f"{base} --cache uniform"),
        ("uniform, boundary", f"{base} --cache uniform --refresh 0 --boundary blocks=2,full-every=4"),
        ("uniform, drift", f"{base} --cache uniform --drift tau=0.01"),
        ("3 per step", three),
        ("3 per step, uniform", f"{three} --cache uniform"),
        ("short context", f"{base} --context 160"),
        ("short context, uniform", f"{base} --context 160 --cache uniform"),
    ]


BLOCKS = [
    ("exact", "--unmask low-confidence"),
    ("separate commit pass", "--unmask low-confidence --commit apart"),
    ("threshold", "--unmask threshold=0.9"),
    ("dynamic 0.95", "--unmask dynamic=0.95"),
    ("dynamic 0.9", "--unmask dynamic=0.9"),
    ("dynamic 0.7", "--unmask dynamic=0.7"),
    ("entropy-bounded", "--unmask entropy-bounded=0.35"),
    ("sequential", "--unmask sequential"),
    ("dynamic, several blocks", "--unmask dynamic=0.9 --pipeline on"),
    ("half the steps", "--unmask low-confidence --steps 4"),
    ("dynamic, mage=16", "--unmask dynamic=0.9 --sparse mage=16"),
    ("dynamic, quest=16", "--unmask dynamic=0.9 --sparse quest=16,page=4"),
    ("exact, drafts", "--unmask low-confidence --drafts 3"),
    ("dynamic, drafts", "--unmask dynamic=0.9 --drafts 3"),
    ("dynamic, flashblock=2", "--unmask dynamic=0.9 --sparse flashblock=2"),
    ("dynamic, losa=16", "--unmask dynamic=0.9 --sparse losa=16,page=4"),
    ("exact, focus", "--unmask low-confidence --focus 1.5"),
    ("dynamic, focus", "--unmask dynamic=0.9 --focus 1.5"),
    ("soft", "--unmask soft"),
    ("dynamic, sparsed=16", "--unmask dynamic=0.9 --sparse sparsed=16"),
]
NEEDLES = [
    ("exact", "--unmask low-confidence"),
    ("dynamic 0.9", "--unmask dynamic=0.9"),
    ("block cache", "--unmask low-confidence --cache block"),
    ("dynamic, block cache", "--unmask dynamic=0.9 --cache block"),
    ("dynamic, one sub-block", "--unmask dynamic=0.9 --sub-block-length 16"),
    ("mage=64", "--unmask dynamic=0.9 --sparse mage=64"),
    ("quest=64", "--unmask dynamic=0.9 --sparse quest=64"),
    ("sparsed=64", "--unmask dynamic=0.9 --sparse sparsed=64"),
    ("flashblock=2", "--unmask dynamic=0.9 --sparse flashblock=2"),
    ("losa=64", "--unmask dynamic=0.9 --sparse losa=64"),
    ("mage=64, block cache", "--unmask dynamic=0.9 --sparse mage=64 --cache block"),
]
SLOTS = [
    ("defaults", ""),
    ("side-by-side", "--fill side-by-side"),
    ("exact acceptance", "--accept exact"),
    ("slots of 4", "--slot-size 4"),
    ("tokens 0.7", "--token-threshold 0.7"),
    ("slots 0.7", "--slot-threshold 0.7"),
    ("slots 0.5, tokens 0.5", "--slot-threshold 0.5 --token-threshold 0.5"),
    ("paper", "--refusion paper"),
    ("released", "--refusion released"),
]

FULL = {
    "samples": 500,
    "fewer": {"gidd": 200, "gidd-mask": 200, "fast-dllm": 200},  # samples of families that take longest
    "fast_points": f"{100 * FAST_LOSS:.0f}",
    # Family: model, flags of its task, its settings; the first one is the baseline.
    "families": {
        "llada": ("mini-llada", ARITHMETIC, masked("", RULES + REVOKING)),
        "dream": ("mini-dream", ARITHMETIC, masked("--unmask threshold=1", RULES + ["saber=4"])),
        "gidd": ("mini-gidd", ARITHMETIC, gidd("--steps 64 --tokens-per-step 1", "--steps 32 --tokens-per-step 3")),
        "gidd-mask": ("mini-gidd-mask", ARITHMETIC, gidd("--block-length 8 --steps 8 --tokens-per-step 1",
                                                         "--block-length 8 --steps 8 --tokens-per-step 3")),
        "refusion": ("mini-refusion", ARITHMETIC, SLOTS),
        "refusion-records": ("mini-refusion", "--task records", SLOTS),
        "sdar": ("mini-sdar", ARITHMETIC, BLOCKS),
        "fast-dllm": ("bench/models/mini-fast-dllm-retrieval", "--task retrieval --length 1024", NEEDLES),
        "llada2": ("mini-llada2", ARITHMETIC, BLOCKS),
    },
    "lanes": [
        ("LLaDA, one token per step", "-m mini-llada"),
        ("LLaDA, threshold and DualCache",
         "-m mini-llada --block-length 8 --unmask threshold=0.9 --cache dual --eos-exit"),
        ("GIDD, Uniform-Cache", "-m mini-gidd --steps 64 --tokens-per-step 1 --cache uniform"),
        ("SDAR, dynamic", "-m mini-sdar --unmask dynamic=0.9"),
        ("ReFusion", "-m mini-refusion"),
    ],
}
QUICK = {"samples": 4}


class Found:
    """Figures of a setting, relative to the baseline of its family."""

    def __init__(self, label, flags, command, measured, base):
        self.label, self.flags, self.command, self.accuracy = label, flags, command, measured.accuracy
        self.measured = measured
        self.has_same_texts = measured.texts == base.texts
        self.is_sparse = "--sparse" in flags
        self.has_begun = not self.is_sparse or bool(measured.sparse_rows)
        self.rows = measured.all_rows / base.all_rows
        self.time = measured.processor_seconds / base.processor_seconds


def evaluate(run, family):
    """Every setting of a family, the baseline first, without those whose sparse attention never began: they say
    nothing about the method."""
    return [each for each in evaluate_all(run, family) if each.has_begun]


def evaluate_all(run, family):
    """Every setting of a family, the baseline first."""
    model, task, settings = run.grid.families[family]
    found = []
    samples = min(run.grid.samples, FULL["fewer"].get(family, run.grid.samples))
    for label, flags in settings:
        command = joined(f"lacuna eval -m {model} {task}", flags, f"--batch 1 --samples {samples} --threads 1")
        measured = run.evaluate(command, timed=True)
        found.append(Found(label, flags, command, measured, found[0].measured if found else measured))
    return found


def trace_command(flags):
    """Records the passes of a decoder on the question."""
    return f'lacuna run {flags} --gen-length 32 -p "{QUESTION}" --trace trace.jsonl --threads 1'


def timeline(row):
    """Input of draw_decoders, from the row of a trace."""
    prompt, found = row["prompt_length"], draw_decoders.Timeline()
    tokens, now = {}, 0  # position -> (rows when it appeared, token)
    spans = found.tokens
    for line in row["result"]["trace"]:
        now += len(line["rows"])
        found.rows.append(len(line["rows"]))
        for commit in line["committed"]:
            position = commit["position"] - prompt
            if position in tokens:
                begin, token = tokens[position]
                spans.append(draw_decoders.Span(position, begin, now, token))
            tokens[position] = (now, commit["token"])
    spans += [draw_decoders.Span(position, begin, None, token) for position, (begin, token) in tokens.items()]
    found.cells += [draw_decoders.Span(position, 0, None) for position in range(1 + max(tokens))]
    found.texts |= {each["token"]: each["text"] for each in row["result"]["texts"]}
    found.ends = frozenset(token for token, words in found.texts.items() if words.startswith("<|"))
    return found


@figure(file="decoders")
def decoders(run):
    """The question, answered by each decoder on one axis of rows."""
    lines = [timeline(run.row(trace_command(flags))) for _, flags in run.grid.lanes]
    labels = [label for label, _ in run.grid.lanes]
    return ("The same question, answered by each decoder",
            draw_decoders.draw(QUESTION, labels, lines, "python3 tools/results frontier"))


@table
def lanes(run):
    """Commands of the animation."""
    return ["decoder", "command"], [[label, code(trace_command(flags))] for label, flags in run.grid.lanes]


def fastest(found, allows):
    """The fastest of the settings that `allows` accepts; it accepts the baseline."""
    return min(filter(allows, found), key=lambda each: each.time)


def fastest_within(found, loss):
    """The fastest setting that loses at most this share of the answers."""
    return fastest(found, lambda each: each.accuracy >= found[0].accuracy - loss - 1e-9)


def flags_text(found):
    """Flags of a setting."""
    return code(found.flags) if found.flags else "the defaults:"


def choice(found):
    """A setting with its accuracy and its costs."""
    return f"{flags_text(found)} {percent(found.accuracy)} (time {found.time:.2f}, rows {found.rows:.2f})"


@table
def choices(run):
    """The best setting of each family for each goal."""
    rows = []
    for family, (model, _, _) in run.grid.families.items():
        found = evaluate(run, family)
        rows.append([model, f"{flags_text(found[0])} {percent(found[0].accuracy)}",
                     choice(fastest(found, lambda each: each.has_same_texts)),
                     choice(fastest_within(found, BALANCED_LOSS)), choice(fastest_within(found, FAST_LOSS))])
    return ["model", "baseline", "exact", "within one point", "fastest"], rows


@value
def left_out(run):
    """Settings whose sparse attention never began."""
    found = [f"{each.label} of {family} ({code(each.command)})" for family in run.grid.families
             for each in evaluate_all(run, family) if not each.has_begun]
    return "; ".join(found) or "none"


@value
def sparse_shares(run):
    """The least and the largest share of sparse rows in the settings that are shown."""
    shares = [each.measured.sparse_share for family in run.grid.families for each in evaluate(run, family)
              if each.is_sparse]
    return f"{100 * min(shares):.2g}% to {100 * max(shares):.2g}%" if shares else "-"


def is_on_frontier(setting, found, cost):
    """Whether no other setting is at least as accurate and as cheap, and better in one of both."""
    def beats(other):
        gain, saved = other.accuracy - setting.accuracy, cost(setting) - cost(other)
        return gain >= 0 and saved >= 0 and (gain > 0 or saved > 0)
    return not any(map(beats, found))


def plot_cost(axes, found, cost):
    """Accuracy by a cost: every setting as a mark, the frontier joined. Returns the labelled points of both."""
    best = sorted((each for each in found if is_on_frontier(each, found, cost)), key=cost)
    others = [each for each in found if each not in best]
    frontier, rest = ([(cost(each), 100 * each.accuracy, each.label) for each in part] for part in (best, others))
    for points, style, colour, name in ((frontier, "o-", 0, "frontier"), (rest, "o", 1, "others")):
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], style, markersize=4,
                  color=figures.COLOURS[colour], label=name)
    axes.margins(0.1)
    figures.legend(axes)
    return frontier, rest


@figure(file="frontier_{}")
def costs(run, family):
    """Accuracy by time and by rows."""
    model, task, _ = run.grid.families[family]
    drawn, both = figures.axes(f"{family}, {task.removeprefix('--task ')}", "", "accuracy, %", columns=2, log="x")
    found = evaluate(run, family)
    plotted = []
    for axes, cost, label in ((both[0], lambda each: each.time, "time relative to the baseline"),
                              (both[1], lambda each: each.rows, "rows relative to the baseline")):
        axes.set_xlabel(label)
        plotted.append(plot_cost(axes, found, cost))
    for axes, families in zip(both, plotted):
        figures.label_families(axes, families)
    return f"Accuracy by time and by rows, {model}", drawn


@table
def settings(run, family):
    """Every setting of a family."""
    rows = [[each.label, text.accuracy(each.measured), "yes" if each.has_same_texts else "",
             f"{each.measured.passes:.1f}", f"{each.rows:.3f}", f"{each.time:.2f}", code(each.command)]
            for each in evaluate(run, family)]
    return ["setting", "accuracy", "same texts", "passes", "rows", "time", "command"], rows
