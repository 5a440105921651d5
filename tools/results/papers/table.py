"""Tables of papers: rows with a command, the paper's figures, and the work of the run."""
from dataclasses import dataclass, field

DATA, OUT = "DATA", "OUT"  # in commands: the folders of --data and --out


@dataclass(frozen=True)
class Model:
    """A released checkpoint, its shape, and the model of this repository that stands in for it in a dry run."""
    name: str  # on the hub
    mini: str
    weights: float = 0  # parameters, in billions
    row: float = 0  # parameters that a row is multiplied with: active ones without the embedding, in billions
    layers: int = 0
    q_dim: int = 0  # heads times their width
    shape: str = ""  # of `random:`; empty: not published here
    shrink: int = 4  # lengths of a dry run are divided by this


MODELS = {model.name: model for model in (
    Model("GSAI-ML/LLaDA-8B-Base", "mini-llada", 8.02, 7.50, 32, 4096, "llada-8b"),
    Model("GSAI-ML/LLaDA-8B-Instruct", "mini-llada", 8.02, 7.50, 32, 4096, "llada-8b"),
    Model("Dream-org/Dream-v0-Instruct-7B", "mini-dream", 7.62, 7.07, 28, 3584, "dream-7b"),
    Model("dvruette/gidd-unif-3b", "mini-gidd", 2.96, 2.55, 19, 3072, "gidd-3b", 8),
    Model("dvruette/gidd-unif-10b", "mini-gidd", 9.87, 9.27, 34, 4608, "gidd-10b", 8),
    Model("GSAI-ML/ReFusion", "mini-refusion", 8.19, 7.57, 36, 4096, "refusion-8b"),
    Model("JetLM/SDAR-8B-Chat-b32", "mini-sdar", 8.19, 7.57, 36, 4096, "sdar-8b"),
    Model("inclusionAI/LLaDA2.0-mini", "mini-llada2", 16.26, 1.11, 20, 2048, "llada2-mini"),
    Model("Efficient-Large-Model/Fast_dLLM_v2_7B", "mini-fast-dllm", 7.62, 7.07, 28, 3584, "fast-dllm-v2-7b"),
    Model("Qwen/Qwen3-8B", "mini-qwen3", 8.19, 7.57, 36, 4096, "qwen3-8b"),
    Model("Qwen/Qwen2.5-1.5B-Instruct", "mini-qwen", 1.54, 1.54, 28, 1536, "qwen2.5-1.5b"),
    Model("Qwen/Qwen2.5-3B-Instruct", "mini-qwen", 3.09, 3.09, 36, 2048),
    Model("Qwen/Qwen2.5-7B-Instruct", "mini-qwen", 7.62, 7.07, 28, 3584, "qwen2.5-7b"),
    Model("meta-llama/Meta-Llama-3-8B", "mini-qwen", 8.03, 7.50, 32, 4096),
    Model("nvidia/Minitron-4B-Base", "mini-qwen", 4.19, 3.40, 32, 3072, "minitron-4b"),
    Model("meta-llama/Meta-Llama-3-8B-Instruct", "mini-qwen3", 8.03, 7.50, 32, 4096),
)}


@dataclass(frozen=True)
class Work:
    """The work of a run, before any of the rows is measured. Rows and passes are of one sample."""
    model: str
    samples: int
    rows: float
    passes: float
    context: float  # positions that a row attends to
    batch: int = 1  # samples that share the reading of the weights

    def seconds(self, gflops, bandwidth):
        """Seconds at a rate of products (GFLOP/s) and of reading weights (GB/s): a pass takes the longer of the two."""
        shape = MODELS[self.model]
        per_pass = self.rows / self.passes
        products = per_pass * (2 * shape.row + 4e-9 * shape.layers * shape.q_dim * self.context) / gflops
        read = 2 * min(shape.weights, shape.row * max(1, per_pass)) / bandwidth / self.batch
        return self.samples * self.passes * max(products, read)


@dataclass(frozen=True)
class Row:
    """A row of a table. `paper` maps names of figures to the paper's; `ours` finds the same in a result."""
    label: str
    command: str = ""  # empty: not runnable
    paper: dict = field(default_factory=dict)  # empty: a setting that the table of the paper does not have
    work: Work | None = None
    reason: str = ""  # why it cannot be run


@dataclass(frozen=True)
class Table:
    """A table of a paper."""
    paper: str
    name: str
    title: str
    rows: tuple
    files: dict = field(default_factory=dict)  # files of DATA -> where they come from, or the command that makes them
    notes: tuple = ()  # what differs from the paper, and what its settings leave open
    figures: tuple = ()  # names of the figures, in the order of the columns


# --- figures of a result, by the names that rows use ---

def _turn(result):
    """The figures of a result; of MT-bench those of the first turn."""
    return result["turns"][0] if isinstance(result.get("turns"), list) else result


FIGURES = {
    "FLOPs ratio": lambda result: _turn(result)["layer_flops"] / _turn(result)["layer_flops_uncached"],
    "rows ratio": lambda result: _turn(result)["row_ratio"],
    "accuracy %": lambda result: 100 * result["accuracy"],
    "score": lambda result: 100 * result["score"],
    "tokens/s": lambda result: result.get("setting", result)["tokens_per_second"],  # eval, or bench decode
    "seconds": lambda result: result["seconds"],
    "seconds each": lambda result: result["seconds"] / result["samples"],
    "perplexity": lambda result: result["judge"]["perplexity"],
}
NOT_HERE = ("judge's score",)  # figures that only a judge outside of this project gives


def ours(name, result):
    """A figure of a result; None where it has none."""
    if name not in FIGURES:
        return None
    try:
        return FIGURES[name](result)
    except KeyError:
        return None


def denoised(model, samples, prompt, gen, steps, ratio=1.0, batch=1):
    """Work of a masked model that computes every row of every step; `ratio` of it with a method that saves some."""
    return Work(model, samples, steps * (prompt + gen) * ratio, steps, prompt + gen, batch)


def left_to_right(model, samples, prompt, gen):
    """Work of an autoregressive model."""
    return Work(model, samples, prompt + gen, gen, prompt + gen)
