"""FlashDLM: "Accelerating Diffusion Language Model Inference via Efficient KV Caching and Guided Diffusion", Tables 2, 7
and 11."""
from .table import DATA, Row, Table, Work, denoised

DREAM, LLADA = "Dream-org/Dream-v0-Instruct-7B", "GSAI-ML/LLaDA-8B-Instruct"
QWEN = "Qwen/Qwen2.5-{}-Instruct"
SAMPLES, PROMPT = 1319, 1333  # GSM8K's test split; tokens of a prompt with eight worked examples
FILES = {"gsm8k/test.jsonl": "openai/grade-school-math", "gsm8k/eight.jsonl":
         "eight solved problems: the paper uses \"the standard 8-shot chain-of-thought prompt\" and does not print it; "
         f"`head -n 8 {DATA}/gsm8k/train.jsonl` stands in for it"}
NOTES = (
    "Table 11: FreeCache with a cache block of 256 and at most 256 tokens, LLaDA in blocks of 64; guided: at most 1,024 "
    "tokens, speculation block of 32, top-2, threshold 0.5",
    "--prompts flashdlm is the prompt of appendix C.5, the solved problems as turns before it",
    "one token a step; the paper does not say how many steps its baselines take",
    "seconds are per problem; those of the paper are of an RTX 6000 Ada",
)


def _asked(model, gen, more):
    return (f"lacuna eval -m {model} --task gsm8k --prompts flashdlm --data {DATA}/gsm8k/test.jsonl --shots 8 --shots-data "
            f"{DATA}/gsm8k/eight.jsonl --gen-length {gen} --batch 1{more} --json")


def _plain(model):
    return "" if model == LLADA else " --unmask entropy"


def _cached(model):
    """FreeCache: the prompt's rows once, those of the answer in each step."""
    return Work(model, SAMPLES, PROMPT + 256 + 255 * 256, 256, PROMPT + 256)


def _pair(model, block, accuracies, seconds):
    """Baseline and FreeCache. `block`: block length, 0 for one block."""
    length = f" --block-length {block}" if block else ""
    label = model.split("/")[1] + (f", blocks of {block}" if block else "")
    return [
        Row(f"{label}, baseline", _asked(model, 256, _plain(model) + length),
            {"accuracy %": accuracies[0], "seconds each": seconds[0]}, denoised(model, SAMPLES, PROMPT, 256, 256)),
        Row(f"{label}, FreeCache", _asked(model, 256, f"{_plain(model)}{length} --cache free --cache-block 256"),
            {"accuracy %": accuracies[1], "seconds each": seconds[1]}, _cached(model)),
    ]


def guided(model, guide, match, accuracy, seconds, speedup):
    """Guided diffusion with FreeCache; its work is the baseline's, divided by the paper's speedup."""
    return Row(f"{model.split('/')[1]} guided by Qwen2.5-{guide}, {match}",
               _asked(model, 1024, f" --cache free --cache-block 256 --guide {QWEN.format(guide)} --guide-match {match} "
                                   "--guide-block 32 --eos-exit"),
               {"accuracy %": accuracy, "seconds each": seconds},
               denoised(model, SAMPLES, PROMPT, 256, 256, 1 / speedup))


def table_2():
    """FreeCache alone."""
    return Table("flashdlm", "2", "FreeCache, GSM8K with eight examples",
                 (*_pair(DREAM, 0, (79.68, 77.40), (48.05, 10.87)), *_pair(LLADA, 64, (79.30, 77.18), (56.89, 9.02))),
                 FILES, NOTES, ("accuracy %", "seconds each"))


# guide: match -> accuracy, seconds, speedup
TABLE_7 = {
    "exact": {"1.5B": (79.91, 4.29, 13.29), "3B": (79.53, 5.16, 11.05), "7B": (79.30, 5.21, 10.94)},
    "top-k=2": {"1.5B": (78.85, 4.40, 12.96), "3B": (79.75, 4.40, 12.96), "7B": (79.68, 4.50, 12.67)},
    "top-k=5": {"1.5B": (79.91, 3.80, 15.01), "3B": (80.06, 4.29, 13.29), "7B": (79.76, 4.42, 12.90)},
}


def table_7():
    """LLaDA-8B-Instruct."""
    rows = [*_pair(LLADA, 32, (81.52, 79.76), (57.02, 9.20)), *_pair(LLADA, 64, (79.30, 77.18), (56.89, 9.02))]
    rows += [guided(LLADA, guide, match, *found) for match, guides in TABLE_7.items() for guide, found in guides.items()]
    return Table("flashdlm", "7", "LLaDA-8B-Instruct with guides", tuple(rows), FILES,
                 (*NOTES, "top-1 match is `exact` here; the paper does not say whether its threshold of 0.5 holds in this "
                  "table, too: `--guide-match relative=0.5` is in Table 11"), ("accuracy %", "seconds each"))


def table_11():
    """The configuration, as runs of GSM8K: figures are those of Tables 3 and 7."""
    rows = (
        *_pair(DREAM, 0, (79.68, 77.40), (48.05, 10.87)), *_pair(LLADA, 64, (79.30, 77.18), (56.89, 9.02)),
        guided(DREAM, "1.5B", "relative=0.5", 80.33, 2.70, 17.80),
        guided(DREAM, "7B", "relative=0.5", 81.41, 2.74, 17.53),
        guided(LLADA, "1.5B", "relative=0.5", 78.85, 4.40, 12.96),
        guided(LLADA, "7B", "relative=0.5", 79.68, 4.50, 12.67),
    )
    return Table("flashdlm", "11", "the configuration of all runs, on GSM8K", rows, FILES,
                 (*NOTES, "K = 2 and τ = 0.5 together are `relative=0.5`: a draft has to be one of the guide's two best tokens "
                  "and to have at least half of the highest probability (docs/methods/guided_diffusion.md)"),
                 ("accuracy %", "seconds each"))


TABLES = (table_2(), table_7(), table_11())
