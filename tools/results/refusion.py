"""ReFusion's modes on small models, and its decodes at a published shape."""
import figures
import slot_figure
import text
from book import condition, figure, table, value
from text import code, percent

MODES = ("released", "paper", "lacuna")
PROMPT = ("Max fox finds crown bags garden curious. Jon crow shares spoon rings hill sad. Ada cat repairs whistle "
          "plums river proud. Hugo hare sees candle seeds forest sorry. Zoe bear loses flute cards barn happy. Sam "
          "deer breaks flag stones lake kind. Tell about Sam, Ada, Jon, Hugo, Zoe, Max.")  # sample of records, long answer
FULL = {
    "model": "mini-refusion",
    "twin": "mini-qwen3",
    "masked": "mini-llada",
    "blocks": "mini-sdar",
    "shape": "random:refusion-8b,layers=1",
    "samples": 200,
    "timed_samples": 16,  # of what is timed, the first ones
    "turns": 3,
    # Models of all families from the same data: (name, family, the model that it begins with, optimiser steps, more flags).
    "twins": (("autoregressive", "qwen3", "mini-qwen3", 1500, ""),
              ("llada", "llada", "mini-qwen3", 1500, ""), ("llada-long", "llada", "mini-qwen3", 6000, ""),
              ("dream", "dream", "mini-qwen", 1500, ""),
              ("sdar", "sdar", "mini-qwen3", 1500, ""),
              ("refusion", "refusion", "mini-qwen3", 1500, "--slot-sizes 4,8,16,32 --half-written-share 0.85")),
    # Flag: name in the plot of all settings, values, default.
    "thresholds": {"--slot-threshold": ("τ slot", (0.3, 0.5, 0.7, 0.9, 0.99), 0.9),
                   "--token-threshold": ("τ token", (0.1, 0.3, 0.5, 0.7, 0.9), 0.9)},
    "sizes": {"--slot-size": ("slots of", (4, 8, 16, 32), 8), "--block-length": ("blocks of", (8, 16, 32, 64), 64)},
}
QUICK = {
    "shape": None, "samples": 4, "timed_samples": 2, "twins": (),
    "thresholds": {"--slot-threshold": ("τ slot", (0.5, 0.9), 0.9),
                   "--token-threshold": ("τ token", (0.5, 0.9), 0.9)},
    "sizes": {"--slot-size": ("slots of", (4, 8), 8), "--block-length": ("blocks of", (16, 64), 64)},
}


class Result:
    """Figures and, where asked for, times of a setting."""

    def __init__(self, run, flags, timed=False):
        self.command = self._command(flags, 8, run.grid.samples)
        self.found, self.times = run.evaluate(self.command), None
        if timed:
            self.times = run.evaluate(self._command(flags, 1, run.grid.timed_samples), timed=True)

    @staticmethod
    def _command(flags, batch, samples):
        return f"lacuna eval {flags} --batch {batch} --samples {samples} --threads 1"

    @property
    def rate(self):
        """Tokens of answers per second of processor time."""
        return self.times.rate

    def rates(self):
        """Cells: tokens per second of processor time and of wall time."""
        return [f"{self.rate:.0f}", f"{self.times.answer_tokens / self.times.seconds:.0f}"]

    def rows_per_token(self):
        """Rows per token of an answer."""
        tokens = self.found.answer_tokens
        return f"{self.found.rows / tokens:.2f}" if tokens > 0 else "-"

    def figures(self):
        """Cells: accuracy, tokens per pass, passes, rows per token."""
        return [text.accuracy(self.found), f"{self.found.tokens_per_pass:.2f}", f"{self.found.passes:.1f}",
                self.rows_per_token()]


def flags_of(run, task, mode, more=""):
    """Flags of ReFusion; what is not given has its default."""
    return f"-m {run.grid.model} --task {task} --refusion {mode}" + (f" {more}" if more else "")


def decoders(run, task):
    """(name, family and label in the plot, result) of Tables 1 and 2."""
    grid = run.grid
    yield (f"autoregressive, {grid.twin}", "autoregressive", grid.twin,
           Result(run, f"-m {grid.twin} --task {task}", True))
    yield (f"autoregressive, {grid.model}", "autoregressive", f"{grid.model}, left to right",
           Result(run, f"-m {grid.model} --task {task} --paradigm causal", True))
    if task == "arithmetic":
        for family, name, model, cache in (("masked", grid.masked, grid.masked, " --cache dual"),
                                           ("blocks", f"block diffusion, {grid.blocks}", grid.blocks, "")):
            flags = f"-m {model} --task {task}"
            yield f"{name}, one token per step", family, "one per step", Result(run, flags, True)
            yield (f"{name}, threshold 0.9{', dual cache' if cache else ''}", family, "threshold 0.9",
                   Result(run, f"{flags} --unmask threshold=0.9{cache}", True))
    for mode in MODES:
        yield f"ReFusion, {mode}", mode, f"{mode}, default", Result(run, flags_of(run, task, mode), True)


@table
def speed(run, task):
    """Tables 1 and 2."""
    released = Result(run, flags_of(run, task, "released"), True)
    head = [task, "accuracy", "tokens per pass", "passes", "rows per token", "tokens/s", "tokens/s of wall time",
            "rows / released", "command"]
    return head, [[name, *each.figures(), *each.rates(), f"{each.found.rows / released.found.rows:.2f}×",
                   code(each.command)] for name, _, _, each in decoders(run, task)]


# Decoders of each family: (what is said of it, flags).
DECODERS = {
    "qwen3": (("one token per pass", ""),),
    "llada": (("one token per step", ""), ("threshold 0.9, dual cache", "--unmask threshold=0.9 --cache dual")),
    "dream": (("one token per step", ""), ("threshold 0.9, dual cache", "--unmask threshold=0.9 --cache dual")),
    "sdar": (("one token per step", ""), ("threshold 0.9", "--unmask threshold=0.9")),
    "refusion": tuple((mode, f"--refusion {mode}") for mode in MODES),
}


@table
def twins(run):
    """Table 2 as the paper means it: families that were trained alike."""
    rows = []
    for name, family, _, steps, _ in run.grid.twins:
        for what, flags in DECODERS[family]:
            result = Result(run, f"-m build/twins/{name} --task records {flags}".rstrip(), True)
            rows.append([f"{family}, {what}", f"{steps}", *result.figures(), *result.rates(), code(result.command)])
    return ["records", "steps", "accuracy", "tokens per pass", "passes", "rows per token", "tokens/s",
            "tokens/s of wall time", "command"], rows


@value
def training(run):
    """How the twins are trained."""
    shared = ("--threads 1 --batch-rows 16 --rate 0.002 --warmup-steps 40 --canvas 16 --longest-canvas 64 --chat-share 0.5 "
              "--tasks records=1 --drill-share 0")
    return "\n".join("- " + code(f"lacuna-train --family {family} --init models/{init} --out build/twins/{name} "
                                 f"--steps {steps} {shared} {more}".rstrip())
                     for name, family, init, steps, more in run.grid.twins)


@value
def dream_begins(run):
    """The model that Dream's twin begins with."""
    return next((init for _, family, init, _, _ in run.grid.twins if family == "dream"), "")


@condition
def has_twins(run):
    """Whether models of all families were trained alike."""
    return bool(run.grid.twins)


def reuse_pair(run, task, mode):
    """Results with the K/V of completed slots reused, and recomputed."""
    fill = "--fill side-by-side " if mode == "lacuna" else ""
    return [Result(run, flags_of(run, task, mode, f"{fill}--kv {kv}"), True) for kv in ("reuse", "recompute")]


@table
def reuse(run, task):
    """Table 4."""
    head = [task, "K/V", "accuracy", "passes", "rows per token", "tokens/s", "tokens/s of wall time",
            "tokens/s / reuse", "command"]
    rows = []
    for mode in MODES:
        pair = reuse_pair(run, task, mode)
        for kv, each in zip(("reuse", "recompute"), pair):
            rows.append([mode, kv, text.accuracy(each.found), f"{each.found.passes:.1f}", each.rows_per_token(),
                         *each.rates(), f"{each.rate / pair[0].rate:.2f}×", code(each.command)])
    return head, rows


@table
def reuse_work(run, task):
    """Work of the timed runs of Table 4, which depends on no machine, next to the rate of each run."""
    rows = []
    for mode in MODES:
        for kv, each in zip(("reuse", "recompute"), reuse_pair(run, task, mode)):
            times = each.times
            rows.append([mode, kv, f"{times.passes * times.samples:.0f}", times.all_rows, f"{times.all_flops / 1e9:.3f}",
                         f"{times.all_bytes / 1e6:.1f}", ", ".join(f"{rate:.0f}" for rate in sorted(times.rates))])
    return [task, "K/V", "passes", "rows", "GFLOP", "MB of weights and K/V", "tokens/s of each run"], rows


def all_reuse_pairs(run):
    """The timed runs of Table 4, in pairs."""
    return [[each.times for each in reuse_pair(run, task, mode)] for task in ("arithmetic", "records") for mode in MODES]


@value
def reuse_added(run):
    """The most that recomputation adds to the FLOPs of a timed run."""
    return percent(max(again.all_flops / kept.all_flops - 1 for kept, again in all_reuse_pairs(run)))


@value
def reuse_equal(run):
    """How many of the pairs compute the same."""
    pairs = all_reuse_pairs(run)
    same = sum((kept.all_rows, kept.all_flops, kept.all_bytes) == (again.all_rows, again.all_flops, again.all_bytes)
               for kept, again in pairs)
    return f"{same} of the {len(pairs)}"


@value
def reuse_spread(run):
    """How far repeated runs of one command of Table 4 differ at most."""
    return percent(max(max(each.rates) / min(each.rates) - 1 for pair in all_reuse_pairs(run) for each in pair))


def swept(run, sweeps):
    """(flag, short name, value, whether it is the default, result) of one setting at a time."""
    for flag, (name, values, default) in sweeps.items():
        for each in values:
            more = "" if each == default else f"{flag} {each:g}"
            yield flag, name, each, each == default, Result(run, flags_of(run, "records", "lacuna", more))


@table
def sweep(run):
    """Figures 4 and 8 as a table."""
    return ["records", "value", "accuracy", "tokens per pass", "passes", "rows per token", "command"], [
        [code(flag), f"{each:g}{' (default)' if is_default else ''}", *result.figures(), code(result.command)]
        for flag, _, each, is_default, result in swept(run, run.grid.thresholds | run.grid.sizes)]


@table
def sweep_published(run):
    """The same sweeps by the rules of the paper and of the released code, every flag given."""
    rows = []
    for flag, (_, values, _) in (run.grid.thresholds | run.grid.sizes).items():
        for each in values:
            found = [Result(run, flags_of(run, "records", mode, f"{flag} {each:g}")) for mode in ("released", "paper")]
            rows.append([code(flag), f"{each:g}", *(cell for one in found for cell in one.figures()[::2]),
                         code(found[1].command)])
    return ["records", "value", "released", "passes", "paper", "passes", "command of the latter"], rows


def draw_sweep(run, name, y_label, title, of_result):
    """A line for each flag of a group."""
    drawn, axes = figures.axes(title, "threshold" if name == "thresholds" else "positions", y_label,
                               log="" if name == "thresholds" else "x")
    if name == "thresholds":
        axes.set_xlim(0, 1)
    else:
        figures.plain_ticks(axes.xaxis, [4, 8, 16, 32, 64])
    lines = {}
    for flag, _, each, _, result in swept(run, getattr(run.grid, name)):
        lines.setdefault(flag, []).append((each, of_result(result.found)))
    figures.line_chart(axes, lines)
    axes.set_ylim(bottom=0)
    return drawn, axes


@figure(file="refusion_{}_accuracy")
def sweep_accuracy(run, name):
    """Accuracy of Figures 4 and 8."""
    title = f"Accuracy on records by {name}"
    drawn, axes = draw_sweep(run, name, "accuracy, %", title, lambda found: 100 * found.accuracy)
    axes.set_ylim(0, 102)
    return title, drawn


@figure(file="refusion_{}_tokens")
def sweep_tokens(run, name):
    """Tokens per pass of Figures 4 and 8."""
    title = f"Tokens per forward pass on records by {name}"
    return title, draw_sweep(run, name, "tokens", title, lambda found: found.tokens_per_pass)[0]


def options(run, task):
    """(flags, result) of what the paper does not have; the first one is the default."""
    for flags in ("", "--fill side-by-side", "--accept exact", "--revoke 0.3", "--revoke 0.5"):
        yield flags, Result(run, flags_of(run, task, "lacuna", flags))


@table
def beyond(run, task):
    """Options that the paper does not have."""
    found = list(options(run, task))
    base = found[0][1].found
    return [task, "accuracy", "tokens per pass", "passes", "rows per token", "rows", "command"], [
        [code(flags) if flags else "default", *each.figures(), f"{each.found.rows / base.rows:.2f}×",
         code(each.command)] for flags, each in found]


@figure()
def frontier(run, task):
    """Every setting of the page."""
    families = {}

    def mark(family, label, result):
        point = result.found.tokens_per_pass, 100 * result.found.accuracy, label
        families.setdefault(family, []).append(point)

    for _, family, label, result in decoders(run, task):
        mark(family, label, result)
    for mode in MODES:
        mark(mode, f"{mode}, recompute", reuse_pair(run, task, mode)[1])
    if task == "records":
        for _, name, each, is_default, result in swept(run, run.grid.thresholds | run.grid.sizes):
            if not is_default:
                mark("lacuna", f"{name} {each:g}", result)
    for flags, result in options(run, task):
        if flags:
            mark("lacuna", flags.removeprefix("--"), result)
    title = f"Accuracy by tokens per forward pass, {task}"
    drawn, axes = figures.axes(title, "answer tokens per forward pass", "accuracy, %")
    figures.scatter_families(axes, families)
    return title, drawn


@value
def margin(run):
    """Half the 95% interval of the default, in points."""
    found = Result(run, flags_of(run, "records", "lacuna")).found
    return f"{50 * (found.accuracy_high - found.accuracy_low):.0f}"


@condition
def has_shape(run):
    """Whether a published shape is timed."""
    return run.grid.shape is not None


@table
def published_shape(run):
    """Slots and blocks of Table 6."""
    rows = []
    for task, slot, block in (("GSM8K", 32, 128), ("MATH", 32, 64), ("ARC-C", 8, 8)):
        for accept in ("0.7", "0.85", "0.95"):
            command = (f"lacuna bench decode -m {run.grid.shape} --refusion lacuna --slot-size {slot} --block-length "
                       f"{block} --gen-length 128 --accept-rate {accept} --select-rate 0.6 --threads 1")
            found = run.result(command)
            rows.append([task, f"{slot}/{block}", accept, found["setting"]["passes"], found["plain"]["passes"],
                         found["setting"]["rows"], found["plain"]["rows"], f'{found["flops_ratio"]:.2f}',
                         f'{found["time_ratio"]:.2f}', code(command)])
    return ["as for", "slot/block", "acceptance rate", "passes", "released", "rows", "released", "FLOPs ratio",
            "time ratio", "command"], rows


INSTRUCTIONS = ("avx2", "avx512", "amx")


def decode_command(isa, model, more=""):
    """Times eight layers of a published shape."""
    return f"LACUNA_ISA={isa} lacuna bench decode -m random:{model},layers=8 --prompt-length 128 --gen-length 512{more} --json"


@table
def left_to_right(run):
    """ReFusion and a left-to-right model of its size, by instruction set."""
    rows = []
    for isa in INSTRUCTIONS:
        plain = run.result(decode_command(isa, "qwen3-8b"))["setting"]
        for task, size, block in (("GSM8K", 32, 128), ("MATH", 32, 64), ("HumanEval and MBPP", 16, 128), ("ARC-C", 8, 8),
                                  ("GPQA", 8, 16)):
            for accepted in (.7, .95):
                command = decode_command(isa, "refusion-8b", f" --slot-size {size} --block-length {block} "
                                                             f"--accept-rate {accepted} --select-rate 0.6")
                found = run.result(command)["setting"]
                rows.append([isa, task, f"{size}/{block}", accepted, found["passes"], f'{found["rows"] / found["passes"]:.1f}',
                             f'{found["tokens_per_second"]:.1f}', f'{plain["tokens_per_second"]:.1f}',
                             f'{found["tokens_per_second"] / plain["tokens_per_second"]:.2f}', code(command)])
    return ["instructions", "as for", "slot/block", "acceptance rate", "passes", "rows each", "tokens/s", "left to right",
            "times as fast", "command"], rows


def span(run, isa):
    """The least and the largest ratio of an instruction set."""
    ratios = [float(row[8]) for row in left_to_right(run)[1] if row[0] == isa]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


@value
def span_avx2(run):
    """Ratios with AVX2."""
    return span(run, "avx2")


@value
def span_avx512(run):
    """Ratios with AVX-512."""
    return span(run, "avx512")


@value
def span_amx(run):
    """Ratios with AMX."""
    return span(run, "amx")


@value
def left_to_right_command(run):
    """Commands of the left-to-right model."""
    return ", ".join(code(decode_command(isa, "qwen3-8b")) for isa in INSTRUCTIONS)


def trace_command(run):
    """Records the passes of one decoding."""
    return (f"lacuna run -m {run.grid.model} -p '{PROMPT}' --gen-length 56 --refusion lacuna --threads 1 "
            "--trace trace.jsonl")


@figure()
def decoding(run):
    """Figures 5 and 9."""
    title = f"{run.grid.model} on a sample of records"
    return title, slot_figure.draw(run.row(trace_command(run)), title)


@value
def decoding_command(run):
    """Command of the decoding."""
    return code(trace_command(run))
