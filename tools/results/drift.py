"""K/V drift and attention by step, layer and position: the papers' heat maps on the models that ship."""
import analysis
import figures
from book import figure, table, value
from text import code, percent

FULL = {"masked": ("mini-llada", "mini-dream"), "uniform": "mini-gidd", "samples": 20,
        "timesteps": (8, 32)}  # length of a block, and its steps
QUICK = {"masked": ("mini-llada",), "samples": 1}
TASK = "--task arithmetic --gen-length 32"
BLOCKS = "--block-length 8 --steps 8 --block-exit steps"  # of the uniform model
PARTS = ("prompt", "decoded", "just decoded", "masked")


def drawn_command(instrument, model, axes):
    """One sample: positions of several prompts would not lie above each other."""
    flags = f" {BLOCKS}" if "gidd" in model else ""
    return f"lacuna analyze {instrument} -m {model} {TASK}{flags} --samples 1 --map {axes} --threads 1"


def map_of(run, instrument, model, axes):
    """The heat map of that command."""
    found = run.tables(drawn_command(instrument, model, axes))
    return analysis.figure_of([{"instrument": instrument, "model": model, **dict(zip(each["head"], row))}
                               for each in found for row in each["rows"]])


def command(run, instrument, model):
    """Means by step and layer, over samples."""
    return f"lacuna analyze {instrument} -m {model} {TASK} --samples {run.grid.samples} --map step,layer --threads 1"


def cells(run, a_command, axis):
    """Cells of a command's map of steps and this axis, as dictionaries."""
    return [dict(zip(found["head"], row)) for found in run.tables(a_command)
            if found["head"][:2] == ["step", axis] for row in found["rows"]]


def mean(found, key):
    """The mean of cells, weighted by what they count."""
    count = sum(cell["count"] for cell in found)
    return sum(cell[key] * cell["count"] for cell in found) / count if count else 0


@table
def stability(run):
    """Drift of prompt, decoded and masked positions."""
    rows = []
    for model in run.grid.masked:
        found = cells(run, command(run, "drift", model), "layer")
        for key, name in (("key", "keys"), ("value", "values")):
            rows.append([model, name, *(f'{mean([cell for cell in found if cell["part"] == part], key):.1e}'
                                        for part in PARTS)])
    return ["model", "1 - cosine of", *PARTS], rows


@table
def over_time(run):
    """Attention mass of each part in the first, the middle and the last step."""
    rows = []
    for model in run.grid.masked:
        found = cells(run, command(run, "attention", model), "layer")
        last = max(cell["step"] for cell in found)
        parts = list(dict.fromkeys(cell["part"] for cell in found))
        for step in (0, last // 2, last):
            masses = []
            for part in parts:
                chosen = [cell for cell in found if cell["step"] == step and cell["part"] == part]
                masses.append(percent(sum(cell["mass"] for cell in chosen) /
                                      len({cell["layer"] for cell in found})))
            rows.append([model, step, *masses])
    return ["model", "step", *parts], rows


@figure()
def positions(run, model):
    """Drift by step and position."""
    return f"K/V drift by step and position, {model}", map_of(run, "drift", model, "step,position")


@value
def positions_command(run, model):
    """Command of the figure."""
    return code(drawn_command("drift", model, "step,position"))


def timesteps_command(run, length):
    """Drift of each position of an answer, whose blocks take a step for each of their positions."""
    return (f"lacuna analyze drift -m {run.grid.uniform} {TASK} --block-length {length} --steps {length} --block-exit steps "
            f"--samples {run.grid.samples} --map step,position --threads 1")


def block_drift(run, length):
    """{name: [(step, drift)]} of the current block's keys and values."""
    steps = {}
    for cell in cells(run, timesteps_command(run, length), "position"):
        if cell["position"] // length == cell["step"] // length:
            steps.setdefault(cell["step"], []).append(cell)
    return {name: [(step, mean(found, key)) for step, found in sorted(steps.items())]
            for key, name in (("key", "keys"), ("value", "values"))}


@figure()
def timesteps(run):
    """The thesis's Figure A.2."""
    title = f"K/V drift of the current block by step, {run.grid.uniform}"
    lines = {f"{name}, blocks of {length}": points for length in run.grid.timesteps
             for name, points in block_drift(run, length).items()}
    drawn, axes = figures.axes(title, "step", "1 - cosine")
    figures.line_chart(axes, lines)
    axes.set_ylim(bottom=0)
    return title, drawn


@table
def within_block(run):
    """Mean drift of the current block in the first and the second half of its steps."""
    rows = []
    for length in run.grid.timesteps:
        for name, points in block_drift(run, length).items():
            halves = [[drift for step, drift in points if 0 < step % length and (step % length > length // 2) == late]
                      for late in (False, True)]
            rows.append([f"{length}", name, *(f"{sum(each) / len(each):.3f}" for each in halves),
                         code(timesteps_command(run, length))])
    return ["block and its steps", "1 - cosine of", "first half", "second half", "command"], rows


@figure()
def layers(run, model):
    """Attention by step and layer."""
    return f"Attention by step and layer, {model}", map_of(run, "attention", model, "step,layer")


@value
def layers_command(run, model):
    """Command of the figure."""
    return code(drawn_command("attention", model, "step,layer"))


@value
def commands(run):
    """Commands of the tables."""
    return "\n".join(f"- {code(command(run, instrument, model))}" for instrument in ("drift", "attention")
                     for model in run.grid.masked)
