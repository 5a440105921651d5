"""MAGE: "All-[MASK] Block Already Knows Where to Look in Block Diffusion LLM", Tables 2 and 3."""
from .table import DATA, Row, Table, Work

FAST, SDAR, LLADA2 = "Efficient-Large-Model/Fast_dLLM_v2_7B", "JetLM/SDAR-8B-Chat-b32", "inclusionAI/LLaDA2.0-mini"
BUDGETS = (256, 512, 1024)
METHODS = ("mage", "quest", "sparsed")
# LongBench's data set: name in the table, positions of an answer, whether asked with the chat template
TASKS = {"hotpotqa": ("HotpotQA", 32, True), "narrativeqa": ("NrtvQA", 128, True), "qasper": ("Qasper", 128, True),
         "qmsum": ("QMSum", 512, True), "repobench-p": ("RepoB-P", 64, False), "triviaqa": ("TriviaQA", 32, False)}
# exact, then MAGE, Quest and SparseD at 256, at 512 and at 1,024; tasks in the order of TASKS
TABLE_2 = {
    FAST: (
        (42.38, 37.98, 32.13, 38.72, 39.33, 34.74, 40.93, 41.29, 38.06, 42.32),
        (23.63, 22.56, 14.98, 21.83, 24.23, 15.31, 22.93, 22.42, 19.06, 23.42),
        (36.66, 31.43, 25.82, 25.05, 33.41, 31.60, 31.65, 34.05, 34.54, 33.50),
        (24.16, 23.92, 21.68, 20.95, 23.94, 22.85, 22.90, 24.79, 23.10, 23.34),
        (51.84, 49.81, 41.20, 51.05, 51.71, 46.69, 51.96, 52.36, 49.57, 51.88),
        (75.49, 75.17, 57.72, 69.66, 75.65, 61.86, 70.20, 74.17, 66.24, 72.51),
    ),
    SDAR: (
        (59.59, 55.87, 45.81, 50.74, 57.17, 49.93, 56.54, 57.00, 55.66, 60.03),
        (28.94, 28.86, 20.11, 23.01, 28.74, 24.19, 26.22, 29.31, 26.80, 28.80),
        (31.02, 30.89, 22.70, 17.98, 31.11, 25.68, 26.47, 31.51, 28.19, 29.47),
        (24.41, 23.57, 18.90, 20.30, 23.97, 21.48, 21.75, 23.59, 23.27, 23.00),
        (50.04, 46.56, 33.17, 46.66, 48.41, 41.29, 48.38, 48.66, 46.78, 48.95),
        (88.83, 89.63, 78.32, 78.75, 88.21, 86.23, 86.70, 88.16, 89.36, 87.39),
    ),
    LLADA2: (
        (60.29, 56.75, 48.56, 54.20, 58.48, 55.37, 59.65, 59.61, 57.39, 60.15),
        (27.91, 26.19, 13.74, 21.95, 28.48, 18.40, 24.90, 28.16, 24.30, 26.22),
        (46.19, 45.23, 32.89, 32.87, 46.41, 40.50, 44.25, 46.38, 45.65, 44.72),
        (22.86, 22.82, 19.42, 20.21, 22.86, 21.43, 22.05, 23.06, 22.02, 22.32),
        (57.11, 55.52, 46.86, 55.88, 56.18, 53.83, 56.74, 56.71, 57.59, 57.33),
        (86.43, 87.49, 80.71, 85.15, 86.70, 84.26, 86.43, 86.42, 86.93, 86.13),
    ),
}
# exact, then (MAGE, Quest, SparseD) at 256, 512 and 1,024, of prompts of 8K and of 32K
TABLE_3 = {
    SDAR: {8: (100, (100, 90, 68), (100, 100, 100), (100, 100, 100)), 32: (57, (76, 16, 10), (71, 16, 38), (67, 16, 49))},
    LLADA2: {8: (98, (97, 41, 17), (98, 48, 68), (98, 60, 100)), 32: (90, (62, 57, 25), (68, 70, 65), (76, 75, 70))},
    FAST: {8: (100, (89, 97, 56), (94, 98, 100), (100, 100, 100)), 32: (46, (33, 22, 13), (37, 35, 27), (46, 52, 48))},
}
POSITIONS = 32768  # of all three models
ANSWER = 128
PAGE = 16  # of Quest, its authors'; the figure is lost in our copy of the paper
DEPTHS = 21  # of a needle
SETTINGS = (
    "blocks of 32, exact attention in the first two layers, threshold 0.95 as LLaDA 2; Quest's pages of 16 are those of its "
    "authors (\"with page size\", the paper's figure is lost in our copy)",
    "SDAR's checkpoint for blocks of 32 is taken, because the paper uses one block length for all models",
)


def _works(model, samples, prompt, gen):
    """Twelve passes for a block of 32, which a threshold of 0.95 takes on average, and the pass that keeps K/V."""
    blocks = max(1, gen / 32)
    return Work(model, samples, prompt + blocks * 13 * 32, 1 + blocks * 13, prompt)


def _sparse(method, budget):
    if method == "exact":
        return ""
    return f" --sparse {method}={budget},dense-layers=2" + (f",page={PAGE}" if method == "quest" else "")


def _asked(model, file, more, length=31500):
    # Fast-dLLM v2 denoises sub-blocks of 8, as it was trained.
    block = "" if model == LLADA2 else " --block-length 32"
    return (f"lacuna eval -m {model} --task longbench --data {DATA}/{file} --length {length}{block} "
            f"--unmask dynamic=0.95 --batch 1{more} --json")


def _cells(values):
    """(method, budget, the paper's figure) of a line of Table 2."""
    yield "exact", 0, values[0]
    for place, budget in enumerate(BUDGETS):
        for offset, method in enumerate(METHODS):
            yield method, budget, values[1 + 3 * place + offset]


def table_2():
    """LongBench."""
    rows = []
    for model, lines in TABLE_2.items():
        for (file, (name, gen, chat)), values in zip(TASKS.items(), lines):
            for method, budget, found in _cells(values):
                more = f" --templates {DATA}/dataset2prompt.json" + ("" if chat else " --raw") + _sparse(method, budget)
                rows.append(Row(f"{model.split('/')[1]}, {name}, {method}{f' {budget}' if budget else ''}",
                                _asked(model, f"longbench/{file}.jsonl", more), {"score": found},
                                _works(model, 500 if file == "repobench-p" else 200, 10000, gen)))
    return Table("mage", "2", "LongBench, by model, task, policy and budget", tuple(rows), {
        "longbench/*.jsonl": "THUDM/LongBench, data.zip", "dataset2prompt.json": "LongBench, config/dataset2prompt.json",
    }, (*SETTINGS, "prompts above 31,500 tokens lose their middle; the paper names no limit"), ("score",))


def _needle(model, length, method, budget, paper):
    """A row of Table 3: a needle in `length` thousand tokens. Beyond the model's positions RoPE is stretched."""
    stretch = max(1, length * 1024 // POSITIONS)
    more = (f" --rope-scale {stretch}" if stretch > 1 else "") + _sparse(method, budget)
    return Row(f"{model.split('/')[1]}, {length}K, {method}{f' {budget}' if budget else ''}",
               _asked(model, f"needle-{length}k.jsonl", more, stretch * POSITIONS - 2 * ANSWER), paper,
               _works(model, DEPTHS, length * 1000, ANSWER))


def table_3():
    """Needles."""
    rows = []
    for model, lengths in TABLE_3.items():
        for length, (exact, *budgets) in lengths.items():
            cells = [("exact", 0, exact), *((method, budget, found) for budget, line in zip(BUDGETS, budgets)
                                            for method, found in zip(METHODS, line))]
            rows += [_needle(model, length, method, budget, {"score": found}) for method, budget, found in cells]
        rows += [_needle(model, 128, method, BUDGETS[-1] if method != "exact" else 0, {})
                 for method in ("exact", *METHODS)]
    made = f"python3 tools/results reproduce mage 3 --prepare --data {DATA}"
    return Table("mage", "3", "a needle at 21 depths", tuple(rows), {
        "haystack.txt": "any long text without the needle, such as the essays of the usual test",
        "needle-8k.jsonl": made, "needle-32k.jsonl": made, "needle-128k.jsonl": made,
    }, (*SETTINGS, "the paper prints neither needle nor score: the usual needle and question here, scored as LongBench scores "
        "answers (F1 of words); a word counts as 4/3 tokens",
        "128K is not in the paper's table: it times contexts beyond the models' 32,768 positions (Figure 5) with NTK-scaled RoPE, "
        "which is --rope-scale 4 here; K/V of such a context take up to 19 GB"), ("score",))


TABLES = (table_2(), table_3())
