"""Runs a command and makes its raw row."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from errors import BookError, CommandError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = (":!docs/results",)  # what measuring itself changes
# --json may be left out
JSON_COMMANDS = ("lacuna eval ", "lacuna bench ", "lacuna analyze ", "lacuna compare ", "lacuna tune ")


def printed(words, **more):
    """Standard output of a program; "" where it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False, **more)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def unclean_files():
    """Files that differ from the commit, as `git status` prints them; results do not count."""
    return printed(["git", "status", "--porcelain", "--", ".", *RESULTS])


def processor_name():
    """Model name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")


def cells_by_head(lines):
    """Tables of `lacuna analyze --json`: rows with the same keys are one table."""
    tables = []
    for line in lines:
        found = {key: value for key, value in json.loads(line).items() if key not in ("instrument", "model")}
        if not tables or tables[-1]["head"] != list(found):
            tables.append({"head": list(found), "rows": []})
        tables[-1]["rows"].append(list(found.values()))
    return tables


def text_of(answer):
    """The text of an answer of `lacuna eval --out`; of MT-Bench's form, its turns."""
    return answer["text"] if "text" in answer else "\n".join(answer["choices"][0]["turns"])


def fingerprints(path):
    """Six digits for the text of each answer of `lacuna eval --out`, all of them together."""
    texts = [text_of(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return "".join(hashlib.blake2b(text.encode(), digest_size=3).hexdigest() for text in texts)


def only_turn(result):
    """The figures of `lacuna eval`, those of MT-Bench's first turn where it asked for one turn."""
    turns = result.get("turns", [])
    return turns[0] if len(turns) == 1 else result


def trace_result(lines):
    """Prompt length, passes and token texts of the first request of `lacuna run --trace`."""
    first, *passes = [line for line in map(json.loads, lines) if line.get("request", 0) == 0]
    texts = {int(token): text for line in [first, *passes] for token, text in line.get("pieces", {}).items()}
    return first["prompt_tokens"], {
        "trace": [{key: value for key, value in line.items() if key != "pieces"} for line in passes],
        "texts": [{"token": token, "text": text} for token, text in sorted(texts.items())],
    }


class Measurer:
    """Runs commands of one binary, and prints each with the seconds that it took."""

    def __init__(self, lacuna, dirty=False, environment=None):
        self._lacuna = Path(lacuna).resolve()
        self._environment = {**os.environ, **(environment or {}), "LACUNA": str(self._lacuna)}
        self._dirty, self._origin = dirty, None

    def __call__(self, command):
        """The row of one run: command, machine, commit and result."""
        row = {"command": command, **self.origin()}
        print(f"  {command}", end="", file=sys.stderr, flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            row |= self._result(command, Path(folder))
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr)
        return row

    def origin(self):
        """Machine and commit of the rows. BookError where the commit is unclean and --dirty was not given."""
        if self._origin is None:
            unclean = unclean_files()
            if unclean and not self._dirty:
                raise BookError(f"rows of an unclean commit are not recorded; commit, or give --dirty:\n{unclean}")
            commit = printed(["git", "describe", "--always"]) or "unknown"
            version = printed([self._lacuna, "--version"], env=self._environment)  # "lacuna 0.2.0 (amx; devices: cpu)"
            self._origin = {
                "machine": {"processor": processor_name(), "cores": os.cpu_count(),
                            "instructions": version.rpartition("(")[2].rstrip(")").partition(";")[0] or "unknown"},
                "commit": commit + ("-dirty" if unclean else ""),
            }
        return self._origin

    def _result(self, command, folder):
        if command.startswith("lacuna run "):
            trace = folder / "trace.jsonl"
            self._shell(command.replace("--trace trace.jsonl", f"--trace {trace}"), folder)
            prompt_length, result = trace_result(trace.read_text(encoding="utf-8").splitlines())
            return {"prompt_length": prompt_length, "result": result}
        answers = folder / "answers.jsonl"
        words = command.replace("--out answers.jsonl", f"--out {answers}")
        if command.startswith(JSON_COMMANDS) and " --json" not in command:
            words += " --json"
        lines = self._shell(words, folder).splitlines()
        if command.startswith("lacuna analyze "):
            return {"result": {"tables": cells_by_head(lines)}}
        # `lacuna inspect` prints one object on many lines, the others print it on the last one.
        result = json.loads(lines[-1] if lines[-1].startswith("{") else "\n".join(lines))
        if not command.startswith("lacuna eval "):
            return {"result": result}
        result = only_turn(result)
        if answers.exists():
            result["answers"] = fingerprints(answers)
        return {"seed": result["settings"].get("seed", 0), "result": result,
                "row_ratio_by_step": result.pop("row_ratio_by_step", [])}

    def _shell(self, command, folder):
        """Standard output of a command. `mktemp` in it uses `folder`, and `lacuna tune` keeps its log there: the log of an
        earlier tuning would stand in for the runs that are to be measured."""
        program, _, rest = command.partition(" ")
        words = f'"$LACUNA" {rest}' if program == "lacuna" else command
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, errors="replace", cwd=ROOT,
                              check=False, env={**self._environment, "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder)})
        if done.returncode != 0 or not (done.stdout.strip() or program == "lacuna"):
            reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise CommandError(command, reason, done.returncode)
        return done.stdout
