"""Speed at published shapes, with random weights."""
from book import condition, table, value
from text import code, percent, times

THREADS = " --threads 2"
LOCK = "--prompt-length 143 --gen-length 1024 --lock eps=5e-3,gate=20"
FREE = "--prompt-length 1024 --gen-length 256 --cache free"
GIB = 1 << 30

FULL = {
    "model": "random:llada-8b,layers=8",
    "steps": {"1024": "1024,512,256,128", "1167": "1167,875,584,292,140"},  # canvas: rows of a step
    "decodes": [  # method, flags of `lacuna bench decode`, what its paper reports
        ("SureLock, batch 1", f"-m random:llada-8b,layers=2 {LOCK} --timed-passes 4",
         "layer FLOPs 0.492 (Table 1); time only as a figure without numbers"),
        ("SureLock, batch 4", f"-m random:llada-8b,layers=1 --batch 4 {LOCK} --timed-passes 2", "the same"),
        ("FreeCache, cache blocks of 32", f"-m random:dream-7b,layers=14 --block-length 32 {FREE} --timed-passes 2",
         "- (its cache block is as long as the answer)"),
        ("FreeCache, one cache block of 256", f"-m random:dream-7b,layers=4 {FREE} --timed-passes 4",
         "Dream-7B 4.42 (GSM8K, Table 2), LLaDA-8B 6.20 to 6.32"),
    ],
    "all_layers": "random:llada-8b",
    "loads": ["build/ggml/llada-8b-8-layers-bf16.gguf", "build/ggml/packed"],
    "llama_cpp_command": "python3 bench/beside_ggml.py measure --layers 8 --json",
}
QUICK = {
    "model": "mini-llada",
    "steps": {"32": "32,8"},
    "decodes": [("SureLock", "-m mini-llada --gen-length 16 --lock eps=5e-3", "-")],
    "all_layers": None,
}


@condition
def has_large_models(run):
    """Whether models that take minutes are measured."""
    return run.grid.all_layers is not None


def step_command(model, canvas, rows):
    """Times passes over some rows of a canvas."""
    return f"lacuna bench step -m {model} --canvas {canvas} --rows {rows} --repeat 3{THREADS} --json"


@table
def steps(run):
    """Each row count of each canvas."""
    head = ["canvas", "rows", "seconds", "GFLOP/s", "FLOPs ratio", "time ratio", "neither matmuls nor attention"]
    rows = []
    for canvas, counts in run.grid.steps.items():
        for found in run.result(step_command(run.grid.model, canvas, counts))["results"]:
            rows.append([canvas, found["rows"], f'{found["seconds_median"]:.3f}', f'{found["gflops"]:.0f}',
                         f'{found["flops_ratio"]:.3f}', f'{found["time_ratio"]:.3f}',
                         percent(found["other_share"])])
    return head, rows


@value
def step_commands(run):
    """The commands of the table above, one on a line."""
    return "\n".join(f"- {code(step_command(run.grid.model, canvas, counts))}"
                     for canvas, counts in run.grid.steps.items())


@table
def decodes(run):
    """Each method relative to the uncached baseline."""
    head = ["method", "rows", "FLOPs", "time", "speedup", "the paper", "command"]
    rows = []
    for method, flags, paper in run.grid.decodes:
        command = f"lacuna bench decode {flags}{THREADS}"
        found = run.result(command)
        rows.append([method, f'{found["setting"]["rows"] / found["plain"]["rows"]:.3f}',
                     f'{found["flops_ratio"]:.3f}', f'{found["time_ratio"]:.3f}', times(1 / found["time_ratio"]),
                     paper, code(command)])
    return head, rows


@table
def all_layers(run):
    """A model with all its layers."""
    step = step_command(run.grid.all_layers, 1024, 1024)
    decode = (f"lacuna bench decode -m {run.grid.all_layers} --prompt-length 32 --gen-length 64 --steps 16{THREADS}")
    found, seconds = run.result(step), run.result(decode)["plain"]["seconds"]
    step_found = found["results"][0]
    kernels = sum(step_found[key] for key in ("products", "head", "attention")) / step_found["seconds_median"]
    return ["", "", "command"], [
        ["a pass over 1024 rows",
         f'{step_found["seconds_median"]:.2f} s, {step_found["gflops"]:.0f} GFLOP/s, {percent(kernels)} of it matmuls '
         "and attention", code(step)],
        ["peak memory, loading included", f'{found["most_resident_bytes"] / GIB:.1f} GiB', code(step)],
        ["64 tokens after a prompt of 32 in 16 steps, no cache", f"{seconds:.1f} s", code(decode)],
    ]


@table
def loads(run):
    """Each file format."""
    head = ["GiB on disk", "loading", "first use", "peak memory", "command"]
    rows = []
    for model in run.grid.loads:
        command = f"lacuna bench load -m {model}{THREADS} --json"
        found = run.result(command)
        rows.append([f'{found["file_bytes"] / GIB:.2f}', f'{found["seconds_median"]:.3f} s',
                     f'{found["first_use_seconds_median"]:.3f} s', f'{found["peak_bytes"] / GIB:.2f} GiB',
                     code(command)])
    return head, rows


@value
def llama_cpp_setting(run):
    """Version and sizes of the comparison."""
    found = run.result(run.grid.llama_cpp_command)
    return (f'llama.cpp {found["llama_cpp"]} and Lacuna on the same files of LLaDA-8B\'s shape with '
            f'{found["layers"]} layers and random weights: a forward pass over {found["rows"]} rows with all logits, '
            f'interleaved, {found["threads"]} threads')


@table
def llama_cpp(run):
    """Each weight format."""
    rows = []
    for found in run.result(run.grid.llama_cpp_command)["results"]:
        rows.append([found["weights"], f'{found["lacuna_seconds"]:.3f} s, {found["lacuna_gflops"]:.0f} GFLOP/s',
                     f'{found["ggml_seconds"]:.3f} s, {found["ggml_gflops"]:.0f} GFLOP/s', times(found["ratio"])])
    return ["weights", "Lacuna", "llama.cpp", "speedup"], rows
