"""Checks `lacuna decide` against label probabilities computed from `lacuna logits`.

    python check_decisions.py LACUNA_BINARY [--models FOLDER] [--seeds N] [--quiet]

For every family a random checkpoint with a small tokenizer is asked random questions about random texts, and so are
mini-gidd and mini-gidd-mask, whose tokenizer spells all of it. The prompt, the answer's skeleton, the labels and the rows
are made here from docs/guide/decide.md alone, with the library `tokenizers`; `lacuna logits` gives the logits. A full
softmax restricted to the labels must equal the answers within 1e-5, and its mass `label_mass`. Then the official clients
of OpenAI and, where it is installed, of System One ask `lacuna serve`. Exit status 0 when nothing failed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from check_engine import Engine, Report
from check_server import Server
from random_checkpoints import make_checkpoint
from uniform import RngStream

TOLERANCE = 1e-5
# Family: how it reads. "shifted": a row predicts the next position.
FAMILIES = {"llada": "canvas", "llada_moe": "canvas", "dream": "canvas", "a2d_qwen3": "canvas", "coda": "canvas",
            "qwen2": "branches", "qwen3": "branches", "llama": "branches", "fast_dllm": "blocks", "llada2": "blocks",
            "sdar_moe": "blocks", "diffcoder": "blocks"}
SHIFTED = ("dream", "coda", "qwen2", "qwen3", "llama", "fast_dllm")
SLOT_NOISE = 20
PAIRS = ("yes", "no"), ("Yes", "No"), ("true", "false"), ("True", "False"), ("y", "n"), ("Y", "N"), ("A", "B")
WORDS = "Mia Ben fox shells happy lake barn has lives near the and very sad boat clock 12 7".split()


class Reader:
    """A tokenizer with its labels."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        letters = [chr(65 + i) for i in range(26)]
        codes = letters + [a + b for a in letters for b in letters]
        digits = [str(i) for i in range(10)]
        found = []
        for separator in (": ", ":"):
            pairs = [self.labels(separator, pair, 2) for pair in PAIRS]
            pair = next((pair for pair in pairs if len(pair) == 2), [])
            found.append((separator, pair, self.labels(separator, codes, 26)[:255], self.labels(separator, digits, 10)))
        complete = [len(pair) == 2 and len(options) >= 26 and len(levels) == 10 for _, pair, options, levels in found]
        second = not complete[0] and (complete[1] or len(found[1][2]) > len(found[0][2]))
        self.separator, pair, options, levels = found[1 if second else 0]
        self.of = {"predicate": pair, "choice": options, "score": levels}

    def encode(self, text):
        # No special token is written in these texts.
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def labels(self, separator, candidates, preferred):
        """The largest set of candidates, by its first ones, that differ in one token at one place."""
        lines = [self.encode(f"1{separator}{label}\n2{separator}") for label in candidates]
        best, most = [], 0
        for reference in range(min(preferred, len(lines))):
            chosen, place, ids = [], None, set()
            for index, line in enumerate(lines):
                if index == reference:
                    chosen.append(index)
                    continue
                if len(line) != len(lines[reference]):
                    continue
                changed = [at for at, (a, b) in enumerate(zip(line, lines[reference])) if a != b]
                if len(changed) != 1 or changed[0] != (changed[0] if place is None else place) or line[changed[0]] in ids:
                    continue
                place = changed[0]
                ids.add(line[place])
                chosen.append(index)
            count = sum(index < preferred for index in chosen)
            if count > most:
                best, most = chosen, count
        return [candidates[index] for index in best]

    def lines(self, questions, first, count):
        """(tokens with the first label, [(position, label ids)])"""
        own = [self.of[kind] for kind, _, _ in questions[first:first + count]]
        sizes = [len(options) for _, _, options in questions[first:first + count]]

        def encode(label):
            return self.encode("\n".join(f"{first + i + 1}{self.separator}{own[i][label if label < sizes[i] else 0]}"
                                         for i in range(count)))

        tokens = encode(0)
        slots = [[] for _ in range(count)]
        places = [at for at, (a, b) in enumerate(zip(tokens, encode(1))) if a != b]
        assert len(places) == count
        for label in range(max(sizes)):
            other = encode(label)
            assert len(other) == len(tokens)
            for i in range(count):
                if label < sizes[i]:
                    slots[i].append(other[places[i]])
        return tokens, list(zip(places, slots))

    def system(self, questions, reverse):
        text = f"Answer each question about the text with one label, one line each, such as \"1{self.separator}A\".\n"
        for number, (kind, instructions, options) in enumerate(questions, 1):
            text += f"Question {number}: {instructions}\n"
            labels = self.of[kind][:len(options)]
            for label, option in zip(labels, options[::-1] if reverse and kind == "choice" else options):
                text += f"  {label}" + ("" if option == label else f": {option}") + "\n"
        return text[:-1]


def random_questions(reader, rng, most):
    questions = []
    for _ in range(int(rng.integers(1, most + 1))):
        kind = str(rng.choice(["predicate", "choice", "score"]))
        options = ["yes", "no"]
        if kind != "predicate":
            count = int(rng.integers(2, min(5, len(reader.of[kind])) + 1))
            options = [" ".join(rng.choice(WORDS, 2)) + str(i) for i in range(count)]
        questions.append((kind, " ".join(rng.choice(WORDS, 4)) + "?", options))
    return questions


def openai_body(questions, state, settings):
    asked = []
    for kind, instructions, options in questions:
        question = {"type": kind, "instructions": instructions}
        if kind == "choice":
            question["choices"] = [{"value": option} for option in options]
        if kind == "score":
            question["levels"] = [{"label": option} for option in options]
        asked.append(question)
    return {"input": state, "questions": asked, "lacuna": settings}


def softmax(values):
    values = np.exp(values - np.max(values))
    return values / values.sum()


class Expected:
    """Expected answers of a checkpoint, from its logits."""

    def __init__(self, engine, folder, family, kind):
        self.engine, self.folder, self.kind = engine, folder, kind
        self.config = json.loads((folder / "config.json").read_text())
        self.shifted = family in SHIFTED
        names = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        mask = [int(token) for token, value in names.items() if "mask" in value["content"].lower()]
        self.mask = self.config.get("mask_token_id", mask[0] if mask else None)
        eos = self.config.get("eos_token_id")
        if eos is None:  # CoDA's file names none; its tokenizer does
            special = json.loads((folder / "special_tokens_map.json").read_text())["eos_token"]["content"]
            eos = next(int(token) for token, value in names.items() if value["content"] == special)
        self.eos = eos[0] if isinstance(eos, list) else eos

    def rows(self, tokens, extra=None):
        request, out = self.folder / "request.json", self.folder / "logits.npy"
        request.write_text(json.dumps({"tokens": tokens} | (extra or {})))
        self.engine.call(["logits", "-m", self.folder, "--request", request, "--out", out, "--dtype", "f32"])
        return np.load(out).astype(np.float64)

    def read(self, prompt, reader, questions, draws, seed):
        """[question][reading] -> probabilities of all tokens at its labels"""
        readings = [[] for _ in questions]

        def take(question, logits, ids):
            readings[question].append(softmax(logits)[ids])

        tokens, slots = reader.lines(questions, 0, len(questions))
        if self.kind == "canvas":
            canvas = prompt + tokens
            if self.eos is not None:
                canvas += [self.eos] * (8 - len(canvas) % 8)
            for place, _ in slots:
                canvas[len(prompt) + place] = self.mask
            logits = self.rows(canvas)
            for question, (place, ids) in enumerate(slots):
                take(question, logits[len(prompt) + place - self.shifted], ids)
        elif self.kind == "branches":
            for question in range(len(questions)):
                line, [(place, ids)] = reader.lines(questions, question, 1)
                take(question, self.rows(prompt + line[:place])[-1], ids)
        elif self.kind == "blocks":
            self.read_blocks(prompt, reader, questions, (tokens, slots), take)
        else:
            allowed = [token for token in range(self.config["vocab_size"]) if token not in self.special()]
            masks = self.config["noise_type"] < -100
            for draw in range(1 if masks else draws):
                canvas = prompt + tokens
                canvas += [self.eos] * (8 - len(canvas) % 8)
                for place, _ in slots:
                    at = len(prompt) + place
                    canvas[at] = self.mask if masks else allowed[
                        RngStream(seed, SLOT_NOISE, draw, at).below(0, len(allowed))]
                logits = self.rows(canvas, {"clean_prefix": len(prompt)})
                for question, (place, ids) in enumerate(slots):
                    take(question, logits[len(prompt) + place], ids)
        return readings

    def special(self):
        eos = self.config["eos_token_id"]
        ends = eos if isinstance(eos, list) else [eos]
        return {*ends, self.mask, self.config["bos_token_id"], self.config["pad_token_id"], *self.end_of_turn()}

    def end_of_turn(self):
        names = json.loads((self.folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        return [int(token) for token, value in names.items() if value["content"] == "<|im_end|>"]

    def block_length(self):
        return json.loads(self.engine.call(["inspect", "-m", self.folder, "--json"]))["config"]["block_length"]

    def read_blocks(self, prompt, reader, questions, whole, take):
        size = self.size
        blocks = {(len(prompt) + place) // size for place, _ in whole[1]}
        parts = [(0, *whole)] if len(blocks) == 1 else [
            (question, *reader.lines(questions, question, 1)) for question in range(len(questions))]
        for first, tokens, slots in parts:
            end = ((len(prompt) + slots[-1][0]) // size + 1) * size
            canvas = (prompt + tokens + [self.eos] * size)[:end]
            for place, _ in slots:
                canvas[len(prompt) + place] = self.mask
            # The first of a block is predicted by the block before, all of whose tokens are known.
            logits = self.rows(canvas, {"block_length": size})
            for index, (place, ids) in enumerate(slots):
                take(first + index, logits[len(prompt) + place - self.shifted], ids)


def compare(engine, folder, expected, reader, prompt_of, rng, most_questions, most_words):
    questions = random_questions(reader, rng, most_questions)
    state = " ".join(rng.choice(WORDS, int(rng.integers(2, most_words + 1))))
    settings = {"orders": int(rng.integers(1, 3)), "draws": int(rng.integers(1, 4)), "seed": int(rng.integers(0, 99))}
    body = folder / "questions.json"
    body.write_text(json.dumps(openai_body(questions, state, settings)))
    reply = json.loads(engine.call(["decide", "-m", folder, "--questions", body, "--dtype", "f32", "--json",
                                    *engine.common()]))
    orders = [expected.read(prompt_of(reader, questions, state, reverse), reader, questions, settings["draws"],
                            settings["seed"]) for reverse in range(settings["orders"])]
    worst = 0
    for index, ((kind, _, options), answer) in enumerate(zip(questions, reply["answers"], strict=True)):
        probabilities, mass = np.zeros(len(options)), 0
        for reverse, readings in enumerate(orders):
            for reading in readings[index]:
                of_options = reading[::-1] if reverse and kind == "choice" else reading
                share = len(orders) * len(readings[index])
                probabilities += of_options / of_options.sum() / share
                mass += reading.sum() / share
        got = ([answer["probability"], 1 - answer["probability"]] if kind == "predicate"
               else [entry["probability"] for entry in answer["probabilities"]])
        worst = max(worst, np.max(np.abs(got - probabilities)), abs(answer["label_mass"] - mass))
        if kind == "score":
            worst = max(worst, abs(answer["score"] - probabilities @ np.arange(len(options))))
        if kind == "choice" and answer["choice"] != options[int(np.argmax(got))]:
            return False, f"question {index}: {answer['choice']} is not the most probable of {options}"
    return bool(worst < TOLERANCE), f"{worst:.1e} in {len(questions)} questions, {settings}"


def raw_prompt(reader, questions, state, reverse):
    return reader.encode(reader.system(questions, reverse) + "\n\n" + state + "\n\n")


def check_family(engine, root, family, seed, report):
    folder = root / f"{family}-{seed}"
    edit = None
    if FAMILIES[family] == "blocks":
        rng = np.random.default_rng(seed)
        sizes = {"sdar_moe": [4, 32, 64], "diffcoder": [4, 64], "llada2": [32], "fast_dllm": [32]}
        size = int(rng.choice(sizes[family]))
        key = {"fast_dllm": "bd_size", "llada2": "block_length"}.get(family, "block_size")

        def edit(config, tensors):
            config[key] = size
    make_checkpoint(folder, family, seed, tokenizer="json", vocab=517, edit=edit)
    reader = Reader(Tokenizer.from_file(str(folder / "tokenizer.json")))
    expected = Expected(engine, folder, family, FAMILIES[family])
    if edit:
        expected.size = size
    rng = np.random.default_rng([seed, 91])
    for case in range(3):
        report.run(f"{family} seed {seed} case {case}",
                   lambda: compare(engine, folder, expected, reader, raw_prompt, rng, 4, 12))


def check_uniform(engine, models, root, name, report):
    """With a chat template and clean prefixes."""
    folder = root / name
    folder.mkdir()
    for file in (models / name).resolve().iterdir():
        (folder / file.name).symlink_to(file)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    reader = Reader(tokenizer)
    start, end = tokenizer.token_to_id("<|im_start|>"), tokenizer.token_to_id("<|im_end|>")

    def prompt_of(reader, questions, state, reverse):
        return [start, *reader.encode("system\n" + reader.system(questions, reverse)), end, *reader.encode("\n"), start,
                *reader.encode("user\n" + state), end, *reader.encode("\n"), start, *reader.encode("assistant\n")]

    expected = Expected(engine, folder, name, "noise")
    rng = np.random.default_rng(92)
    for case in range(3):
        report.run(f"{name} case {case}",
                   lambda: compare(engine, folder, expected, reader, prompt_of, rng, 1, 3))


def check_openai(binary, model, report):
    with Server(binary, model) as server:
        client = server.client()

        def asks():
            reply = client.decisions.create(
                model="any", input=[{"role": "user", "content": "Ben is happy."}], safety_identifier="u",
                questions=[{"type": "predicate", "instructions": "Is Ben happy?", "name": "happy"},
                           {"type": "choice", "instructions": "Who?", "choices": [{"value": "Ben"}, {"value": True}]}])
            first, second = reply.answers
            total = sum(entry.probability for entry in second.probabilities)
            holds = (first.type == "predicate" and first.name == "happy" and 0 < first.probability < 1
                     and second.choice in ("Ben", True) and abs(total - 1) < 1e-6
                     and reply.usage.total_tokens == reply.usage.input_tokens + 2)
            return holds, str(reply)

        report.run("OpenAI's client", asks)


def check_cost(binary, model, report):
    """Five questions on one text take one pass, and less than 1.3 times the work of one."""
    state = "Ben lives in the barn by the lake. Ben has a red ball. " * 45
    questions = ["Is Ben sad?", "Is Ben happy?", "Has Ben a ball?", "Is it red?", "Is Mia here?"]

    def stats_of(asked):
        flags = [flag for question in asked for flag in ("-q", question)]
        reply = subprocess.run([binary, "decide", "-m", model, "--state", state, *flags, "--json"], capture_output=True, check=True)
        return json.loads(reply.stdout)["lacuna"]["stats"]

    def check():
        one, five = stats_of(questions[:1]), stats_of(questions)
        ratio = five["flops"] / one["flops"]
        return five["forward_passes"] == 1 and ratio < 1.3, f"five questions take {ratio:.2f} times the FLOPs of one"

    report.run("cost", check)


def check_system_one(binary, model, report):
    try:
        from typesafe_sdk import Choice, Noul, Score, TypeSafeBadRequestError, TypeSafeClient
    except ImportError:
        report.skip("System One's client", "typesafe-sdk is not installed")
        return
    with Server(binary, model) as server:
        client = TypeSafeClient(api_key="none", base_url=f"http://127.0.0.1:{server.port}", compression=False)

        def asks():
            reply = client.system_one(
                state={"text": "Ben is happy."}, model="any",
                questions={"happy": Noul(instructions="Is Ben happy?"),
                           "who": Choice(instructions="Who?", criteria={"Ben": None, "Mia": "a girl"}),
                           "much": Score(instructions="How happy?", criteria=["not", "a bit", "very"])})
            holds = (0 < reply.nouls["happy"].noul < 1 and reply.choices["who"].choice in ("Ben", "Mia")
                     and 0 <= reply.scores["much"].score <= 2 and reply.usage.output_tokens == 3)
            return holds, str(reply)

        def refuses():
            try:
                client.system_one(state="x" * 9000, model="any", questions={"a": Noul(instructions="?")})
            except TypeSafeBadRequestError as error:
                return "do not fit" in str(error), str(error)
            return False, "the text was accepted"

        report.run("System One's client", asks)
        report.run("System One's client, a text that is too long", refuses)
        report.run("System One's list of models", lambda: (bool(client.models.list()), ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--models", default=Path(__file__).resolve().parents[2] / "models", type=Path)
    parser.add_argument("--seeds", type=int, default=2, help="random checkpoints of each family (default 2)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="print only what did not pass")
    args = parser.parse_args()
    if not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is not an executable file")
    report, engine = Report(not args.quiet), Engine(args.binary)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(scratch)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for family in FAMILIES:
                check_family(engine, root, family, seed, report)
        for name in ("mini-gidd", "mini-gidd-mask"):
            check_uniform(engine, args.models, root, name, report)
    check_openai(args.binary, args.models / "mini-llada", report)
    check_system_one(args.binary, args.models / "mini-llada", report)
    check_cost(args.binary, args.models / "mini-llada", report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
