"""Steps of mixtures of experts compared with what the machine allows."""
from book import table, value
from text import code, percent

FULL = {
    "models": ["random:diffusion-gemma,layers=2", "random:llada2.2-mini,layers=4"],
    "weights": ["bf16", "int8", "int4"],
    "canvas": 256,
    "rows": "1,8,32,128",  # of one step; a canvas or a block is 32 rows or more
    "repeat": 9,
}
QUICK = {"models": ["random:llada2.2-mini,layers=1"], "weights": ["int4"], "rows": "1,8", "repeat": 1}


def command(grid, model, weights):
    """Times passes, and measures the machine's peaks in the same process."""
    return (f"lacuna bench step -m {model} --weights {weights} --canvas {grid.canvas} --rows {grid.rows} "
            f"--repeat {grid.repeat} --threads 2 --peaks --json")


@table
def steps(run):
    """Each row count of each model and format."""
    head = ["model", "weights", "rows", "ms", "at the peaks, ms", "share", "speedup over bf16"]
    rows = []
    for model in run.grid.models:
        first = {}
        for weights in run.grid.weights:
            for found in run.result(command(run.grid, model, weights))["results"]:
                seconds = found["seconds_median"]
                ratio = first.setdefault(found["rows"], seconds) / seconds
                rows.append([code(model), weights, found["rows"], f"{1e3 * seconds:.1f}",
                             f'{1e3 * found["least_seconds"]:.1f}', percent(found["share_of_peak"]), f"{ratio:.2f}"])
    return head, rows


@value
def peaks(run):
    """The peaks of each command's run."""
    lines = []
    for model in run.grid.models:
        for weights in run.grid.weights:
            called = command(run.grid, model, weights)
            found = run.result(called)
            lines.append(f'- {found["peak_gflops"]:.0f} GFLOP/s, {found["read_gbps"]:.1f} GB/s: {code(called)}')
    return "\n".join(lines)
