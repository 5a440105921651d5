"""Sparse attention over block diffusion: MAGE, Quest and SparseD."""
import figures
import text
from book import condition, figure, table, value
from text import code, percent, times

METHODS = ("mage", "quest", "sparsed")
THREADS = " --threads 2"
FULL = {
    "model": "mini-sdar",
    "needles": "bench/models/mini-fast-dllm-retrieval",  # trained on retrieval
    "twin": "mini-qwen3",  # an autoregressive model, the control
    "shapes": ("random:sdar-8b,layers=8", "random:fast-dllm-v2-7b,layers=7", "random:llada2-mini,layers=5"),
    "samples": 200,
    "needle_samples": 40,
    "cell_samples": 10,  # of each cell of the heat maps
    "instrument_samples": 4,
    "contexts": (512, 1024, 2048, 4096),
    "depths": (0, 0.25, 0.5, 0.75, 1),
    "budgets": (8, 16, 24),
    "needle_budgets": (64, 128, 256),
    "depth_budget": 128,
}
QUICK = {"shapes": (), "samples": 4, "needle_samples": 1, "cell_samples": 1, "instrument_samples": 1,
         "contexts": (128, 256), "depths": (0, 1), "budgets": (16,), "needle_budgets": (32,), "depth_budget": 32}


@table
def arithmetic(run):
    """Accuracy on arithmetic by budget."""
    settings = [("exact", "-", "exact")]
    for budget in run.grid.budgets:
        settings += [("mage", budget, f"mage={budget}"), ("quest", budget, f"quest={budget},page=4"),
                     ("sparsed", budget, f"sparsed={budget}")]
    rows = []
    for name, budget, sparse in settings:
        command = (f"lacuna eval -m {run.grid.model} --task arithmetic --gen-length 32 --unmask dynamic=0.9 "
                   f"--sparse {sparse} --batch 8 --samples {run.grid.samples}{THREADS}")
        found = run.evaluate(command)
        rows.append([name, budget, text.accuracy(found), f"{found.passes:.2f}", code(command)])
    return ["attention", "budget", "accuracy", "passes per sample", "command"], rows


def sparse_flag(method, budget):
    """SparseD would still be exact while a short answer is written; here it is sparse from the start."""
    return f"--sparse {method}={budget}{',exact=0' if method == 'sparsed' else ''}"


def retrieval_command(run, context, flags, samples):
    """Retrieval from a context."""
    return (f"lacuna eval -m {run.grid.needles} --task retrieval --length {context} --gen-length 8 "
            f"--unmask dynamic=0.9 {flags} --batch 4 --samples {samples}{THREADS}")


@table
def retrieval(run):
    """Accuracy on retrieval by context and budget."""
    rows = []
    for context in run.grid.contexts:
        settings = [("exact", "-", "--sparse exact")]
        settings += [(method, budget, sparse_flag(method, budget))
                     for budget in run.grid.needle_budgets for method in METHODS]
        for name, budget, flags in settings:
            command = retrieval_command(run, context, flags, run.grid.needle_samples)
            found = run.evaluate(command)
            rows.append([name, budget, context, text.accuracy(found), f"{found.passes:.2f}",
                         f"{found.layer_flops / found.samples:.3g}", code(command)])
    return ["attention", "budget", "context", "accuracy", "passes per sample", "layer FLOPs per sample",
            "command"], rows


def depth_command(run, context, depth, flags):
    """Retrieval of a fact at one depth of the context."""
    return retrieval_command(run, context, f"--depth {depth:g} {flags}", run.grid.cell_samples)


@figure()
def depths(run):
    """Accuracy by context and depth."""
    grid = run.grid
    settings = {"exact": "--sparse exact", **{method: sparse_flag(method, grid.depth_budget) for method in METHODS}}
    panels = {name: [[run.evaluate(depth_command(run, context, depth, flags)).accuracy for context in grid.contexts]
                     for depth in grid.depths] for name, flags in settings.items()}
    title = f"Accuracy in % by context and depth, budget {grid.depth_budget}"
    return title, figures.heat_map(title, "context", "depth", grid.contexts, [f"{depth:.2f}" for depth in grid.depths],
                                   panels)


@value
def first_depth_command(run):
    """Command of the first cell."""
    return code(depth_command(run, run.grid.contexts[0], run.grid.depths[0], "--sparse exact"))


@condition
def has_shapes(run):
    """Whether blocks are timed at published shapes."""
    return bool(run.grid.shapes)


@value
def block_times(run):
    """A table for each published shape."""
    head = ["context", "attention", "seconds per block", "speedup over exact", "FLOPs allow", "share",
            "first step / exact", "later step: attention", "selection", "rest"]
    parts = []
    for shape in run.grid.shapes:
        command = f"lacuna bench block -m {shape} --prefix 8192,16384,32768,65536{THREADS}"
        rows = [[found["prefix"], found["sparse"], f'{found["block_seconds"]:.1f}', times(found["speedup"]),
                 times(found["flops_allow"]), percent(found["speedup"] / found["flops_allow"]),
                 times(found["first_step_ratio"]),
                 *(f'{found["later_step"][key]:.3f} s' for key in ("attention", "selection", "rest"))]
                for found in run.result(command)["results"]]
        parts.append(f"### {shape}\n\n{text.table(head, rows)}\n\n{code(command)}")
    return "\n\n".join(parts)


def recall_command(run, model, more=""):
    """How much of a later step's selection the first step's selection holds."""
    return (f"lacuna analyze recall -m {model} --task arithmetic --gen-length 32 --ignore-eos --budgets 16,24 "
            f"--samples {run.grid.instrument_samples}{more}{THREADS}")


@value
def recall(run):
    """Recall of the block diffusion model."""
    return run.analysis(recall_command(run, run.grid.model))


@value
def twin_recall(run):
    """Recall of the control."""
    return run.analysis(recall_command(run, run.grid.twin, " --as-blocks 8"))
