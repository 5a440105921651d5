"""Compares the scores of `lacuna eval --task longbench` with plain implementations of LongBench's metrics, and with the
packages that LongBench uses where they are installed (rouge; rapidfuzz in place of fuzzywuzzy).

    python check_longbench.py BINARY [--model MODEL]

The references of each question are made from the model's own answer: words are dropped, doubled and moved, so that scores
lie anywhere between 0 and 1.
"""

import argparse
import collections
import json
import random
import re
import string
import subprocess
import tempfile
from pathlib import Path

try:
    from rouge import Rouge
except ImportError:
    Rouge = None
try:
    from rapidfuzz import fuzz
except ImportError:
    fuzz = None

PROMPTS = ["Mia has 12 shells. She finds 7 more. How many shells does Mia have now?", "Tell a story about Nora the deer and the candle.",
           "There are 9 hats in Ben's box. He loses 4. How many hats are left?", "Tell a story about Zoe the fox, the forest and the key."]


def token_f1(text, reference):
    def words(value):
        kept = "".join(c for c in value.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", kept).split()

    given, wanted = words(text), words(reference)
    common = sum((collections.Counter(given) & collections.Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted)) if common else 0.0


def common_words(a, b):
    """Words of a longest common subsequence, found by recursion over suffixes."""
    best = {}
    for i in range(len(a), -1, -1):
        for j in range(len(b), -1, -1):
            if i == len(a) or j == len(b):
                best[i, j] = ()
            elif a[i] == b[j]:
                best[i, j] = (a[i],) + best[i + 1, j + 1]
            else:
                best[i, j] = max(best[i + 1, j], best[i, j + 1], key=len)
    return best[0, 0]


def edit_similarity(text, reference):
    if not text or not reference:
        return 0.0
    return 2 * len(common_words(text, reference)) / (len(text) + len(reference))


def first_code_line(text):
    lines = [line for line in text.lstrip("\n").split("\n") if not any(sign in line for sign in ("`", "#", "//"))]
    return lines[0] if lines else ""


def rouge_l(text, reference):
    """Exact where each text is one sentence, which has no ties between sentences; several need the package."""
    a, b = text.rstrip(".").split(), reference.rstrip(".").split()
    common = len(set(common_words(b, a)))
    return 2 * common / (len(set(a)) + len(set(b))) if common else 0.0


def perturbed(answer, rng):
    words = answer.split()
    for _ in range(rng.randrange(1, 5)):
        where = rng.randrange(len(words)) if words else 0
        change = rng.randrange(3)
        if change == 0 and len(words) > 1:
            words.pop(where)
        elif change == 1 and words:
            words.insert(rng.randrange(len(words) + 1), words[where])
        else:
            words.insert(where, rng.choice(["the", "fox", "Now", "seven.", "x"]))
    return " ".join(words) or "x"


def evaluate(binary, model, dataset, items, folder):
    data = folder / f"{dataset}.jsonl"
    data.write_text("".join(json.dumps({"context": context, "input": "", "answers": answers, "dataset": dataset}) + "\n"
                            for context, answers in items))
    out = folder / "records.jsonl"
    command = [binary, "eval", "-m", model, "--threads", "1", "--task", "longbench", "--data", data, "--out", out, "--json"]
    total = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert abs(total["score"] - sum(record["score"] for record in records) / len(records)) < 1e-9
    assert total["score_low"] <= total["score"] <= total["score_high"]
    return records


def expected_score(dataset, answer, reference):
    if dataset == "qasper":
        return token_f1(answer, reference), 1e-9
    if dataset == "lcc":
        line = first_code_line(answer)
        own = edit_similarity(line, reference)
        if fuzz is not None:
            assert abs(fuzz.ratio(line, reference) / 100 - own) < 1e-9
        return own, 1e-9
    if Rouge is not None:
        return (Rouge().get_scores([answer], [reference])[0]["rouge-l"]["f"] if answer.strip(". ") else 0.0), 1e-6
    if "." in answer.rstrip(".") or "." in reference.rstrip("."):
        return None, 0
    return rouge_l(answer, reference), 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--model", default=str(Path(__file__).resolve().parents[2] / "models" / "mini-qwen3"))
    arguments = parser.parse_args()
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for dataset in ("qasper", "qmsum", "lcc"):
            items = [(PROMPTS[i % len(PROMPTS)], ["x"]) for i in range(12)]
            answers = [record["text"] for record in evaluate(arguments.binary, arguments.model, dataset, items, folder)]
            items = [(context, [perturbed(answer, rng) for _ in range(1 + i % 3)])
                     for i, ((context, _), answer) in enumerate(zip(items, answers))]
            compared = 0
            for (_, references), record in zip(items, evaluate(arguments.binary, arguments.model, dataset, items, folder)):
                scores = [expected_score(dataset, record["text"], reference) for reference in references]
                if any(score is None for score, _ in scores):
                    continue
                wanted = max(score for score, _ in scores)
                assert abs(record["score"] - wanted) <= scores[0][1], (dataset, record["text"], references, record["score"], wanted)
                compared += 1
            print(f"{dataset}: {compared} scores agree")


if __name__ == "__main__":
    main()
