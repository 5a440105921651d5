"""Uniform-Cache for GIDD models, and its instruments."""
import math

import figures
import text
from book import condition, figure, table, value
from text import code, percent, times

BLOCK_STEPS = "--block-length 16 --steps 32"  # two blocks of 16, each position written twice on average
BLOCKS = f"{BLOCK_STEPS} --tokens-per-step 1"
NO_SHORTCUTS = "--block-exit steps --last-layer all"  # the thesis takes no shortcut, however exact
PLAN = "--prompt-length 127 --gen-length 64 --block-length 32 --steps 32 --tokens-per-step 3"
PLAN_BLOCKS = 2  # of 32 positions
BOUNDARY = (PLAN.replace("--gen-length 64", "--gen-length 512")
            + " --cache uniform --refresh 0 --boundary blocks=2,full-every=16")
REGIONS = ("prompt", "rest past", "previous", "current", "next", "rest future", "filler")

# What instruments watch: two configurations with two samplers each, as in chapter 6 of the thesis. As many steps as
# positions, and with the adaptive sampler three tokens a step, or one with masks, where no token changes twice.
SHORT, WHOLE = "blocks of 8", "one block of 32"
BLOCK_FLAGS = {SHORT: "--block-length 8 --steps 8", WHOLE: "--block-length 32 --steps 32"}
ANCESTRAL = "--sampler ancestral --temperature 1"
SAMPLER_FLAGS = {"adaptive": {"model": "--tokens-per-step 3", "masked": "--tokens-per-step 1"},
                 "ancestral": {"model": ANCESTRAL, "masked": ANCESTRAL}}  # by entry of the grid
SETTINGS = [(blocks, sampler) for blocks in BLOCK_FLAGS for sampler in SAMPLER_FLAGS]
VARIANTS = {"masked": ("masked", "none"), "uniform": ("model", "none"), "uniform, cached": ("model", "uniform"),
            "masked, cached": ("masked", "uniform")}  # name -> entry of the grid, cache

# Time by operation: name, that of `lacuna analyze profile`, share of the thesis's uncached run, and its speedup.
TABLE_6_2 = [("attention", "attention", "56%", "13.4×"), ("MLP", "ffn", "17%", "17.3×"),
             ("QKV projection", "qkv", "6%", "11.9×"), ("output head", "head", "5%", "61.2×"),
             ("norms", "norms", "4%", "7.4×"), ("O projection", "output", "2%", "11.1×"),
             ("other", "other", "10%", "2.7×"), ("all", "sum", "100%", "9.71×")]
# Figures of the thesis, by setting and in the order of VARIANTS; it has no cached run with masks.
THESIS_BLOCKS = {SHORT: "blocks of 32", WHOLE: "one block of 512"}
TABLE_6_3 = {(WHOLE, "adaptive"): ("7.21 → 2.63", "7.27 → 0.48", "7.27 → 0.43"),
             (WHOLE, "ancestral"): ("7.21 → 2.89", "7.27 → 2.21", "7.27 → 2.20")}
TABLE_6_4 = {(SHORT, "adaptive"): ("0.0005 / 0.0012", "0.0007 / 0.0023", "0.0005 / 0.0013"),
             (SHORT, "ancestral"): ("0.0005 / 0.0014", "0.0008 / 0.0024", "0.0007 / 0.0018"),
             (WHOLE, "adaptive"): ("0.0005 / 0.0012", "0.0007 / 0.0021", "0.0006 / 0.0020"),
             (WHOLE, "ancestral"): ("0.0005 / 0.0013", "0.0010 / 0.0029", "0.0009 / 0.0025")}
TABLE_6_5 = {(SHORT, "adaptive"): ("0.94", "0.93", "0.87")}
TABLE_6_8 = {(SHORT, "adaptive"): ("0.90 / 0.90", "0.81 / 0.79", "0.83 / 0.85"),
             (WHOLE, "adaptive"): ("0.94 / 0.94", "0.79 / 0.80", "0.83 / 0.86"),
             (WHOLE, "ancestral"): ("0.90 / 0.90", "0.73 / 0.76", "0.75 / 0.76")}
# By region, in the order of REGIONS.
TABLE_6_6 = {"adaptive": ("0.000042", "0.00016", "0.0020", "0.050", "0.0075", "0.0012", "0.00063"),
             "ancestral": ("0.00005", "0.0002", "0.003", "0.063", "0.003", "0.0007", "-")}
TABLE_6_7 = {SHORT: ("11.1%", "10.2%", "16.6%", "9.8%", "32.9%", "3.1%", "4.3%", "11.9%"),
             WHOLE: ("11.0%", "8.6%", "-", "-", "68.0%", "-", "-", "12.3%")}  # the learned key before the regions
# Speedup and perplexity of cached runs relative to the uncached one.
TABLE_B_1 = {SHORT: (("1.00×", "179"), ("1.22×", "-"), ("11.7×", "214")),
             WHOLE: (("1.00×", "51.4"), ("1.09×", "-"), ("2.8×", "56.4"))}

FULL = {
    "model": "mini-gidd",
    "masked": "mini-gidd-mask",
    "judge": "mini-qwen",
    "samples": 100,
    "timed_samples": 16,  # of what is timed, the first ones
    "instrument_samples": 16,
    "turns": 6,
    "shapes": ("random:gidd-3b,layers=1", "random:gidd-10b,layers=1"),  # the first one is timed in more ways
    "deep_shape": "random:gidd-3b,layers=6",
    "batches": (1, 2, 4),
    "block_lengths": (8, 16, 32),
    "refreshes": (0, 1, 2, 4),
    "tokens_per_step": (1, 3, 5),
    "step_counts": (4, 8, 16, 32),
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


def judged(run, flags):
    """The same with the perplexity of the answers."""
    return figures_command(run, f"{flags} --judge {run.grid.judge}")


def two_digits(number):
    """0.000471 -> "0.00047"."""
    return f"{number:.{max(0, 1 - math.floor(math.log10(number)))}f}" if number > 0 else "0"


def records(run, command):
    """Rows of an instrument as dictionaries."""
    return [dict(zip(found["head"], row)) for found in run.tables(command) for row in found["rows"]]


# --- published shapes ---


@condition
def has_shapes(run):
    """Whether published shapes are timed."""
    return bool(run.grid.shapes)


def shape_command(shape, flags, batch):
    """Times a decode of a shape. One layer alone is fast enough to repeat: its median of three counts."""
    repeat = "" if shape.endswith("layers=1") and batch == 1 else " --repeat 1"
    return (f"lacuna bench decode -m {shape} {flags} --ignore-eos --block-exit steps --last-layer all --batch {batch}"
            f"{repeat} --threads 1")


def shape_table(run, settings):
    """A row for each (setting, shape, flags, batch)."""
    rows = []
    for name, shape, flags, batch in settings:
        command = shape_command(shape, flags, batch)
        found = run.result(command)
        allowed, reached = 1 / found["flops_ratio"], 1 / found["time_ratio"]
        rows.append([name, shape.removeprefix("random:"), batch, times(allowed), times(reached),
                     percent(reached / allowed), *(two_digits(found[run_of].get("tokens_per_second", 0))
                                                   for run_of in ("plain", "setting")), code(command)])
    return ["setting", "shape", "batch", "FLOPs allow", "speedup", "share", "tokens/s uncached", "tokens/s",
            "command"], rows


@table
def shapes(run):
    """Every strategy at the published shapes."""
    first, largest, deep = run.grid.shapes[0], run.grid.batches[-1], run.grid.deep_shape
    cached = f"{PLAN} --cache uniform"
    return shape_table(run, [
        ("uniform, R = 4", deep, cached, largest),
        ("uniform, R = 4", deep, cached, 1),
        ("boundaries, R = 0", deep, BOUNDARY, 1),
        *(("uniform, R = 4", shape, cached, 1) for shape in run.grid.shapes),
        ("uniform, R = 0", first, f"{cached} --refresh 0", 1),
        ("prefix", first, f"{PLAN} --cache prefix", 1),
        ("one block of 512", first,
         "--prompt-length 127 --gen-length 512 --block-length 512 --steps 512 --cache uniform", 1),
        ("prompt 512, 1,536 generated", first,
         "--prompt-length 511 --gen-length 1536 --block-length 32 --steps 32 --cache uniform", 1),
    ])


@value
def refresh_order(run):
    """Why the two refresh intervals stand in the order in which they do."""
    plans = {"R = 0": " --refresh 0", "R = 4": ""}
    found = {name: run.result(shape_command(run.grid.shapes[0], f"{PLAN} --cache uniform{more}", 1))["setting"]
             for name, more in plans.items()}
    never, usual = found.values()
    shortest = {name: min(each["pass_seconds"]) for name, each in found.items()}  # of a block's rows alone
    saved = 1 - never["flops"] / usual["flops"]
    by_work = saved * usual["seconds"]
    shared = usual["passes"] - PLAN_BLOCKS  # each block begins with a pass of the whole context
    by_clock = shared * abs(shortest["R = 0"] - shortest["R = 4"])
    verdict = "noise, and not the interval, decides their order in the table" if by_clock > by_work else \
        "the interval decides their order in the table"
    return (f"R = 0 computes {never['rows']:,} rows and {never['flops'] / 1e12:.3f} TFLOP, R = 4 {usual['rows']:,} and "
            f"{usual['flops'] / 1e12:.3f}: by what is counted R = 0 is the faster one by {percent(saved)}, or {by_work:.1f} s. The pass of a "
            f"block's 32 rows, which is the same in both, took {shortest['R = 0']:.3f} s in the run of R = 0 and "
            f"{shortest['R = 4']:.3f} s in that of R = 4, over {shared} passes a difference of {by_clock:.1f} s: {verdict}.")


@table
def batches(run):
    """Uniform-Cache by batch."""
    return shape_table(run, [("uniform, R = 4", run.grid.shapes[0], f"{PLAN} --cache uniform", batch)
                             for batch in run.grid.batches])


def profile_command(run, cache):
    """Profiles one request of one block."""
    return (f"lacuna analyze profile -m {run.grid.shapes[0]} --prompt-length 127 --gen-length 32 --block-length 32 "
            f"--steps 16 --last-layer all --block-exit steps --cache {cache} --samples 1 --threads 1")


@table
def profile(run):
    """Table 6.2."""
    seconds = [{row["operation"]: row["seconds"] for row in records(run, profile_command(run, cache))
                if "operation" in row} for cache in ("none", "uniform")]
    for found in seconds:
        found["other"] += found["draws"] + found["selection"]
    rows = [[name, *(f"{found[key]:.2f}" for found in seconds), percent(seconds[0][key] / seconds[0]["sum"]),
             times(seconds[0][key] / seconds[1][key]), *thesis] for name, key, *thesis in TABLE_6_2]
    return ["operation", "seconds uncached", "seconds cached", "share of uncached", "speedup",
            "thesis: share of uncached", "thesis: speedup"], rows


@value
def profile_commands(run):
    """The commands of the table above, one on a line."""
    return "\n".join(f"- {code(profile_command(run, cache))}" for cache in ("none", "uniform"))


# --- quality and time ---


def seconds_of(run, flags):
    """Processor time of a sample at batch 1."""
    timed = eval_command(run.grid.model, flags, run.grid.timed_samples, 1)
    return run.evaluate(timed, timed=True).processor_seconds


def quality(run, what, settings):
    """Quality and costs of (name, flags), relative to the first one."""
    head = [what, "accuracy", "perplexity", "repeated", "rows per sample", "fewer rows", "fewer layer FLOPs",
            "speedup", "command"]
    rows, base = [], None
    for name, flags in settings:
        command = judged(run, flags)
        found = run.evaluate(command)
        seconds = seconds_of(run, flags)
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
def ancestral(run):
    """Table B.1: ancestral sampling in several blocks and in one."""
    rows = []
    for blocks, flags_of_blocks in BLOCK_FLAGS.items():
        base = None
        for cache, thesis in zip(("none", "prefix", "uniform"), TABLE_B_1[blocks]):
            flags = f"{flags_of_blocks} {ANCESTRAL} --cache {cache} {NO_SHORTCUTS}"
            command = judged(run, flags)
            found, seconds = run.evaluate(command), seconds_of(run, flags)
            base = base or (found, seconds)
            rows.append([blocks, cache, text.accuracy(found), text.perplexity(found), percent(found.repetition),
                         times(base[0].rows / found.rows), times(base[1] / seconds), THESIS_BLOCKS[blocks],
                         *reversed(thesis), code(command)])
    return ["here", "cache", "accuracy", "perplexity", "repeated", "fewer rows", "speedup", "thesis", "its perplexity",
            "its speedup", "command"], rows


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
        none = run.evaluate(judged(run, f"{flags} --cache none {NO_SHORTCUTS}"))
        command = judged(run, f"{flags} --cache uniform{more} {NO_SHORTCUTS}")
        cached = run.evaluate(command)
        rows.append([what, each, text.accuracy(none), text.accuracy(cached), text.perplexity(none),
                     text.perplexity(cached), times(none.rows / cached.rows), code(command)])
    return ["what", "value", "accuracy uncached", "accuracy", "perplexity uncached", "perplexity", "fewer rows",
            "command"], rows


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


def analyze_command(run, instrument, flags, variant="uniform"):
    """An instrument on the samples of arithmetic. `variant`: of VARIANTS."""
    model, cache = VARIANTS[variant]
    return (f"lacuna analyze {instrument} -m {getattr(run.grid, model)} --task arithmetic --gen-length 32 {flags} "
            f"--cache {cache} --block-exit steps --samples {run.grid.instrument_samples} --threads 1")


def setting_command(run, instrument, setting, variant):
    """The same in a setting, (blocks, sampler)."""
    blocks, sampler = setting
    flags = f"{BLOCK_FLAGS[blocks]} {SAMPLER_FLAGS[sampler][VARIANTS[variant][0]]}"
    return analyze_command(run, instrument, flags, variant)


@value
def first_command(run, instrument, place="0"):
    """Command of an instrument in a setting, by its place in SETTINGS."""
    return code(setting_command(run, instrument, SETTINGS[int(place)], "masked"))


@value
def staleness(run):
    """How stale a cache grows."""
    return run.analysis(analyze_command(run, "staleness", BLOCKS, "uniform, cached"))


def beside_thesis(run, settings, thesis, instrument, cell):
    """A table in the thesis's layout, its figures in the row below ours. `cell`: text of an instrument's rows."""
    rows = []
    for setting in settings:
        rows.append([", ".join(setting), *(cell(records(run, setting_command(run, instrument, setting, variant)))
                                           for variant in VARIANTS)])
        if setting in thesis:
            rows.append([f"thesis: {THESIS_BLOCKS[setting[0]]}, {setting[1]}", *thesis[setting], "-"])
    return ["setting", *VARIANTS], rows


def mean_drift(rows, region="all"):
    """Mean drift of keys and of values over all pairs of consecutive steps, within blocks and at boundaries; None
    where there are none."""
    found = [row for row in rows if row.get("region") == region]
    count = sum(row["count"] for row in found)
    if count == 0:
        return None
    return tuple(sum(row[part] * row["count"] for row in found) / count for part in ("key", "value"))


def correlation(rows, name):
    """Pearson's r of a correlation that `lacuna analyze drift` names."""
    return next(f'{row["pearson"]:.2f}' for row in rows if row.get("correlation") == name)


@table
def drift_means(run):
    """Table 6.4."""
    return beside_thesis(run, SETTINGS, TABLE_6_4, "drift",
                         lambda rows: " / ".join(f"{each:.4f}" for each in mean_drift(rows)))


@table
def key_value_correlation(run):
    """Table 6.5."""
    return beside_thesis(run, SETTINGS, TABLE_6_5, "drift", lambda rows: correlation(rows, "keys and values"))


@table
def layer_correlation(run):
    """Table 6.8."""
    return beside_thesis(run, SETTINGS, TABLE_6_8, "drift",
                         lambda rows: " / ".join(correlation(rows, f"{part} of two layers")
                                                 for part in ("keys", "values")))


@table
def drift_regions(run):
    """Table 6.6."""
    rows = []
    for sampler in SAMPLER_FLAGS:
        for variant in VARIANTS:
            found = records(run, setting_command(run, "drift", (SHORT, sampler), variant))
            drifts = [mean_drift(found, region) for region in REGIONS]
            rows.append([f"{sampler}, {variant}",
                         *("-" if each is None else two_digits(sum(each) / 2) for each in drifts)])
        rows.append([f"thesis: {sampler}, uniform", *TABLE_6_6[sampler]])
    return ["blocks of 8; thesis: blocks of 32", *REGIONS], rows


def drift_points(run, variant, passes):
    """(place, drift) of the regions that moved at all."""
    rows = records(run, setting_command(run, "drift", SETTINGS[0], variant))
    return [(1 + REGIONS.index(row["region"]), row["drift"]) for row in rows
            if row.get("passes") == passes and row["region"] in REGIONS and row["drift"] > 0]


@figure()
def drift(run):
    """K/V drift by region."""
    drawn, both = figures.axes("", "region", "mean 1 - cosine between steps", columns=2, log="y")
    names = ("masked", "uniform")
    points = [[drift_points(run, name, passes) for name in names] for passes in ("within", "boundary")]
    for axes, title, families in zip(both, ("Within a block", "Where the next block begins"), points):
        axes.set(title=title, xlim=(0.5, len(REGIONS) + 0.5), ylim=(5e-5, 0.2), xticks=range(1, len(REGIONS) + 1),
                 xticklabels=REGIONS)
        for colour, name, family in zip(figures.COLOURS, names, families):
            axes.plot(*zip(*family), "o", markersize=4, color=colour, label=name)
        figures.legend(axes)
    return "How far keys and values move from step to step", drawn


@table
def attention(run):
    """Table 6.7."""
    regions = ("sink", *REGIONS)
    rows = []
    for blocks in BLOCK_FLAGS:
        command = setting_command(run, "attention", (blocks, "adaptive"), "uniform")
        mass = {row["region"]: row["mass"] for row in records(run, command)}
        rows.append([blocks, *(percent(mass[region]) if mass[region] else "-" for region in regions), code(command)])
        rows.append([f"thesis: {THESIS_BLOCKS[blocks]}", *TABLE_6_7[blocks], ""])
    return ["setting", "learned key", *REGIONS, "command"], rows


# --- entropy and changes in one block ---


def ends(rows):
    """Entropy of the first and the last step."""
    found = sorted((row["step"], row["entropy"]) for row in rows)
    return f"{found[0][1]:.2f} → {found[-1][1]:.2f}"


@table
def entropy_ends(run):
    """Table 6.3."""
    return beside_thesis(run, SETTINGS[2:], TABLE_6_3, "entropy", ends)


@figure()
def entropy(run):
    """Figure 6.6: entropy by step."""
    drawn, both = figures.axes("", "step", "nats", columns=2)
    for axes, sampler in zip(both, SAMPLER_FLAGS):
        for variant, (model, cache) in VARIANTS.items():
            rows = records(run, setting_command(run, "entropy", (WHOLE, sampler), variant))
            axes.plot([row["step"] for row in rows], [row["entropy"] for row in rows], "-" if cache == "none" else "--",
                      color=figures.COLOURS[0 if model == "masked" else 1], label=variant, linewidth=1.5)
        axes.set(title=f"{sampler} sampling", ylim=(0, None))
        figures.legend(axes)
    return "Entropy of the block's predictions by step", drawn


def changed(rows):
    """Share of the answer that changes in the first step, and the mean over all steps."""
    shares = [share for _, share in sorted((row["step"], row["of_answer"]) for row in rows)]
    return f"{percent(shares[0])}, {percent(sum(shares) / len(shares))}"


@table
def changes(run):
    """Section 6.5.1."""
    return beside_thesis(run, SETTINGS[2:], {}, "changes", changed)
