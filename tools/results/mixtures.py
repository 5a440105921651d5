"""Steps of mixtures of experts compared with what the machine allows."""
from book import condition, table, value
from text import code, percent, times

FULL = {
    "models": ["random:diffusion-gemma,layers=2", "random:llada2.2-mini,layers=4"],
    "weights": ["bf16", "int8", "int4"],
    "canvas": 256,
    "rows": "1,8,32,128",  # of one step; a canvas or a block is 32 rows or more
    "repeat": 9,
    "layers": 6,  # of the model whose layers are timed without its output head
    "llama_cpp_command": "python3 bench/beside_gemma.py measure --layers 2 --json",
}
QUICK = {"models": ["random:llada2.2-mini,layers=1"], "weights": ["int4"], "rows": "1,8", "repeat": 1,
         "llama_cpp_command": None}


def command(grid, model, weights):
    """Times passes, and measures the machine's peaks in the same process."""
    return (f"lacuna bench step -m {model} --weights {weights} --canvas {grid.canvas} --rows {grid.rows} "
            f"--repeat {grid.repeat} --threads 2 --peaks --json")


@table
def steps(run):
    """Each row count of each model and format."""
    head = ["model", "weights", "rows", "ms", "GFLOP/s", "GB/s", "at these peaks, ms", "share", "speedup over bf16"]
    rows = []
    for model in run.grid.models:
        first = {}
        for weights in run.grid.weights:
            for found in run.result(command(run.grid, model, weights))["results"]:
                seconds = found["seconds_median"]
                ratio = first.setdefault(found["rows"], seconds) / seconds
                rows.append([code(model), weights, found["rows"], f"{1e3 * seconds:.1f}",
                             f'{found["peak_gflops"]:.0f}', f'{found["read_gbps"]:.1f}', f'{1e3 * found["least_seconds"]:.1f}',
                             percent(found["share_of_peak"]), f"{ratio:.2f}"])
    return head, rows


@value
def commands(run):
    """The command of each model and format."""
    return "\n".join(f"- {code(command(run.grid, model, weights))}" for model in run.grid.models for weights in run.grid.weights)


@condition
def has_comparisons(run):
    """Whether layers, and llama.cpp, are timed."""
    return run.grid.llama_cpp_command is not None


def deep_command(grid, weights):
    """Times a step of one row."""
    return (f"lacuna bench step -m random:diffusion-gemma,layers={grid.layers} --weights {weights} --canvas {grid.canvas} --rows 1 "
            f"--repeat {3 * grid.repeat} --threads 2 --json")


def layer_seconds(run, weights):
    """Seconds of a layer: those of a step without its output head and draws, by its layers."""
    found = run.result(deep_command(run.grid, weights))["results"][0]
    return (found["products"] + found["attention"] + found["other"]) / run.grid.layers


@table
def layer(run):
    """A layer of one row, without the output head."""
    seconds = {weights: layer_seconds(run, weights) for weights in run.grid.weights}
    return ["weights", "ms of a layer", "speedup over bf16", "command"], [
        [weights, f"{1e3 * seconds[weights]:.1f}", f"{seconds['bf16'] / seconds[weights]:.2f}", code(deep_command(run.grid, weights))]
        for weights in run.grid.weights]


@table
def llama_cpp(run):
    """Passes of both programs."""
    return ["weights", "rows", "Lacuna, ms", "llama.cpp, ms", "speedup"], [
        [found["weights"], found["rows"], f'{1e3 * found["lacuna_seconds"]:.0f}', f'{1e3 * found["ggml_seconds"]:.0f}',
         times(found["ratio"])] for found in run.result(run.grid.llama_cpp_command)["results"]]


@value
def llama_cpp_version(run):
    """The package that llama.cpp is taken from."""
    return run.result(run.grid.llama_cpp_command)["llama_cpp"]
