"""ReFusion: "A Diffusion Large Language Model with Parallel Autoregressive Decoding", Tables 1 and 6."""
from .table import DATA, Row, Table, Work, denoised, left_to_right

REFUSION, QWEN, LLAMA = "GSAI-ML/ReFusion", "Qwen/Qwen3-8B", "meta-llama/Meta-Llama-3-8B-Instruct"
LLADA, DREAM = "GSAI-ML/LLaDA-8B-Instruct", "Dream-org/Dream-v0-Instruct-7B"
GEN = 512
# task: flags, samples, tokens of a prompt, slot threshold, token threshold, slot size, block length (Table 6)
TASKS = {
    "MMLU-Pro": (f"mmlu-pro --data {DATA}/mmlu-pro-test.jsonl --scoring generation", 12032, 300, .9, .4, 16, 128),
    "ARC-C": (f"arc-challenge --data {DATA}/arc-challenge-test.jsonl --scoring generation", 1172, 150, .8, .1, 8, 8),
    "GSM8K": (f"gsm8k --data {DATA}/gsm8k/test.jsonl", 1319, 130, .9, .4, 32, 128),
    "MATH": (f"math --data {DATA}/math-test.jsonl", 5000, 150, .8, .6, 32, 64),
    "GPQA": (f"gpqa --data {DATA}/gpqa-main.jsonl --scoring generation", 448, 300, .8, .2, 8, 16),
    "HumanEval": (f"humaneval --data {DATA}/HumanEval.jsonl.gz --run-tests python3", 164, 200, .9, .4, 32, 128),
    "MBPP": (f"mbpp --data {DATA}/mbpp-test.jsonl --run-tests python3", 500, 150, .9, .3, 32, 128),
}
# model: task -> accuracy, tokens per second (Table 1)
TABLE_1 = {
    LLAMA: ((35.23, 32.07), (82.76, 44.12), (75.13, 42.81), (25.48, 19.73), (29.46, 42.00), (46.34, 42.26), (53.00, 41.68)),
    QWEN: ((67.25, 31.42), (90.36, 42.78), (81.96, 31.20), (83.28, 30.11), (39.06, 30.43), (87.80, 30.95), (63.80, 30.07)),
    LLADA: ((35.80, 18.21), (85.58, .03), (76.35, 27.35), (38.78, 23.93), (32.37, 1.99), (45.12, 12.42), (25.60, 2.97)),
    "LLaDA with Fast-dLLM": (
        (35.02, 39.81), (82.85, .86), (76.27, 73.07), (38.58, 52.23), (28.35, 17.54), (37.80, 62.52), (24.80, 37.19)),
    DREAM: ((40.05, 15.98), (88.31, .06), (76.42, 20.30), (46.60, 18.99), (30.36, 1.81), (56.71, 3.51), (50.40, 1.23)),
    "Dream with Fast-dLLM": (
        (40.36, 47.18), (86.86, 1.42), (75.82, 61.49), (36.76, 58.24), (31.25, 22.96), (56.10, 49.73), (10.60, 19.55)),
    REFUSION: ((45.94, 52.74), (89.76, 32.46), (84.91, 81.24), (54.22, 81.77), (35.49, 64.11), (78.66, 103.90), (68.20, 92.09)),
}
# task -> accuracy, tokens per second of the two lines that are not runnable
D2F = {
    "LLaDA with D2F": (
        (22.84, 44.54), (84.13, 3.70), (39.04, 82.59), (23.68, 59.48), (31.25, 23.84), (36.59, 96.90), (35.20, 53.85)),
    "Dream with D2F": (
        (23.82, 56.43), (85.92, 59.08), (41.62, 79.20), (29.98, 84.14), (30.13, 49.96), (50.00, 69.15), (51.60, 65.59)),
}
FILES = {
    "mmlu-pro-test.jsonl": "TIGER-Lab/MMLU-Pro, test", "arc-challenge-test.jsonl": "allenai/ai2_arc, ARC-Challenge, test",
    "gsm8k/test.jsonl": "openai/grade-school-math", "gpqa-main.jsonl": "Idavidrein/gpqa, gpqa_main, 448 questions",
    "math-test.jsonl": "hendrycks/competition_math, test, 5,000 problems", "HumanEval.jsonl.gz": "openai/human-eval",
    "mbpp-test.jsonl": "google-research/mbpp: the 500 lines of mbpp.jsonl with task_id 11 to 510",
}
NOTES = (
    "0-shot, batch 1; tokens/s of the paper are of an A100",
    "prompts differ: the paper's are in its repository (lm_eval/tasks), those here in docs/guide/evaluate.md; accuracies "
    "compare only as far as they do",
    "--refusion released follows the released code, by which the paper's figures were made",
    "the paper gives baselines \"their official hyperparameters\" and no figures of them: LLaDA in blocks of 32, Dream by "
    "entropy, both one token a step; Fast-dLLM with DualCache, threshold 0.9 and blocks of 32",
)
BASELINES = {
    LLAMA: (LLAMA, ""), QWEN: (QWEN, ""), LLADA: (LLADA, " --block-length 32"), DREAM: (DREAM, " --unmask entropy"),
    "LLaDA with Fast-dLLM": (LLADA, " --block-length 32 --unmask threshold=0.9 --cache dual"),
    "Dream with Fast-dLLM": (DREAM, " --block-length 32 --unmask threshold=0.9 --cache dual"),
}


def _asked(model, flags, more):
    return f"lacuna eval -m {model} --task {flags} --gen-length {GEN} --batch 1{more} --json"


def _own_flags(task):
    *_, slot, token, size, block = TASKS[task]
    return (f" --refusion released --slot-threshold {slot} --token-threshold {token} --slot-size {size} "
            f"--block-length {block}")


def _work(name, task):
    """Upper bounds: no answer ends early. ReFusion and Fast-dLLM at four tokens a pass."""
    _, samples, prompt, *_, block = TASKS[task]
    if name == REFUSION:
        return Work(REFUSION, samples, prompt + GEN / 4 * block / 2, GEN / 4, prompt + GEN)
    model = BASELINES[name][0]
    if name in (LLAMA, QWEN):
        return left_to_right(model, samples, prompt, GEN)
    if "Fast-dLLM" in name:
        return Work(model, samples, GEN / 32 * (prompt + GEN) + GEN / 4 * 32, GEN / 4, prompt + GEN)
    return denoised(model, samples, prompt, GEN, GEN)


def _row(name, task, figures):
    flags = TASKS[task][0]
    if name == REFUSION:
        command = _asked(REFUSION, flags, _own_flags(task))
    else:
        model, more = BASELINES[name]
        command = _asked(model, flags, more)
    paper = {"accuracy %": figures[0], "tokens/s": figures[1]}
    return Row(f"{name.split('/')[-1]}, {task}", command, paper, _work(name, task))


def table_1():
    """All models on all tasks."""
    rows = [_row(name, task, found) for name, line in TABLE_1.items() for task, found in zip(TASKS, line)]
    rows += [Row(f"{name}, {task}", "", {"accuracy %": found[0], "tokens/s": found[1]},
                 reason="D2F's adapters load (--lora), but its decoding, attention that is causal between blocks behind the "
                        "prompt and several blocks denoised at once, is not implemented")
             for name, line in D2F.items() for task, found in zip(TASKS, line)]
    return Table("refusion", "1", "accuracy and throughput", tuple(rows), FILES, NOTES, ("accuracy %", "tokens/s"))


def table_6():
    """ReFusion with the settings of each task."""
    rows = tuple(_row(REFUSION, task, found) for task, found in zip(TASKS, TABLE_1[REFUSION]))
    return Table("refusion", "6", "ReFusion's settings of each task; figures of Table 1", rows, FILES, NOTES[:3],
                 ("accuracy %", "tokens/s"))


SETS = ("avx2", "avx512", "amx")  # instruction sets: the least and the most that reading weights costs
SAME = ("HumanEval", "MBPP")  # slots and blocks of GSM8K
RATES = (.7, .95)  # of drafts that are accepted
SPEED_NOTES = (
    "not a table of the paper: its tokens/s (Table 1, A100) next to those of this machine, eight of 36 layers, random weights, "
    "simulated acceptance; six slots in ten are selected",
    "where reading the weights is the cost, a pass of 32 rows takes as long as one of a single row: with AMX 4 to 6 times "
    "Qwen3-8B's tokens/s are expected; with AVX-512, 1.6 to 2.3; with AVX2, where rows are the cost, 0.7 to 1.0. Measured on "
    "one machine without AMX: docs/results/refusion.md",
    "a row needs a processor with the instruction set",
)


def _speed(name, more, paper):
    """Rows of one setting, for each instruction set."""
    shape = "random:qwen3-8b" if name == "Qwen3-8B" else "random:refusion-8b"
    model = QWEN if name == "Qwen3-8B" else REFUSION
    work = Work(model, 1, 8 * 3 * 2 * 40 * 8 / 36, 8 * 3 * 2 * 8 / 36, GEN)  # passes that are timed, eight of 36 layers
    return [Row(f"{name}, {instructions}",
                f"LACUNA_ISA={instructions} lacuna bench decode -m {shape},layers=8 --prompt-length 128 --gen-length {GEN}{more} "
                "--json", {"tokens/s": paper}, work) for instructions in SETS]


def table_speed():
    """ReFusion against left-to-right decoding by instruction set."""
    rows = _speed("Qwen3-8B", "", 32.42)
    for (task, settings), (_, paper) in zip(TASKS.items(), TABLE_1[REFUSION]):
        *_, size, block = settings
        if task in SAME:
            continue
        for accepted in RATES:
            rows += _speed(f"ReFusion as for {task}, {accepted:g} accepted",
                           f" --slot-size {size} --block-length {block} --accept-rate {accepted} --select-rate 0.6", paper)
    return Table("refusion", "speed", "tokens per second by instruction set, settings of Table 6", tuple(rows), {}, SPEED_NOTES,
                 ("tokens/s",))


TABLES = (table_1(), table_6(), table_speed())
