"""Accuracy of the models that ship with the repository."""
import text
from book import table, value
from text import code

COLUMNS = ("arithmetic", "phrasings", "stories", "records")
TASKS = ("arithmetic", "phrasings", "stories")
FORMATS = ("int8", "int8-group", "int4", "int4-group", "int4-min")
FULL = {
    "samples": 200,
    "format_samples": 200,
    # Model: its family, flags of one token per step without a cache, the tasks that it was trained on.
    "models": {
        "mini-llada": ("llada", "", TASKS),
        "mini-dream": ("dream", "--unmask threshold=1", TASKS),
        "mini-gidd": ("gidd", "--steps 64 --tokens-per-step 1", TASKS),
        "mini-gidd-mask": ("gidd-mask", "--block-length 8 --steps 8 --tokens-per-step 1", TASKS),
        "mini-refusion": ("refusion", "", (*TASKS, "records")),
        "mini-sdar": ("sdar", "", TASKS),
        "mini-fast-dllm": ("fast-dllm-v2", "--unmask low-confidence", TASKS),
        "mini-llada2": ("llada2-moe", "--unmask low-confidence", TASKS),
        "mini-gemma": ("diffusion-gemma", "", ("arithmetic", "stories")),
        "mini-qwen": ("qwen2", "", TASKS),
        "mini-qwen3": ("qwen3", "", (*TASKS, "records")),
    },
}
QUICK = {"samples": 4, "format_samples": 20}


def command_of(run, model, task, samples):
    """Accuracy of a model on a task."""
    flags = run.grid.models[model][1]
    words = ["lacuna eval -m", model, "--task", task, flags, f"--seed 0 --samples {samples}"]
    return " ".join(word for word in words if word)


@table
def accuracies(run):
    """Every model on every task."""
    rows = []
    for model, (family, _, tasks) in run.grid.models.items():
        cells = [text.accuracy(run.evaluate(command_of(run, model, task, run.grid.samples))) if task in tasks else "-"
                 for task in COLUMNS]
        rows.append([f"[{model}](../../models/{model}/README.md)", family, *cells])
    return ["model", "family", *COLUMNS], rows


@table
def formats(run):
    """The first task of every model with quantized weights or K/V."""
    settings = {"bf16": "", **{name: f" --weights {name}" for name in FORMATS},
                "int4, int8 activations": " --weights int4 --activations int8", "int8 K/V": " --kv-cache int8"}
    rows = []
    for model, (_, _, tasks) in run.grid.models.items():
        base = command_of(run, model, tasks[0], run.grid.format_samples)
        rows.append([model, *(text.accuracy(run.evaluate(base + flags)) for flags in settings.values())])
    return ["model", *settings], rows


def quantize_command(model, name):
    """Quantizes a model and measures what that changes."""
    return f"lacuna quantize -m {model} --to {name} -o $(mktemp -d)/model --json"


def digits(number):
    """Two significant digits."""
    return f"{number:.2g}"


@table
def errors(run):
    """Errors of every format."""
    head = ["model"]
    for name in FORMATS:
        head += [f"{name}: error", "KL"]
    rows = []
    for model in run.grid.models:
        found = [run.result(quantize_command(model, name)) for name in FORMATS]
        rows.append([model, *(digits(each[key]) for each in found for key in ("relative_error", "kl_mean"))])
    return head, rows


@value
def first_quantize_command(run):
    """Command of the first figures."""
    return code(quantize_command(next(iter(run.grid.models)), FORMATS[0]))


@table
def commands(run):
    """Command of each accuracy."""
    rows = []
    for model, (_, _, tasks) in run.grid.models.items():
        for task in COLUMNS:
            if task in tasks:
                command = command_of(run, model, task, run.grid.samples)
                rows.append([model, task, f"{run.evaluate(command).passes:.1f}", code(command)])
    return ["model", "task", "passes", "command"], rows
