#!/usr/bin/env python3
"""Compares the evaluator of chat templates with Python's jinja2, in the settings of transformers.

    python check_jinja.py JINJA_CASES [--generated N] [--seed S] [--templates FOLDER ...] [--quiet]

JINJA_CASES is built from tests/tokenizer/jinja_cases.cpp. Every template must give the same text, or fail on both sides:
those of the folders (files *.jinja, and chat_template in tokenizer_config.json), each with all conversations of
jinja_environment.py, and generated ones (jinja_templates.py), each with values of its own. Cyrillic letters stand in values
alone; wherever they are printed, they must be marked as the caller's. Exit status 0 when nothing differs.
"""

import argparse
import collections
import json
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jinja_environment
import jinja_templates


class Cases:
    """The evaluator, as a process that answers line by line."""

    def __init__(self, program):
        self.program = program
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def render(self, template, values):
        """The pieces, or the error."""
        line = json.dumps({"template": template, "values": values, "now": jinja_environment.NOW})
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the program ended at {line}")
        answer = json.loads(answer)
        return answer.get("pieces"), answer.get("error")


def templates_of(folder):
    """(name, text) of every template below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".jinja":
            yield str(path), path.read_text()
        elif path.name == "tokenizer_config.json":
            text = json.loads(path.read_text()).get("chat_template")
            named = text if isinstance(text, list) else [{"name": "", "template": text}] if text else []
            for each in named:
                yield f"{path} {each['name']}", each["template"]


def is_cyrillic(character):
    return "\u0400" <= character <= "\u04ff"


def is_apart(text, error):
    """Whether a text has an address of an object, or the evaluator refuses what it does not have (numbers) or too much."""
    refusals = ("64 bits", "steps", "raised to a fraction", "a text has more than")
    return (text is not None and " at 0x" in text) or (error is not None and any(each in error for each in refusals))


def difference(pieces, error, text, exception):
    """The first difference as a sentence, or None."""
    if (pieces is None) != (text is None):
        return f"ours: {error or 'a text'}; jinja2: {exception!r}" + (f" {text[:200]!r}" if text is not None else "")
    if pieces is None:
        return None
    ours = "".join(part for part, _ in pieces)
    if ours != text:
        at = next((i for i, (a, b) in enumerate(zip(ours, text)) if a != b), min(len(ours), len(text)))
        return f"at {at}: ours {ours[max(at - 30, 0):at + 60]!r}; jinja2 {text[max(at - 30, 0):at + 60]!r}"
    if any(not part for part, _ in pieces) or any(a[1] == b[1] for a, b in zip(pieces, pieces[1:])):
        return "pieces are empty or do not alternate"
    for part, is_input in pieces:
        if not is_input and any(map(is_cyrillic, part)):
            return f"a text of the caller is not marked: {part!r}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--generated", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--templates", type=Path, action="append", default=[])
    parser.add_argument("--failures", type=int, default=20, help="failures to print")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()

    warnings.simplefilter("ignore", SyntaxWarning)  # of the Python that jinja2 makes of templates
    env = jinja_environment.environment()
    cases = Cases(options.program)
    counts = collections.Counter()

    def check(name, template, values):
        text, exception = jinja_environment.render(env, template, values)
        pieces, error = cases.render(template, values)
        if is_apart(text, error):
            counts["not compared"] += 1
            return None
        wrong = difference(pieces, error, text, exception)
        counts["failed" if wrong else "passed"] += 1
        counts["texts" if text is not None else "errors"] += 1
        if wrong and counts["failed"] <= options.failures:
            print(f"{name}: {wrong}")
        return wrong

    conversations = jinja_environment.conversations()
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": None}
    num_templates = 0
    for folder in options.templates:
        for name, template in templates_of(folder):
            num_templates += 1
            for case, values in conversations.items():
                check(f"{name} with {case}", template, {**tokens, **values})
    if num_templates and not options.quiet:
        print(f"{num_templates} templates with {len(conversations)} conversations each: {dict(counts)}")
    before = time.monotonic()
    for seed in range(options.seed, options.seed + options.generated):
        template, values = jinja_templates.generate(random.Random(seed))
        if check(f"seed {seed}", template, values) and counts["failed"] <= options.failures:
            print(f"  template: {template!r}\n  values: {values!r}")
    if not options.quiet:
        print(f"{options.generated} generated templates in {time.monotonic() - before:.0f} s")
    print(
        f"{counts['passed']} passed ({counts['texts']} texts, {counts['errors']} errors), {counts['failed']} failed, "
        f"{counts['not compared']} not compared (addresses, large or complex numbers, limits)"
    )
    return 0 if counts["failed"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
