"""Sparse attention over block diffusion: MAGE, Quest and SparseD."""
import figures
import text
from book import condition, figure, table, value
from text import code, percent, times

METHODS = ("mage", "quest", "sparsed")
CHOSEN_FOR = {"quest": "the block", "quest per token": "each token"}
THREADS = " --threads 2"
UNMASK = {"single": "low-confidence", "dynamic": "dynamic=0.9999"}  # one token a step, and all of the most confident ones
FULL = {
    "model": "mini-sdar",
    "needles": "bench/models/mini-fast-dllm-retrieval",  # trained on retrieval
    "twin": "mini-qwen3",  # an autoregressive model, the control
    "shapes": ("random:sdar-8b,layers=8", "random:fast-dllm-v2-7b,layers=7", "random:llada2-mini,layers=5"),
    "samples": 200,
    "needle_samples": 100,
    "cell_samples": 10,  # of each cell of the heat maps
    "instrument_samples": 4,
    "recall_pages": (1, 2, 4, 8, 16),  # of Quest
    # The answer is the rest of the block in which the context ends: its name is denoised, not read off the prompt.
    "contexts": (497, 1009, 2033, 4081),
    "short_contexts": (497, 1009, 2033),  # of what has no dense layer
    "needle_length": 15,
    "depths": (0, 0.25, 0.5, 0.75, 1),
    "budgets": (8, 16, 24),
    "dense_layers": (0, 1, 2, 3),
    "needle_budgets": (8, 16, 32),
    "depth_budget": 8,
    "step_counts": (8, 4, 2),  # of a block of 8
}
QUICK = {"shapes": (), "samples": 4, "needle_samples": 1, "cell_samples": 1, "instrument_samples": 1,
         "contexts": (113, 241), "short_contexts": (113, 241), "depths": (0, 1), "budgets": (16,),
         "dense_layers": (0, 2), "needle_budgets": (16,), "depth_budget": 16, "step_counts": (8,)}


def sparse_flag(method, budget, dense_layers=2):
    """Quest's pages have 4 cells: its own 16 would leave budgets as small as these with one page. SparseD is exact
    for a fifth of the planned steps, as in the paper."""
    flag = f"{method}={budget}" + (",page=4" if method == "quest" else "")
    return flag if dense_layers == 2 else f"{flag},dense-layers={dense_layers}"


def settings(budgets, dense_layers=2):
    """(name, budget, flag) of exact attention, and of every method at every budget."""
    return [("exact", "-", "exact"),
            *((method, budget, sparse_flag(method, budget, dense_layers)) for budget in budgets for method in METHODS)]


def sparse_share(name, found):
    """Share of the rows that were sparse; an error where a sparse method has none."""
    return "-" if name == "exact" else percent(found.sparse_share)


def evaluate(run, task, unmask, sparse, more=""):
    """Figures of a task with the block diffusion model."""
    command = (f"lacuna eval -m {run.grid.model} --task {task} --gen-length 32 --unmask {UNMASK[unmask]} {more}"
               f"--sparse {sparse} --batch 8 --samples {run.grid.samples}{THREADS}")
    return command, run.evaluate(command)


@table
def budgets(run, task, unmask):
    """Accuracy on a task by budget."""
    rows = []
    for name, budget, sparse in settings(run.grid.budgets):
        command, found = evaluate(run, task, unmask, sparse)
        rows.append([name, budget, text.accuracy(found), f"{found.passes:.2f}", sparse_share(name, found),
                     code(command)])
    return ["attention", "budget", "accuracy", "passes per sample", "sparse rows", "command"], rows


@table
def dense(run):
    """Accuracy on arithmetic by the number of layers that stay exact."""
    budget, rows = run.grid.budgets[0], []
    for layers in run.grid.dense_layers:
        for method in METHODS:
            command, found = evaluate(run, "arithmetic", "single", sparse_flag(method, budget, layers))
            rows.append([layers, method, text.accuracy(found), sparse_share(method, found), code(command)])
    return ["dense layers", "attention", "accuracy", "sparse rows", "command"], rows


@table
def fewer_steps(run):
    """Accuracy with fewer steps for a block: exact attention and MAGE."""
    rows = []
    for task in ("arithmetic", "stories"):
        for count in run.grid.step_counts:
            for name, sparse in (("exact", "exact"), ("mage", sparse_flag("mage", run.grid.budgets[0]))):
                command, found = evaluate(run, task, "single", sparse, f"--steps {count} ")
                rows.append([task, count, name, text.accuracy(found), f"{found.passes:.2f}", sparse_share(name, found),
                             code(command)])
    return ["task", "steps of a block", "attention", "accuracy", "passes per sample", "sparse rows", "command"], rows


def retrieval_command(run, context, flags, samples):
    """Retrieval from a context: the name is unmasked last, after steps that are sparse."""
    return (f"lacuna eval -m {run.grid.needles} --task retrieval --length {context} "
            f"--gen-length {run.grid.needle_length} --unmask low-confidence {flags} --batch 4 --samples {samples}"
            f"{THREADS}")


@table
def retrieval(run, dense_layers):
    """Accuracy on retrieval by context and budget."""
    rows = []
    for context in run.grid.contexts if dense_layers == "2" else run.grid.short_contexts:
        for name, budget, sparse in settings(run.grid.needle_budgets, int(dense_layers)):
            command = retrieval_command(run, context, f"--sparse {sparse}", run.grid.needle_samples)
            found = run.evaluate(command)
            rows.append([name, budget, context, text.accuracy(found), f"{found.passes:.2f}", sparse_share(name, found),
                         f"{found.layer_flops / found.samples:.3g}", code(command)])
    return ["attention", "budget", "context", "accuracy", "passes per sample", "sparse rows", "layer FLOPs per sample",
            "command"], rows


def depth_command(run, context, depth, flags):
    """Retrieval of a fact at one depth of the context."""
    return retrieval_command(run, context, f"--depth {depth:g} {flags}", run.grid.cell_samples)


def cell(run, context, depth, name):
    """Accuracy of a cell of the heat map."""
    sparse = "exact" if name == "exact" else sparse_flag(name, run.grid.depth_budget, 0)
    found = run.evaluate(depth_command(run, context, depth, f"--sparse {sparse}"))
    sparse_share(name, found)
    return found.accuracy


@figure()
def depths(run):
    """Accuracy by context and depth."""
    grid = run.grid
    panels = {name: [[cell(run, context, depth, name) for context in grid.short_contexts] for depth in grid.depths]
              for name in ("exact", *METHODS)}
    title = f"Accuracy in % by context and depth, budget {grid.depth_budget}, no layer dense"
    return title, figures.heat_map(title, "context", "depth", grid.short_contexts,
                                   [f"{depth:.2f}" for depth in grid.depths], panels)


@value
def first_depth_command(run):
    """Command of the first cell."""
    return code(depth_command(run, run.grid.short_contexts[0], run.grid.depths[0], "--sparse exact"))


@condition
def has_shapes(run):
    """Whether blocks are timed at published shapes."""
    return bool(run.grid.shapes)


def block_command(shape):
    """Times a block after prefixes of several lengths."""
    return f"lacuna bench block -m {shape} --prefix 8192,16384,32768,65536 --repeat 9{THREADS}"


@value
def block_times(run):
    """A table for each published shape."""
    head = ["context", "attention", "seconds per block", "speedup over exact", "FLOPs allow", "share",
            "first step / exact", "later step: attention", "selection", "rest"]
    parts = []
    for shape in run.grid.shapes:
        command = block_command(shape)
        rows = [[found["prefix"], found["sparse"], f'{found["block_seconds"]:.1f}', times(found["speedup"]),
                 times(found["flops_allow"]), percent(found["speedup"] / found["flops_allow"]),
                 times(found["first_step_ratio"]),
                 *(f'{found["later_step"][key]:.3f} s' for key in ("attention", "selection", "rest"))]
                for found in run.result(command)["results"]]
        parts.append(f"### {shape}\n\n{text.table(head, rows)}\n\n{code(command)}")
    return "\n\n".join(parts)


def recall_command(run, model, more="", page=4):
    """How much of a later step's selection the first step's selection holds."""
    return (f"lacuna analyze recall -m {model} --task arithmetic --gen-length 32 --ignore-eos --budgets 16,24 "
            f"--page {page} --samples {run.grid.instrument_samples}{more}{THREADS}")


@value
def recall(run):
    """Recall of the block diffusion model."""
    return run.analysis(recall_command(run, run.grid.model))


def found_table(run, command, *head):
    """Rows of the table of an analysis whose columns begin with these, as dictionaries."""
    found = next(each for each in run.tables(command) if tuple(each["head"][:len(head)]) == head)
    return [dict(zip(found["head"], row)) for row in found["rows"]]


@table
def quest_pages(run):
    """Accuracy, mass and error of Quest's selections by the size of its pages, for the block and for each of its tokens."""
    rows = []
    for page in run.grid.recall_pages:
        command = recall_command(run, run.grid.model, page=page)
        found = found_table(run, command, "budget", "cells_of", "accuracy")
        rows += [[page, row["budget"], CHOSEN_FOR[row["cells_of"]],
                  *(f"{row[name]:.3f}" for name in ("accuracy", "mass", "error")), code(command)]
                 for row in found if row["cells_of"] in CHOSEN_FOR]
    return ["page", "budget", "pages chosen for", "accuracy", "mass", "error", "command"], rows


def twin_command(run):
    """Recall of the control."""
    return recall_command(run, run.grid.twin, " --as-blocks 8")


def chain_of(run, command):
    """(divergence and relative gaps, {budget: recall}): means over all steps but the first."""
    states = found_table(run, command, "hidden_gap")[0]
    gaps = [found_table(run, command, "kl")[0]["kl"],
            *(states[f"{name}_relative"] for name in ("hidden_gap", "query_gap", "block_gap"))]
    return gaps, {row["budget"]: row["recall"] for row in found_table(run, command, "budget", "recall")}


@table
def chain(run):
    """The stages of the paper's Table 1, of the model and of the control."""
    gaps, recalls = chain_of(run, recall_command(run, run.grid.model))
    of_control, recalls_of_control = chain_of(run, twin_command(run))
    rows = [[name, *(f"{gap:.3f}" for gap in found), *(percent(recall) for recall in by_budget.values())]
            for name, found, by_budget in ((run.grid.model, gaps, recalls),
                                           (f"{run.grid.twin}, control", of_control, recalls_of_control))]
    rows.append([f"{run.grid.model} relative to the control",
                 *(f"{100 * (gap / control - 1):+.0f}%" for gap, control in zip(gaps, of_control)),
                 *(f"{100 * (recalls[budget] - recalls_of_control[budget]):+.1f} points" for budget in recalls)])
    rows.append(["the paper: trained relative to backbone", "-43 to -63%", "-8 to -19%", "-13 to -27%",
                 "below the per-position gap", *["+5 to +11 points" for _ in recalls]])
    return ["model", "predictions: KL, nats", "hidden state, per position", "query, per position", "query, block average",
            *(f"recall at {budget}" for budget in recalls)], rows


@value
def hidden_by_layer(run):
    """Relative gaps of hidden states by layer, of the model and of the control."""
    of_model, of_control = ({row["layer"]: row["hidden_gap_relative"] for row in found_table(run, command, "layer", "hidden_gap")}
                            for command in (recall_command(run, run.grid.model), twin_command(run)))
    return ", ".join(f"{gap:.3f} and {of_control[layer]:.3f} in layer {layer} ({100 * (gap / of_control[layer] - 1):+.0f}%)"
                     for layer, gap in of_model.items())


@value
def twin_recall(run):
    """Recall of the control."""
    return run.analysis(twin_command(run))
