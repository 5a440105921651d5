"""SureLock, the caches and the guide on a masked diffusion model."""
import figures
import text
from book import figure, table, value
from errors import BookError
from evaluation import difference
from text import code, percent, times

EPS, MIDDLE_EPS = ("5e-4", "5e-3", "5e-2"), "5e-3"
FULL = {
    "model": "mini-llada",
    "guide": "mini-qwen",
    "samples": 200,
    "timed_samples": 16,  # of what is timed, the first ones
    "turns": 3,
    "step_samples": 4,  # of what is timed step by step
    "step_repeats": 5,
    "lengths": (32, 64, 128),
    "short_length": 32,
    "step_counts": (4, 8, 16, 32),
    "rules": ("low-confidence", "margin", "entropy"),
}
QUICK = {"samples": 4, "timed_samples": 2, "step_samples": 1, "step_repeats": 1, "lengths": (8, 16, 32), "short_length": 8, "step_counts": (4, 8)}
PAPER_RATIOS = [["64", ".547", ".506", ".482"], ["256", ".496", ".482", ".475"], ["1024", ".494", ".492", ".490"]]
PAPER_PERPLEXITY = [["64/32", "5.75", "6.08 (1.06×) .70", "6.22 (1.08×) .62"],
                    ["64/64", "3.48", "4.57 (1.31×) .58", "4.76 (1.37×) .52"],
                    ["128/64", "3.16", "3.84 (1.21×) .63", "3.74 (1.18×) .57"],
                    ["128/128", "2.60", "2.92 (1.12×) .53", "3.10 (1.19×) .50"]]
PAPER_SCORES = [["64/32", "3.9→3.8 .698", "3.8→3.7 .653"], ["64/64", "4.2→4.2 .627", "4.2→4.3 .587"],
                ["128/64", "4.4→4.2 .630", "4.3→4.2 .598"], ["128/128", "4.8→4.9 .577", "4.8→5.1 .553"]]


def lock_flags(eps, gate=20):
    """Flags of SureLock."""
    return f"--lock eps={eps},gate={gate}"


# --- settings ---


def evaluate(run, flags, samples, timed=False):
    """Figures of a setting."""
    return run.evaluate(f"lacuna eval {flags} --samples {samples} --threads 1", timed)


def judged(run, task, length, steps, more="", block=0):
    """SureLock's experiments: several samples per pass, and a judge."""
    flags = f"-m {run.grid.model} --judge {run.grid.guide} --task {task} --gen-length {length} --steps {steps}"
    flags += (f" --block-length {block}" if block else "") + " --batch 8" + (f" {more}" if more else "")
    return evaluate(run, flags, run.grid.samples)


def alone(run, more="", model=None):
    """FlashDLM's experiments: figures of any batch size, times of one problem at a time."""
    def flags(batch):
        words = f"-m {model or run.grid.model} --task arithmetic --gen-length {run.grid.short_length} --batch {batch}"
        return words + (f" {more}" if more else "")
    found, timed = evaluate(run, flags(8), run.grid.samples), evaluate(run, flags(1), run.grid.timed_samples, True)
    found.seconds, found.processor_seconds = timed.seconds, timed.processor_seconds
    return found


def guided(run, more=""):
    """The same with the guide; acceptance criterion top-k=2 where `more` gives none."""
    match = "" if "--guide-match" in more else " --guide-match top-k=2"
    return alone(run, f"--guide {run.grid.guide}{match}" + (f" {more}" if more else ""))


# --- SureLock ---


@table
def ratio_by_length(run):
    """Table 1."""
    rows = []
    for length, paper in zip(run.grid.lengths, PAPER_RATIOS):
        locked = [judged(run, "arithmetic", length, length, lock_flags(eps)) for eps in EPS]
        rows.append([length, *(f"{each.flops_ratio:.3f} ({each.row_ratio:.3f})" for each in locked), *paper])
    return ["N_gen", "ε 5e-4", "5e-3", "5e-2", "paper's N_gen", "5e-4", "5e-3", "5e-2"], rows


@figure()
def active_rows(run):
    """Figure 2."""
    length = run.grid.lengths[1]
    title = f"Rows computed by step, N_gen = {length}, ε = {MIDDLE_EPS}"
    drawn, axes = figures.axes(title, "step", "share of all rows")
    axes.set_ylim(0, 1)
    lines = {}
    for gate in (10, 20, 40):
        found = judged(run, "arithmetic", length, length, lock_flags(MIDDLE_EPS, gate)).row_ratio_by_step
        if not found:
            raise BookError("this figure needs row_ratio_by_step in what `lacuna eval --json` prints")
        lines[f"m = {gate}%"] = list(enumerate(found, 1))
    figures.line_chart(axes, lines)
    return title, drawn


def canvases(run):
    """(name, length, steps, block length) of Tables 2 and 3."""
    short, middle = run.grid.lengths[:2]
    return [(f"{short}/{short // 4}", short, short // 4, 0), (f"{short}/{short // 2}", short, short // 2, 0),
            (f"{short}/{short}", short, short, 0), (f"{middle}/{middle}, blocks of {short}", middle, middle, short)]


@table
def perplexity(run):
    """Table 2."""
    rows = []
    for (name, length, steps, block), paper in zip(canvases(run), PAPER_PERPLEXITY):
        base = judged(run, "stories", length, steps, block=block)
        locked = [judged(run, "stories", length, steps, lock_flags(eps), block) for eps in EPS]
        rows.append([name, text.perplexity(base), *(
            f"{text.perplexity(each)}, {times(each.perplexity / base.perplexity)}, {each.flops_ratio:.2f}"
            for each in locked), *paper])
    return ["N_gen/steps", "no lock", "ε 5e-4", "5e-3", "5e-2", "paper", "no lock", "5e-4", "5e-3"], rows


@table
def scores(run):
    """Table 3."""
    rows = []
    for (name, length, steps, block), paper in zip(canvases(run), PAPER_SCORES):
        locked = [judged(run, "arithmetic", length, steps, lock_flags(eps), block) for eps in EPS]
        rows.append([name, text.accuracy(judged(run, "arithmetic", length, steps, block=block)),
                     *(f"{percent(each.accuracy)} {each.flops_ratio:.2f}" for each in locked), *paper])
    return ["N_gen/steps", "no lock (95% interval)", "ε 5e-4", "5e-3", "5e-2", "paper", "5e-4", "5e-3"], rows


def variants(run):
    """(flags, label, figures) of SureLock's options; the first one has no lock."""
    length = run.grid.short_length
    options = [(f"eps={eps},gate=20", f"ε {eps}") for eps in EPS]
    options += [("eps=5e-3,gate=20,min-age=0", "min-age 0"), ("eps=5e-3,gate=20,prompt=eager", "prompt eager"),
                ("eps=5e-3,gate=20,population=unlocked", "gate of all rows"), ("eps=5e-3,gate=off", "no gate"),
                ("eps=5e-3,gate=20,unlock-every=4", "unlocking")]
    return [("none", "uncached", judged(run, "arithmetic", length, length)),
            *((f"`{flags}`", label, judged(run, "arithmetic", length, length, f"--lock {flags}"))
              for flags, label in options)]


@table
def lock_variants(run):
    """SureLock's options."""
    none, *locked = variants(run)
    return ["--lock", "accuracy", "FLOPs ratio", "row ratio"], [
        [none[0], text.accuracy(none[2]), "1.000", "1.000"],
        *([flags, text.accuracy(each), f"{each.flops_ratio:.3f}", f"{each.row_ratio:.3f}"]
          for flags, _, each in locked)]


def by_batch(run):
    """(length, batch, figures without and with a lock) of Figure 3."""
    for length in run.grid.lengths:
        for batch in (1, 2, 4, 8):
            flags = f"-m {run.grid.model} --task arithmetic --gen-length {length} --batch {batch}"
            yield (length, batch, evaluate(run, flags, run.grid.timed_samples, True),
                   evaluate(run, f"{flags} {lock_flags(MIDDLE_EPS)}", run.grid.timed_samples, True))


def rate(found):
    """Canvas tokens per second of processor time."""
    return found.canvas_tokens / found.processor_seconds


@table
def speeds(run):
    """Figure 3 as a table."""
    head = ["N_gen", "batch", "tokens/s", "locked", "speedup", "FLOPs ratio", "tokens/s of wall time", "locked"]
    return head, [[length, batch, f"{rate(plain):.0f}", f"{rate(locked):.0f}", times(rate(locked) / rate(plain)),
                   f"{locked.flops_ratio:.2f}", f"{plain.canvas_tokens / plain.seconds:.0f}",
                   f"{locked.canvas_tokens / locked.seconds:.0f}"] for length, batch, plain, locked in by_batch(run)]


@figure()
def speed(run):
    """Figure 3."""
    title = "Canvas tokens per second of processor time"
    drawn, axes = figures.axes(title, "samples per pass", "tokens/s", log="x")
    figures.plain_ticks(axes.xaxis, [1, 2, 4, 8])
    found = list(by_batch(run))
    for colour, length in zip(figures.COLOURS, run.grid.lengths):
        batches = [batch for each, batch, _, _ in found if each == length]
        for index, style, name in ((2, "--", "no lock"), (3, "-", f"ε = {MIDDLE_EPS}")):
            axes.plot(batches, [rate(row[index]) for row in found if row[0] == length], style, color=colour,
                      label=f"{length}, {name}")
    axes.set_ylim(bottom=0)
    figures.legend(axes)
    return title, drawn


def by_step(run, length):
    """Seconds, rows and FLOPs of each step, "plain" and with a lock ("setting")."""
    return run.result(f"python3 bench/step_times.py -m {run.grid.model} --task arithmetic --gen-length {length} "
                      f'--samples {run.grid.step_samples} --repeat {run.grid.step_repeats} '
                      f'--setting "{lock_flags(MIDDLE_EPS)}" --threads 1 --json')


@figure()
def step_speed(run):
    """Figure 3b."""
    title = "Speed of a step relative to the same step without a lock"
    drawn, axes = figures.axes(title, "steps taken, % of all", "tokens/s, ratio")
    for colour, length in zip(figures.COLOURS, run.grid.lengths):
        found = by_step(run, length)
        for key, style, name in (("seconds", "-", "measured"), ("flops", "--", "as FLOPs allow")):
            ratios = [plain / locked for plain, locked in zip(found["plain"][key], found["setting"][key])]
            axes.plot([100 * step / len(ratios) for step in range(1, len(ratios) + 1)], ratios, style, color=colour,
                      linewidth=1.5, label=f"{length}, {name}")
    axes.axhline(1, color=figures.GREY, linewidth=0.8)
    axes.set_ylim(bottom=0)
    figures.legend(axes)
    return title, drawn


def quarters(found):
    """The sums of each quarter of the steps: {"plain" or "setting": {"rows", "flops" or "seconds": sum}}."""
    steps = len(found["plain"]["rows"])
    for quarter in range(4):
        part = slice(quarter * steps // 4, (quarter + 1) * steps // 4)
        yield {name: {key: sum(values[part]) for key, values in found[name].items()} for name in ("plain", "setting")}


@table
def step_speeds(run):
    """Figure 3b by quarters of the run."""
    head = ["N_gen", "quarter of the steps", "active rows", "1 / active rows", "FLOPs allow", "speed of a step",
            "with each step's fastest run", "ms without a lock", "ms locked"]
    rows = []
    for length in run.grid.lengths:
        found = by_step(run, length)
        passes = found["samples"] * len(found["plain"]["rows"]) / 4
        for number, part in enumerate(quarters(found), 1):
            plain, locked = part["plain"], part["setting"]
            rows.append([length, number, percent(locked["rows"] / plain["rows"]),
                         *(times(plain[key] / locked[key]) for key in ("rows", "flops", "seconds", "seconds_min")),
                         *(f'{1e3 * each["seconds"] / passes:.2f}' for each in (plain, locked))])
    return head, rows


# --- FlashDLM ---


@table
def few_steps(run):
    """Figure 1a of FlashDLM: accuracy by steps for each rule of unmasking."""
    rows = []
    for rule in run.grid.rules:
        flags = f"-m {run.grid.model} --task arithmetic --gen-length {run.grid.short_length} --unmask {rule} --batch 8"
        rows.append([code(rule), *(text.accuracy(evaluate(run, f"{flags} --steps {count}", run.grid.samples))
                                   for count in run.grid.step_counts)])
    return ["--unmask", *(f"{count} steps" for count in run.grid.step_counts)], rows


def cost_table(first, settings):
    """Costs of settings relative to the first one: (name, figures)."""
    base = settings[0][1]
    head = [first, "accuracy", "passes", "rows", "fewer rows", "seconds", "processor s", "speedup"]
    return head, [[name, text.accuracy(each), f"{each.steps:.1f}", f"{each.rows:.0f}", f"{base.rows / each.rows:.1f}×",
                   f"{each.seconds:.4f}", f"{each.processor_seconds:.4f}",
                   times(base.processor_seconds / each.processor_seconds)] for name, each in settings]


def cached(run, block):
    """(name, figures) of each cache."""
    flags = "" if block == run.grid.short_length else f"--block-length {block} "
    return [("none", alone(run, flags)),
            *((cache, alone(run, f"{flags}--cache {cache}"))
              for cache in ("prefix", "dual", "free", "free-literal", "dkv"))]


def cache_blocks(run):
    """Cache block lengths."""
    return run.grid.short_length, run.grid.short_length // 4


@table
def caches(run):
    """Table 2 of FlashDLM."""
    return [cost_table(f"--cache, blocks of {block}", cached(run, block)) for block in cache_blocks(run)]


@table
def guides(run):
    """Tables 3 and 4 of FlashDLM."""
    return cost_table("decoder", [
        ("uncached", alone(run)), ("free", alone(run, "--cache free")), ("free + guide", guided(run, "--cache free")),
        ("the guide on its own", alone(run, "", run.grid.guide))])


def criteria(run):
    """(name, figures) of each acceptance criterion and fallback."""
    for match in ("exact", "top-k=2", "top-k=5", "relative=0.5"):
        for fallback in ("dlm", "ar"):
            yield (match, fallback), guided(run, f"--cache free --guide-match {match} --guide-fallback {fallback}")


@table
def acceptance(run):
    """Table 7 of FlashDLM."""
    base = alone(run)
    head, rows = cost_table("--guide-match, --guide-fallback",
                            [("", base), *((", ".join(names), found) for names, found in criteria(run))])
    return head, rows[1:]


def combined(run):
    """Figures of each combination by name."""
    lock, threshold = lock_flags(MIDDLE_EPS), "--unmask threshold=0.9"
    return {
        "uncached": alone(run),
        "lock": alone(run, lock),
        "free": alone(run, "--cache free"),
        "free + lock": alone(run, f"--cache free {lock}"),
        "guide": guided(run),
        "guide + lock": guided(run, lock),
        "free + guide": guided(run, "--cache free"),
        "free + guide + lock": guided(run, f"--cache free {lock}"),
        "threshold": alone(run, threshold),
        "threshold + free": alone(run, f"{threshold} --cache free"),
        "threshold + free + lock": alone(run, f"{threshold} --cache free {lock}"),
    }


@table
def combinations(run):
    """Every combination."""
    return cost_table(f"decoder (lock: ε = {MIDDLE_EPS})", list(combined(run).items()))


def verdict(time, before, after):
    """Verdict on an addition from its time ratio and both accuracies: lost where the interval of their difference is
    below zero."""
    loses = difference(after, before)[2] < 0
    if time < 0.95:
        return "faster, but less accurate" if loses else "helps"
    if loses:
        return "only costs: less accurate and not faster"
    return "costs more than it saves" if time > 1.05 else "no difference"


@table
def additions(run):
    """Gain of each method added to another one."""
    found, rows = combined(run), []
    for what, to, both in (
            ("lock", "uncached", "lock"), ("free", "uncached", "free"), ("guide", "uncached", "guide"),
            ("lock", "free", "free + lock"), ("free", "lock", "free + lock"), ("guide", "free", "free + guide"),
            ("free", "guide", "free + guide"), ("lock", "guide", "guide + lock"),
            ("lock", "free + guide", "free + guide + lock"), ("free", "threshold", "threshold + free"),
            ("lock", "threshold + free", "threshold + free + lock")):
        before, after = found[to], found[both]
        time = after.processor_seconds / before.processor_seconds
        rows.append([what, to, times(after.rows / before.rows), times(time),
                     f"{100 * (after.accuracy - before.accuracy):+.1f} points", verdict(time, before, after)])
    return ["adding", "to", "rows", "time", "accuracy", "verdict"], rows


@value
def guided_passes(run):
    """Passes of the guided decoder."""
    return f'{guided(run, "--cache free").steps:.1f}'


@figure()
def frontier(run):
    """Every setting of the page."""
    families = {}

    def mark(family, label, found, base):
        point = found.layer_flops / base.layer_flops, 100 * found.accuracy, label
        families.setdefault(family, []).append(point)

    first, *locked = variants(run)
    mark("no method", first[1], first[2], first[2])
    for _, label, found in locked:
        mark("SureLock", label, found, first[2])
    for block in cache_blocks(run):
        base, *others = cached(run, block)
        for cache, found in others:
            mark("caches", f"{cache} {block}", found, base[1])
    plain = alone(run)
    mark("guide", "the guide alone", alone(run, "", run.grid.guide), plain)
    for names, found in criteria(run):
        mark("guide", " ".join(names), found, plain)
    for name, found in combined(run).items():
        if name == "guide" or name.startswith("threshold") or name.endswith("+ lock"):  # others are marked above
            mark("combinations", name, found, plain)
    title = f"Accuracy by FLOPs, arithmetic, {run.grid.short_length} positions"
    drawn, axes = figures.axes(title, "layer FLOPs relative to the baseline, guide included", "accuracy, %", log="x")
    figures.scatter_families(axes, families)
    return title, drawn


@value
def margin(run):
    """Half the 95% interval of the baseline, in points."""
    plain = alone(run)
    return f"{50 * (plain.accuracy_high - plain.accuracy_low):.0f}"
