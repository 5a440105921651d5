"""`python3 tools/results real-text`: measures the rows of the page real_text."""
import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

from book import PAGES, make_page
from errors import BookError, CommandError
from measure import ROOT, Measurer, text_of
from real_text import BASELINES, BLOCKS, COMPARED, MASKED, MT_BENCH, SETTINGS, WIKITEXT, Setting, agreement, command_of, exact_of
from rows import append_line, read_lines

PAGE = "real_text"
REFUSED = 2  # exit code of a setting that does not apply
LEAST_CHARACTERS = 400  # of a text that is continued: more than its prompt has
DESCRIPTION = """\
Measures the methods on continuations of WikiText and on first questions of MT-Bench, and writes the page real_text.
Each row is written when it is measured, and rows that the file has are not measured again: the run may be stopped at
any time, and the same command continues it. Settings come in order of importance, the masked model's baseline first."""


def parse_arguments(arguments):
    """Command line flags."""
    parser = argparse.ArgumentParser(prog="python3 tools/results real-text", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lacuna", default="build/release/lacuna", metavar="FILE",
                        help="binary that is measured (default %(default)s)")
    parser.add_argument("--masked", metavar="FOLDER", help="masked model in Dream's layout; left out: none of its settings")
    parser.add_argument("--blocks", metavar="FOLDER", help="block diffusion model in Fast-dLLM v2's layout; the same")
    parser.add_argument("--guide", metavar="FILE", help="left-to-right model that guides the masked one; the same")
    parser.add_argument("--judge", required=True, metavar="FILE", help="left-to-right model that reads the answers")
    parser.add_argument("--wikitext", required=True, metavar="FILE", help="text of WikiText, one paragraph a line")
    parser.add_argument("--mt-bench", required=True, metavar="FILE", help="FastChat's question.jsonl")
    parser.add_argument("--samples", type=int, default=200, metavar="N",
                        help="half of them questions, but not more than the file has (default %(default)s)")
    parser.add_argument("--gen-length", type=int, default=32, metavar="N", help="positions of an answer (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="default %(default)s")
    parser.add_argument("--first", type=int, metavar="N", help="measure no more than the first N settings")
    parser.add_argument("--fresh", action="store_true", help="forget the known rows")
    parser.add_argument("--dirty", action="store_true", help="record rows although files differ from the commit")
    parser.add_argument("--out", default=str(ROOT / PAGES[PAGE].folder), metavar="FOLDER",
                        help="folder of the rows and the page (default docs/results)")
    options = parser.parse_args(arguments)
    if not options.masked and not options.blocks:
        parser.error("expected --masked, --blocks or both")
    if options.samples < 2 or options.gen_length < 2 or options.threads < 1:
        parser.error("expected --samples and --gen-length of at least 2, and --threads of at least 1")
    return options


def prompts_of(words, count):
    """Paragraphs to be continued, evenly spaced in the text: no headings, and none that is short."""
    lines = [line.strip() for line in words.splitlines()]
    lines = [line for line in lines if len(line) >= LEAST_CHARACTERS and not line.startswith("=")]
    if len(lines) < count:
        raise BookError(f"expected at least {count} paragraphs of {LEAST_CHARACTERS} characters; WikiText's file has "
                        f"{len(lines)}")
    return [lines[index * len(lines) // count] for index in range(count)]


def split(samples, questions):
    """How many texts are continued and how many questions are asked."""
    asked = min(questions, samples // 2)
    return {WIKITEXT: samples - asked, MT_BENCH: asked}


def digest(path):
    """SHA-256 of a file, or of a folder's files with their names."""
    found = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file()):
        if file != path:
            found.update(f"{file.relative_to(path)}\n".encode())
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                found.update(block)
    return found.hexdigest()


class Plan:
    """Commands to measure, their models and files."""

    def __init__(self, options, folder):
        self.options = options
        named = {"MASKED": options.masked, "BLOCKS": options.blocks, "GUIDE": options.guide, "JUDGE": options.judge,
                 "MT_BENCH": options.mt_bench}
        self.paths = {name: Path(path).resolve() for name, path in named.items() if path}
        for name, path in {**self.paths, "WIKITEXT": Path(options.wikitext)}.items():
            if not path.exists():
                raise BookError(f"--{name.lower().replace('_', '-')} {path}: there is no such file or folder")
        questions = sum(bool(line.strip()) for line in self.paths["MT_BENCH"].read_text(encoding="utf-8").splitlines())
        self.samples = split(options.samples, questions)
        self.paths["WIKITEXT"] = self._write_prompts(folder)
        self.inputs = {name: {"name": path.name, "sha256": digest(path)} for name, path in self.paths.items()}

    def _write_prompts(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"wikitext-{self.samples[WIKITEXT]}.txt"
        words = Path(self.options.wikitext).read_text(encoding="utf-8")
        path.write_text("\n".join(prompts_of(words, self.samples[WIKITEXT])) + "\n", encoding="utf-8")
        return path

    def cells(self):
        """Settings and kinds of text, in the order of measuring."""
        models = {MASKED: self.options.masked, BLOCKS: self.options.blocks}
        asked = [each for each in SETTINGS if models[each.model] and (self.options.guide or not each.needs_guide)]
        return [(setting, kind) for setting in asked[:self.options.first] for kind in (WIKITEXT, MT_BENCH)]

    def command(self, setting, kind):
        """The command of a cell."""
        options = self.options
        return command_of(setting, kind, options.gen_length, self.samples[kind], options.threads)

    def inputs_of(self, command):
        """The models and files that a command names."""
        return {name: found for name, found in self.inputs.items() if f'"${name}"' in command}


def kept_answer(answer):
    """Text and tokens of an answer of `lacuna eval --out`. Tokens end with the end token; those behind it do not belong to
    the answer, and masks are left there where decoding stopped."""
    kept = {"text": text_of(answer)}
    if "tokens" in answer:
        stats = answer["stats"]
        count = round(stats["tokens_per_forward"] * stats["forward_passes"]) + (answer["stop_reason"] == "eos")
        kept["tokens"] = answer["tokens"][:count]
    return kept


class TextMeasurer(Measurer):
    """Makes rows that have the answers."""

    def _result(self, command, folder):
        found = super()._result(command, folder)
        lines = (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
        return found | {"full_answers": [kept_answer(json.loads(line)) for line in lines]}


def check_rows(rows, plan):
    """BookError where known rows are of other models, files or lengths."""
    for row in rows:
        other = [name for name, found in row["inputs"].items() if name in plan.inputs and found != plan.inputs[name]]
        if other:
            raise BookError(f"{PAGE}.jsonl has rows of another {', '.join(other)}; --fresh forgets them, --out has others")
        if row["command"] != plan.command(Setting(row["model"], (), row["flags"]), row["text"]):
            raise BookError(f"{PAGE}.jsonl has rows of other --samples, --gen-length or --threads, as `{row['command']}`; "
                            "give these, or --fresh, or another --out")


def drop_unfinished(path):
    """Cuts off the last line where a run was killed while it wrote it."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            path.write_text("".join(lines[:-1]), encoding="utf-8")


def measure_cell(setting, kind, plan, measure, kept):
    """The row of a cell. `kept`: answers on texts of this kind by setting; those of this one are added where others are
    compared with it."""
    baseline = BASELINES[setting.model]
    command = plan.command(setting, kind)
    options = plan.options
    facts = {"model": setting.model, "flags": setting.at(options.gen_length), "text": kind, "gen_length": options.gen_length,
             "inputs": plan.inputs_of(command)}
    try:
        row = measure(command)
    except CommandError as error:
        if error.exit_code != REFUSED or setting == baseline:
            raise
        print(f"  refused: {error.reason}", file=sys.stderr)
        return {"command": command, **measure.origin(), **facts, "result": {"refused": error.reason.removeprefix("lacuna: ")}}
    answers = row.pop("full_answers")
    if setting in COMPARED:
        kept[setting] = answers
        facts["full_answers"] = answers
    row |= facts | {"agreement": agreement(answers, kept[baseline])}
    exact = kept.get(exact_of(setting))
    return row | ({"agreement_exact": agreement(answers, exact)} if exact else {})


def left(seconds, done, remaining):
    """A sentence about the time that is left. `seconds`: of the `done` cells that this run measured."""
    if not done:
        return f"{remaining} to measure"
    minutes = seconds / done * remaining / 60
    return f"{remaining} to measure, about " + (f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h")


def measure_all(plan, path, measure):
    """Measures what is missing, row by row. Returns the errors of commands that failed."""
    drop_unfinished(path)
    rows = read_lines(path)
    check_rows(rows, plan)
    known = {row["command"] for row in rows}
    kept = {kind: {setting: row["full_answers"] for setting in COMPARED for row in rows if "full_answers" in row
                   and (row["model"], row["flags"], row["text"]) == (setting.model, setting.at(row["gen_length"]), kind)}
            for kind in (WIKITEXT, MT_BENCH)}
    missing = [cell for cell in plan.cells() if plan.command(*cell) not in known]
    print(f"{len(plan.cells())} commands, of which {len(plan.cells()) - len(missing)} have rows", file=sys.stderr)
    errors, start = [], time.monotonic()
    for done, (setting, kind) in enumerate(missing):
        print(f"[{left(time.monotonic() - start, done, len(missing) - done)}]", file=sys.stderr)
        try:
            row = measure_cell(setting, kind, plan, measure, kept[kind])
        except CommandError as error:
            if setting in BASELINES.values():
                raise
            print(f"\n{error}", file=sys.stderr)
            errors.append(error)
            continue
        append_line(path, row)
    return errors


def main(arguments):
    """Returns the exit code."""
    options = parse_arguments(arguments)
    plan = Plan(options, ROOT / "build" / "real_text")
    measure = TextMeasurer(options.lacuna, options.dirty, {name: str(path) for name, path in plan.paths.items()})
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{PAGE}.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    try:
        errors = measure_all(plan, path, measure)
    finally:
        for name, made in make_page(PAGES[PAGE], folder).items():
            (folder / name).write_text(made, encoding="utf-8")
            print(folder / name)
    print("\n".join(map(str, errors)), end="\n" if errors else "", file=sys.stderr)
    return 1 if errors else 0
