"""A table's commands made small: models of this repository, files of two samples, short lengths. The flags stay."""
import json
import re

from papers.table import MODELS

# Flags whose numbers are divided, and the least that they may become.
LENGTHS = {"--gen-length": 8, "--steps": 4, "--block-length": 4, "--cache-block": 4, "--guide-block": 4, "--slot-size": 4,
           "--length": 8, "--prompt-length": 8}
CONTEXT = 128  # --context: more than any answer here
LONGEST = 64
BUDGET = 32  # budgets of sparse attention are divided by this
SAMPLES = 2
MODEL = re.compile(r"(-m|--guide|--judge) (\S+)")
KNOWN = MODELS | {f"random:{model.shape},layers=8": model for model in MODELS.values()}
STORY = "Mia has 12 shells. She finds 7 more. She gives 5 to Sam."


def small(command):
    """The command on small models."""
    models = [name for _, name in MODEL.findall(command)]
    shrink = KNOWN[models[0]].shrink

    def divided(found):
        return f"{found[1]} {min(LONGEST, max(LENGTHS[found[1]], int(found[2]) // shrink))}"

    words = MODEL.sub(lambda found: f"{found[1]} {KNOWN[found[2]].mini}", command)
    words = re.sub(rf"({'|'.join(LENGTHS)}) (\d+)", divided, words)
    words = re.sub(r"(mage|quest|sparsed)=(\d+)", lambda found: f"{found[1]}={max(1, int(found[2]) // BUDGET)}", words)
    words = re.sub(r"--context \d+", f"--context {CONTEXT}", words)
    words = re.sub(r",page=\d+", ",page=2", words)
    if " bench decode " in words:
        # Whatever the processor has, and no more than two passes.
        return re.sub(r"^LACUNA_ISA=\S+ ", "", words) + " --timed-passes 2 --repeat 1 --threads 1"
    words = re.sub(r" --samples \d+", "", words)
    words = re.sub(r"--shots \d+", f"--shots {SAMPLES}", words)
    if "--gen-length" not in words:
        words += f" --gen-length {LONGEST // 2}"  # LongBench's own lengths are up to 512
    return f"{words} --samples {SAMPLES} --threads 1"


def _question(text="How many shells does Mia have now?"):
    return f"{STORY} {text}"


def _longbench(dataset):
    code = {"context": "a=1\nb=2\n", "input": "c=", "answers": ["3"]}
    text = {"context": STORY, "input": _question(), "answers": ["14"]}
    return {"dataset": dataset, **(code if dataset == "repobench-p" else text)}


WORD_PROBLEM = {"question": _question(), "answer": "12+7=19. 19-5=14.\n#### 14"}
CHOICES = {"text": ["12", "14"], "label": ["A", "B"]}
DATASETS = ("hotpotqa", "narrativeqa", "qasper", "qmsum", "repobench-p", "triviaqa")
NEEDLE = {"dataset": "narrativeqa", "context": STORY, "input": _question(), "answers": ["14"]}
FILES = {  # line of JSON, or text
    "question.jsonl": {"question_id": 81, "category": "writing", "turns": [_question(), "And then?"]},
    "mt-bench-32.jsonl": {"question_id": 81, "category": "writing", "turns": [_question(), "And then?"]},
    "wikitext-120.txt": f"{STORY} {STORY} {STORY}",
    "wikitext-128.txt": f"{STORY} {STORY} {STORY}",
    "wikitext-512.txt": f"{STORY} {STORY} {STORY} {STORY} {STORY} {STORY}",
    "gsm8k/test.jsonl": WORD_PROBLEM,
    "gsm8k/eight.jsonl": WORD_PROBLEM,
    "mmlu-pro-test.jsonl": {"question": _question(), "options": ["12", "14"], "answer_index": 1, "category": "math",
                            "cot_content": ""},
    "arc-challenge-test.jsonl": {"question": _question(), "choices": CHOICES, "answerKey": "B"},
    "gpqa-main.jsonl": {"Question": _question(), "Correct Answer": "14", "Incorrect Answer 1": "12",
                        "Incorrect Answer 2": "7", "Incorrect Answer 3": "5"},
    "math-test.jsonl": {"problem": _question(), "solution": "It is $\\boxed{14}$."},
    "HumanEval.jsonl.gz": {"task_id": "T/0", "prompt": "def f():\n", "entry_point": "f", "test": "def check(f): f()"},
    "mbpp-test.jsonl": {"task_id": 11, "text": "Add.", "test_list": ["assert add(1, 2) == 3"]},
    "needle-8k.jsonl": NEEDLE,
    "needle-32k.jsonl": NEEDLE,
    "needle-128k.jsonl": NEEDLE,
    "dataset2prompt.json": dict.fromkeys(DATASETS, "{context}\n{input}"),
} | {f"longbench/{dataset}.jsonl": _longbench(dataset) for dataset in DATASETS}
WHOLE = ("dataset2prompt.json",)  # files of one object; others have SAMPLES lines


def write_files(folder):
    """Writes the files of all tables."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        line = content if isinstance(content, str) else json.dumps(content)
        path.write_text(f"{line}\n" * (1 if name in WHOLE else SAMPLES), encoding="utf-8")
