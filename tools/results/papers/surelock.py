"""SureLock: "Stopping Computation for Converged Tokens in Masked Diffusion-LM Decoding", Tables 1 to 3."""
from .table import DATA, OUT, Row, Table, denoised

INSTRUCT, BASE, JUDGE = "GSAI-ML/LLaDA-8B-Instruct", "GSAI-ML/LLaDA-8B-Base", "meta-llama/Meta-Llama-3-8B"
LOCK = "--lock eps={},gate=20,min-age=0"
MT_BENCH = "lm-sys/FastChat, fastchat/llm_judge/data/mt_bench/question.jsonl"
PROMPTS = 32  # the first four questions of each of MT-bench's eight categories (appendix D)

# N_gen: eps -> (ratio of active rows, ratio of FLOPs)
TABLE_1 = {
    64: {"5e-4": (.548, .547), "5e-3": (.506, .506), "5e-2": (.482, .482)},
    256: {"5e-4": (.496, .496), "5e-3": (.482, .482), "5e-2": (.475, .475)},
    1024: {"5e-4": (.494, .494), "5e-3": (.492, .492), "5e-2": (.490, .490)},
}
# (N_gen, steps): base perplexity, eps -> (perplexity, ratio of FLOPs)
TABLE_2 = {
    (64, 32): (5.7537, {"5e-4": (6.0782, .70), "5e-3": (6.2177, .62)}),
    (64, 64): (3.4813, {"5e-4": (4.5722, .58), "5e-3": (4.7596, .52)}),
    (128, 128): (2.6006, {"5e-4": (2.9202, .53), "5e-3": (3.1042, .50)}),
    (128, 64): (3.1604, {"5e-4": (3.8371, .63), "5e-3": (3.7353, .57)}),
    (256, 128): (2.3428, {"5e-4": (2.6092, .56), "5e-3": (2.6687, .53)}),
    (256, 256): (2.0127, {"5e-4": (2.0486, .51), "5e-3": (2.2103, .49)}),
    (512, 256): (1.6293, {"5e-4": (1.7134, .53), "5e-3": (1.7526, .51)}),
    (512, 512): (1.4658, {"5e-4": (1.5248, .50), "5e-3": (1.5444, .49)}),
}
# (N_gen, steps): eps -> (score of the baseline, of SureLock, ratio of FLOPs)
TABLE_3 = {
    (64, 32): {"5e-4": (3.9, 3.8, .698), "5e-3": (3.8, 3.7, .653)},
    (64, 64): {"5e-4": (4.2, 4.2, .627), "5e-3": (4.2, 4.3, .587)},
    (128, 64): {"5e-4": (4.4, 4.2, .630), "5e-3": (4.3, 4.2, .598)},
    (128, 128): {"5e-4": (4.8, 4.9, .577), "5e-3": (4.8, 5.1, .553)},
    (256, 128): {"5e-4": (4.2, 4.4, .573), "5e-3": (4.3, 4.2, .554)},
    (256, 256): {"5e-4": (4.4, 4.5, .542), "5e-3": (4.4, 4.7, .528)},
    (512, 256): {"5e-4": (4.0, 4.3, .537), "5e-3": (4.0, 4.2, .528)},
    (512, 512): {"5e-4": (4.5, 4.7, .521), "5e-3": (4.4, 4.8, .515)},
}
SETTINGS = ("one block, one token a step where steps = length, temperature 0, m = 20, batch of 4 (section 3)",
            "min-age=0 is the literal Algorithm 1, which may lock a row in the step that writes it; Lacuna's default of 1 "
            "waits one pass, and saves less (docs/methods/surelock.md)",
            "the paper pads a batch to its longest prompt and counts those rows; Lacuna pads nothing")


def _asked(file, gen, steps, out, lock=""):
    return (f"lacuna eval -m {INSTRUCT} --task mt-bench --turns 1 --data {DATA}/{file} --gen-length {gen} --steps {steps} "
            f"--batch 4{lock} --out {OUT}/{out}.jsonl --json")


def table_1():
    """FLOPs by length and eps."""
    rows = []
    for gen, found in TABLE_1.items():
        for eps, (rows_ratio, flops) in found.items():
            rows.append(Row(f"N_gen {gen}, ε {eps}",
                            _asked("mt-bench-32.jsonl", gen, gen, f"surelock-1-{gen}-{eps}", " " + LOCK.format(eps)),
                            {"rows ratio": rows_ratio, "FLOPs ratio": flops},
                            denoised(INSTRUCT, PROMPTS, 90, gen, gen, rows_ratio, 4)))
    return Table("surelock", "1", "FLOPs per token by length and ε, 32 prompts of MT-bench", tuple(rows), {
        "question.jsonl": MT_BENCH,
        "mt-bench-32.jsonl": f"python3 tools/results reproduce surelock 1 --prepare --data {DATA}",
    }, SETTINGS, ("rows ratio", "FLOPs ratio"))


def table_2():
    """Perplexity of continuations."""
    rows = []
    for (gen, steps), (base, found) in TABLE_2.items():
        command = (f"lacuna eval -m {BASE} --task continuations --data {DATA}/wikitext-120.txt --length 64 "
                   f"--judge {JUDGE} --gen-length {gen} --steps {steps} --batch 4 --samples 120 --json")
        rows.append(Row(f"N_gen {gen}, {steps} steps, baseline", command, {"perplexity": base, "FLOPs ratio": 1.0},
                        denoised(BASE, 120, 64, gen, steps, 1, 4)))
        rows += [Row(f"N_gen {gen}, {steps} steps, ε {eps}", f"{command} {LOCK.format(eps)}",
                     {"perplexity": perplexity, "FLOPs ratio": ratio}, denoised(BASE, 120, 64, gen, steps, ratio, 4))
                 for eps, (perplexity, ratio) in found.items()]
    return Table("surelock", "2", "perplexity of continuations of WikiText-103", tuple(rows), {
        "wiki.train.txt": "the texts of Salesforce/wikitext, wikitext-103-raw-v1; the paper does not name the split",
        "wikitext-120.txt": f"python3 tools/results reproduce surelock 2 --prepare --data {DATA}",
    }, SETTINGS, ("perplexity", "FLOPs ratio"))


def table_3():
    """Scores of MT-bench."""
    rows = []
    for (gen, steps), found in TABLE_3.items():
        base = [each[0] for each in found.values()]
        rows.append(Row(f"N_gen {gen}, {steps} steps, baseline",
                        _asked("question.jsonl", gen, steps, f"surelock-3-{gen}-{steps}"),
                        {"judge's score": base[0], "FLOPs ratio": 1.0}, denoised(INSTRUCT, 80, 90, gen, steps, 1, 4)))
        rows += [Row(f"N_gen {gen}, {steps} steps, ε {eps}",
                     _asked("question.jsonl", gen, steps, f"surelock-3-{gen}-{steps}-{eps}", " " + LOCK.format(eps)),
                     {"judge's score": score, "FLOPs ratio": ratio}, denoised(INSTRUCT, 80, 90, gen, steps, ratio, 4))
                 for eps, (_, score, ratio) in found.items()]
    return Table("surelock", "3", "MT-bench, single turn", tuple(rows), {"question.jsonl": MT_BENCH}, (
        *SETTINGS, "not runnable here: the score, which is gpt-4o's by FastChat's llm_judge; --out holds the answers in its "
        "form. The paper's baselines differ by 0.1 between its two rows of ε; the first is shown"),
        ("judge's score", "FLOPs ratio"))


TABLES = (table_1(), table_2(), table_3())
