"""lm-evaluation-harness with the model `lacuna`, in the process and through the server: the same answers, and
likelihoods of models of every paradigm.

    LACUNA_PROGRAM=build/dev/lacuna PYTHONPATH=build/dev/python python3 tests/python/check_lm_eval.py
"""
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path
from types import SimpleNamespace

os.environ["HF_DATASETS_OFFLINE"] = "1"
import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

import lacuna  # noqa: E402
from lacuna.lm_eval import LacunaLM  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("LACUNA_MODELS", str(ROOT / "models"))
PROGRAM = os.environ.get("LACUNA_PROGRAM", "lacuna")

GENERATION = """task: stories
dataset_path: json
dataset_kwargs:
  data_files: {data}
test_split: train
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: ["\\n\\n"]
  max_gen_toks: 32
filter_list:
  - name: number
    filter:
      - function: regex
        regex_pattern: "answer is (-?[0-9]+)"
      - function: take_first
metric_list:
  - metric: exact_match
"""
CHOICE = """task: choices
dataset_path: json
dataset_kwargs:
  data_files: {data}
test_split: train
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{label}}}}"
metric_list:
  - metric: acc
"""


def stories(count):
    """Questions, and their answers as the models that ship were taught to write them."""
    names = ("Mia", "Tom", "Ann", "Sam")
    for i in range(count):
        has, finds = 5 + 3 * i % 11, 2 + 5 * i % 7
        name = names[i % 4]
        yield (f"{name} has {has} shells. {name} finds {finds} more. How many shells does {name} have now?",
               f"{has}+{finds}={has + finds}. The answer is {has + finds}.")


def server(model):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([PROGRAM, "serve", "-m", model, "--port", str(port), "--threads", "1"],
                               stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            return process, port
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise RuntimeError("the server does not answer")


class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        with open(folder / "stories.jsonl", "w") as file:
            for question, answer in stories(12):
                number = answer.split()[-1].strip(".")
                print(json.dumps({"question": question, "answer": number, "label": 0,
                                  "choices": [f" {number}", f" {int(number) + 7}"]}), file=file)
        for name, text in (("stories", GENERATION), ("choices", CHOICE)):
            (folder / f"{name}.yaml").write_text(text.format(data=folder / "stories.jsonl"))
        cls.tasks = TaskManager(include_path=str(folder), include_defaults=False)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def evaluate(self, model, tasks, **args):
        return lm_eval.simple_evaluate(model=model, tasks=tasks, task_manager=self.tasks, log_samples=True,
                                       bootstrap_iters=0, **args)

    def texts(self, results):
        return [sample["resps"][0][0] for sample in results["samples"]["stories"]]

    def test_class_and_server_agree(self):
        for name in ("mini-llada", "mini-sdar"):
            with self.subTest(name):
                own = self.evaluate(LacunaLM(name, threads=1), ["stories"])
                process, port = server(name)
                try:
                    args = {"model": name, "base_url": f"http://127.0.0.1:{port}/v1/completions", "num_concurrent": 4,
                            "tokenizer_backend": "None", "tokenized_requests": "False", "max_length": 256}
                    served = self.evaluate("local-completions", ["stories"],
                                           model_args=",".join(f"{key}={value}" for key, value in args.items()))
                finally:
                    process.terminate()
                    process.wait()
                self.assertEqual(self.texts(own), self.texts(served))
                self.assertEqual(own["results"]["stories"], served["results"]["stories"])
                self.assertTrue(any(re.search("answer is", text) for text in self.texts(own)))

    def test_a_chat_template_is_the_models_own(self):
        results = self.evaluate(LacunaLM("mini-llada", threads=1), ["stories"], apply_chat_template=True)
        self.assertGreaterEqual(results["results"]["stories"]["exact_match,number"], 0.8)

    def test_every_paradigm_prefers_the_right_answer_to_a_wrong_one(self):
        for name in ("mini-llada", "mini-sdar", "mini-gidd", "mini-refusion", "mini-qwen3"):
            with self.subTest(name):
                lm = LacunaLM(name, threads=1)
                requests = [SimpleNamespace(args=(lm.apply_chat_template([{"role": "user", "content": question}]), text))
                            for question, answer in stories(6) for text in (answer, answer.replace("=", "=7"))]
                found = lm.loglikelihood(requests)
                self.assertEqual(found, lm.loglikelihood(requests))
                self.assertTrue(all(math.isfinite(value) and value < 0 for value, _ in found), found)
                self.assertTrue(all(right[0] > wrong[0] for right, wrong in zip(found[::2], found[1::2])), found)
                rolling = lm.loglikelihood_rolling([SimpleNamespace(args=("Mia has 12 shells.",))])
                self.assertTrue(math.isfinite(rolling[0]) and rolling[0] < 0)

    def test_the_command_line_knows_the_model(self):
        with tempfile.TemporaryDirectory() as output:
            done = subprocess.run([sys.executable, "-m", "lacuna.lm_eval", "--model", "lacuna", "--model_args",
                                   "model=mini-llada,threads=1,unmask=threshold:0.9", "--tasks", "stories", "--include_path",
                                   self.folder.name, "--apply_chat_template", "--output_path", output],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("|exact_match|", done.stdout.replace(" ", ""))

    def test_causal_likelihoods_are_those_of_the_logits(self):
        lm = LacunaLM("mini-qwen3", threads=1)
        given, scored = lm.model.tokenize("Mia has 12"), lm.model.tokenize(" shells.")
        logits = lm.model.logits([*given, *scored]).astype(float)
        rows = logits[len(given) - 1:-1]
        expected = sum(row[token] - math.log(sum(math.exp(x - row.max()) for x in row)) - row.max()
                       for row, token in zip(rows, scored))
        self.assertAlmostEqual(lm.model.log_likelihoods([(given, scored)])[0], expected, delta=1e-3)

    def test_choices_run_in_the_harness(self):
        results = self.evaluate(LacunaLM("mini-qwen3", threads=1), ["choices"])
        self.assertIn("acc,none", results["results"]["choices"])

    def test_bad_arguments_are_one_sentence(self):
        with self.assertRaisesRegex(lacuna.Error, "model_args has no model"):
            LacunaLM()
        with self.assertRaisesRegex(lacuna.Error, "draws is 0; expected 1 to 4096"):
            LacunaLM("mini-llada", threads=1).model.log_likelihoods([([1], [2])], draws=0)
        with self.assertRaisesRegex(lacuna.Error, "no tokens"):
            LacunaLM("mini-llada", threads=1).model.log_likelihoods([([], [2])])


if __name__ == "__main__":
    unittest.main()
