"""Uniform-Cache for GIDD models, and its instruments."""
import figures
import text
from book import condition, figure, table, value
from text import code, percent, times

BLOCK_STEPS = "--block-length 16 --steps 32"  # two blocks of 16, each position written twice on average
BLOCKS = f"{BLOCK_STEPS} --tokens-per-step 1"
NO_SHORTCUTS = "--block-exit steps --last-layer all"  # the thesis takes no shortcut, however exact
PLAN = "--prompt-length 127 --gen-length 64 --block-length 32 --steps 32 --tokens-per-step 3"
BOUNDARY = (PLAN.replace("--gen-length 64", "--gen-length 512")
            + " --cache uniform --refresh 0 --boundary blocks=2,full-every=16")
REGIONS = ("prompt", "previous", "current", "next", "filler")

FULL = {
    "model": "mini-gidd",
    "masked": "mini-gidd-mask",
    "judge": "mini-qwen",
    "samples": 100,
    "timed_samples": 16,  # of what is timed, the first ones
    "instrument_samples": 8,
    "turns": 3,
    "shapes": ("random:gidd-3b,layers=1", "random:gidd-10b,layers=1"),  # the first one is timed in more ways
    "deep_shape": "random:gidd-3b,layers=6",
    "batches": (1, 2, 8),
    "block_lengths": (8, 16, 32),
    "refreshes": (0, 1, 2, 4),
    "tokens_per_step": (1, 2, 3, 5),
    "step_counts": (4, 8, 16, 32, 64),
}
QUICK = {"samples": 4, "timed_samples": 2, "instrument_samples": 1, "shapes": (), "batches": (1,),
         "block_lengths": (8,), "refreshes": (1,), "tokens_per_step": (3,), "step_counts": (4, 8)}


def eval_command(model, flags, samples, batch):
    """Accuracy on arithmetic."""
    return (f"lacuna eval -m {model} --task arithmetic --gen-length 32 {flags} --batch {batch} --samples {samples} "
            "--threads 1")


def figures_command(run, flags, model=None):
    """The same with the samples of the page."""
    return eval_command(model or run.grid.model, flags, run.grid.samples, 8)


# --- published shapes ---


@condition
def has_shapes(run):
    """Whether published shapes are timed."""
    return bool(run.grid.shapes)


def shape_table(run, settings):
    """A row for each (setting, shape, flags, batch)."""
    rows = []
    for name, shape, flags, batch in settings:
        command = (f"lacuna bench decode -m {shape} {flags} --ignore-eos --block-exit steps --last-layer all "
                   f"--batch {batch} --threads 1")
        found = run.result(command)
        allowed, reached = 1 / found["flops_ratio"], 1 / found["time_ratio"]
        rows.append([name, batch, times(allowed), times(reached), percent(reached / allowed),
                     f'{found["plain"].get("tokens_per_second", 0):.2f}',
                     f'{found["setting"].get("tokens_per_second", 0):.2f}', code(command)])
    return ["setting", "batch", "FLOPs allow", "speedup", "share", "tokens/s uncached", "tokens/s", "command"], rows


@table
def shapes(run):
    """Every strategy at the published shapes."""
    first, largest, deep = run.grid.shapes[0], run.grid.batches[-1], run.grid.deep_shape
    cached = f"{PLAN} --cache uniform"
    return shape_table(run, [
        ("uniform, R = 4", first, cached, largest),
        ("uniform, R = 0", first, f"{cached} --refresh 0", largest),
        ("uniform, R = 4", deep, cached, largest),
        ("uniform, R = 4", deep, cached, 1),
        ("boundaries, R = 0", deep, BOUNDARY, 1),
        *(("uniform, R = 4", shape, cached, 1) for shape in run.grid.shapes),
        ("prefix", first, f"{PLAN} --cache prefix", 1),
        ("boundaries, R = 0", first, BOUNDARY, largest),
        ("one block of 512", first,
         "--prompt-length 127 --gen-length 512 --block-length 512 --steps 512 --cache uniform", 1),
        ("prompt 512, 1,536 generated", first,
         "--prompt-length 511 --gen-length 1536 --block-length 32 --steps 32 --cache uniform", 1),
    ])


@table
def batches(run):
    """Uniform-Cache by batch."""
    return shape_table(run, [("uniform, R = 4", run.grid.shapes[0], f"{PLAN} --cache uniform", batch)
                             for batch in run.grid.batches])


@value
def profile(run, cache):
    """Where the time goes."""
    return run.analysis(f"lacuna analyze profile -m {run.grid.shapes[0]} --prompt-length 127 --gen-length 32 "
                        f"--block-length 32 --steps 6 --last-layer all --block-exit steps --cache {cache} --threads 1")


# --- quality and time ---


def quality(run, what, settings):
    """Quality and costs of (name, flags), relative to the first one."""
    head = [what, "accuracy", "perplexity", "repeated", "rows per sample", "fewer rows", "fewer layer FLOPs",
            "speedup", "command"]
    rows, base = [], None
    for name, flags in settings:
        command = figures_command(run, f"{flags} --judge {run.grid.judge}")
        found = run.evaluate(command)
        timed = eval_command(run.grid.model, flags, run.grid.timed_samples, 1)
        seconds = run.evaluate(timed, timed=True).processor_seconds
        base = base or (found, seconds)
        rows.append([name, text.accuracy(found), text.perplexity(found), percent(found.repetition),
                     f"{found.rows:.0f}", times(base[0].rows / found.rows),
                     times(base[0].layer_flops / found.layer_flops), times(base[1] / seconds), code(command)])
    return head, rows


@table
def strategies(run):
    """The three strategies of the thesis, and exact shortcuts."""
    return quality(run, "cache", [
        ("none", f"{BLOCKS} --cache none {NO_SHORTCUTS}"),
        ("prefix (exact)", f"{BLOCKS} --cache prefix {NO_SHORTCUTS}"),
        ("uniform, R = 4", f"{BLOCKS} --cache uniform {NO_SHORTCUTS}"),
        ("uniform, R = 4, exact shortcuts", f"{BLOCKS} --cache uniform"),
        ("prefix, exact shortcuts", f"{BLOCKS} --cache prefix"),
    ])


@table
def beyond(run):
    """Results beyond those of the thesis."""
    base = f"{BLOCKS} --cache uniform"
    return quality(run, "setting", [("uniform, R = 4", base), *((flags, f"{base} {flags}") for flags in (
        "--refresh 0 --boundary blocks=2,full-every=8", "--boundary blocks=2,full-every=8",
        "--boundary blocks=3,full-every=2", "--drift tau=0.01", "--drift tau=0.05", "--self-correct on",
        "--self-correct full-every=4"))])


@table
def ablations(run):
    """One setting at a time."""
    grid = run.grid
    settings = [("block length", length, f"--block-length {length} --steps {2 * length} --tokens-per-step 1", "")
                for length in grid.block_lengths]
    settings += [("refresh", refresh, BLOCKS, f" --refresh {refresh}") for refresh in grid.refreshes]
    settings += [("tokens per step", count, f"{BLOCK_STEPS} --tokens-per-step {count}", "")
                 for count in grid.tokens_per_step]
    rows = []
    for what, each, flags, more in settings:
        none = run.evaluate(figures_command(run, f"{flags} --cache none {NO_SHORTCUTS}"))
        command = figures_command(run, f"{flags} --cache uniform{more} {NO_SHORTCUTS}")
        cached = run.evaluate(command)
        rows.append([what, each, text.accuracy(none), text.accuracy(cached), times(none.rows / cached.rows),
                     code(command)])
    return ["what", "value", "uncached", "uniform", "fewer rows", "command (uniform)"], rows


def steps_flags(count):
    """One block of 32 positions in this many steps."""
    return f"--block-length 32 --steps {count} --sampler ancestral --temperature 0.3"


def by_steps(run):
    """Name -> figures for each step count."""
    grid = run.grid
    return {name: [run.evaluate(figures_command(run, steps_flags(count) + more, model)) for count in grid.step_counts]
            for name, model, more in ((grid.model, grid.model, ""),
                                      (f"{grid.model}, uniform cache", grid.model, " --cache uniform"),
                                      (grid.masked, grid.masked, ""))}


@table
def fewer_steps(run):
    """Accuracy by steps."""
    found = by_steps(run)
    return ["steps of 32 positions", *found], [
        [count, *(text.accuracy(all_found[i]) for all_found in found.values())]
        for i, count in enumerate(run.grid.step_counts)]


@figure()
def steps(run):
    """Accuracy by steps."""
    title = "Accuracy by steps for 32 positions, ancestral sampling"
    drawn, axes = figures.axes(title, "steps", "accuracy, %", log="x")
    figures.plain_ticks(axes.xaxis, run.grid.step_counts)
    for colour, style, (name, found) in zip(figures.COLOURS, ("-", "--", "-"), by_steps(run).items()):
        axes.plot(run.grid.step_counts, [100 * each.accuracy for each in found], style, color=colour, label=name)
    axes.set_ylim(0, 100)
    figures.legend(axes)
    return title, drawn


@value
def steps_command(run):
    """Command of the first row."""
    return code(figures_command(run, steps_flags(run.grid.step_counts[0])))


# --- instruments ---


def analyze_command(run, instrument, model, cache="none"):
    """An instrument on the samples of arithmetic."""
    return (f"lacuna analyze {instrument} -m {model} --task arithmetic --gen-length 32 {BLOCKS} --cache {cache} "
            f"--block-exit steps --samples {run.grid.instrument_samples} --threads 1")


@value
def instrument(run, name, model, cache="none"):
    """Tables of an instrument; `model`: "model" or "masked", an entry of the grid."""
    return run.analysis(analyze_command(run, name, getattr(run.grid, model), cache))


@value
def instrument_command(run, name, model):
    """Command of an instrument."""
    return code(analyze_command(run, name, getattr(run.grid, model)))


def records(run, name, model):
    """Rows of an instrument as dictionaries."""
    return [dict(zip(found["head"], row)) for found in run.tables(analyze_command(run, name, model))
            for row in found["rows"]]


def drift_points(run, model, passes):
    """(place, drift, region) of what moved at all."""
    return [(1 + REGIONS.index(row["region"]), row["drift"], row["region"]) for row in records(run, "drift", model)
            if row.get("passes") == passes and row["region"] in REGIONS and row["drift"] > 0]


@figure()
def drift(run):
    """K/V drift by region."""
    drawn, both = figures.axes("", "region, in canvas order", "mean 1 - cosine between steps", columns=2, log="y")
    points = [[drift_points(run, model, passes) for model in (run.grid.model, run.grid.masked)]
              for passes in ("within", "boundary")]
    for axes, title, families in zip(both, ("Within a block", "Where the next block begins"), points):
        axes.set(title=title, xlim=(0.5, len(REGIONS) + 0.5), ylim=(5e-5, 0.2), xticks=range(1, len(REGIONS) + 1))
        for colour, name, family in zip(figures.COLOURS, (run.grid.model, run.grid.masked), families):
            axes.plot([x for x, _, _ in family], [y for _, y, _ in family], "o", markersize=4, color=colour, label=name)
        figures.legend(axes)
    for axes, families in zip(both, points):
        figures.label_families(axes, families)
    return "How far keys and values move from step to step", drawn


@figure()
def entropy(run):
    """Entropy by step."""
    title = "Entropy of the block's predictions by step"
    drawn, axes = figures.axes(title, "step", "nats")
    figures.line_chart(axes, {model: [(row["step"], row["entropy"]) for row in records(run, "entropy", model)]
                              for model in (run.grid.model, run.grid.masked)})
    axes.set_ylim(bottom=0)
    return title, drawn
