"""Runs the commands of a page's rows again, and compares all that is not a timing."""
import random
from dataclasses import dataclass, field
from pathlib import Path

from errors import BookError
from rows import read_lines
from timings import is_pure_timing, is_timing, same_machine

COMPARED = ("result", "seed", "prompt_length", "row_ratio_by_step")  # of a row; the others say where it was measured
MOST_SHOWN = 5  # values that differ, of each row
WIDTH = 60  # characters of a value
OTHER_MACHINES = "of other machines"


@dataclass
class Comparison:
    """Values of a recorded row and of a second run."""
    command: str
    differences: list = field(default_factory=list)  # (path, recorded, found)
    figures: int = 0  # compared
    timings: int = 0  # left out
    added: int = 0  # keys that only the second run has: a later version prints them

    def compare(self, recorded, found, path):
        """Compares two values of JSON exactly, and counts what they hold."""
        if isinstance(recorded, dict) and isinstance(found, dict):
            self._compare_objects(as_columns(recorded), as_columns(found), path)
        elif isinstance(recorded, list) and isinstance(found, list):
            self._compare_leaves(len(recorded), len(found), f"{path}.length")
            for index, pair in enumerate(zip(recorded, found)):
                self.compare(*pair, f"{path}[{index}]")
        else:
            self._compare_leaves(recorded, found, path)

    def _compare_objects(self, recorded, found, path):
        self.added += sum(key not in recorded and not is_timing(key, self.command) for key in found)
        for key, value in recorded.items():
            inner = f"{path}.{key}" if path else key
            if is_timing(key, self.command):
                self.timings += leaves(value)
            elif key in found:
                self.compare(value, found[key], inner)
            else:
                self._compare_leaves(value, "nothing", inner)

    def _compare_leaves(self, recorded, found, path):
        self.figures += 1
        if recorded != found:
            self.differences.append((path, recorded, found))

    def text(self, row):
        """The values that differ, with the command and the commit of the row."""
        lines = [f'`{self.command}` (recorded at commit {row["commit"]})']
        for path, recorded, found in self.differences[:MOST_SHOWN]:
            lines.append(f"  {path}: {shown(recorded, found)} recorded, {shown(found, recorded)} now")
        if len(self.differences) > MOST_SHOWN:
            lines.append(f"  and {len(self.differences) - MOST_SHOWN} more values")
        return "\n".join(lines)


def as_columns(value):
    """A table of `lacuna analyze` with the names of its columns in each row; other objects as they are."""
    if value.keys() != {"head", "rows"}:
        return value
    return {"head": value["head"], "rows": [dict(zip(value["head"], row)) for row in value["rows"]]}


def leaves(value):
    """How many numbers, texts and truth values a value of JSON holds."""
    if isinstance(value, dict):
        return sum(map(leaves, value.values()))
    return sum(map(leaves, value)) if isinstance(value, list) else 1


def shown(value, other):
    """A value in a message; of a long text, what follows its first difference from the other value."""
    text, other = (each if isinstance(each, str) else repr(each) for each in (value, other))
    start = 0
    if len(text) > WIDTH:
        start = next((index for index, pair in enumerate(zip(text, other)) if len(set(pair)) > 1),
                     min(len(text), len(other)))
    return ("..." if start else "") + text[start:start + WIDTH] + ("..." if start + WIDTH < len(text) else "")


def compare_rows(recorded, found):
    """Comparison of a recorded row with the row of a second run."""
    made = Comparison(recorded["command"])
    kept = ({key: row[key] for key in COMPARED if key in row} for row in (recorded, found))
    made.compare(*kept, "")
    return made


@dataclass(frozen=True)
class Choice:
    """Which rows of a page are compared."""
    rows: int = 0  # a sample of this many rows; 0: all
    seed: int = 0  # of the sample
    any_machine: bool = False  # rows of other machines, too


def choose(rows, machine, choice):
    """The rows to compare in their order, and how many were left out for each reason."""
    compared = [row for row in rows if not is_pure_timing(row)]
    found = [row for row in compared if choice.any_machine or same_machine(row["machine"], machine)]
    left_out = {"of timings": len(rows) - len(compared), OTHER_MACHINES: len(compared) - len(found)}
    if 0 < choice.rows < len(found):
        chosen = sorted(random.Random(choice.seed).sample(range(len(found)), choice.rows))
        left_out["outside the sample"] = len(found) - choice.rows
        found = [found[index] for index in chosen]
    return found, left_out


def repeat(path: Path, measure, choice=Choice()):
    """Runs the commands of a .jsonl file again and prints what differs. Returns whether all is the same.

    `measure(command)` returns the row of a run, `measure.origin()` the machine; nothing is recorded. BookError where
    no row can be compared, which would prove nothing.
    """
    machine = measure.origin()["machine"]
    if machine["instructions"] == "unknown":
        raise BookError("the binary does not run: its --version names no instruction set; --lacuna FILE chooses another")
    rows, left_out = choose(read_lines(path), machine, choice)
    reasons = ", ".join(f"{counted(count, 'row')} {reason}" for reason, count in left_out.items() if count)
    if not rows:
        more = "; --any-machine compares those of other machines" if left_out[OTHER_MACHINES] else ""
        raise BookError(f"no row of {path} can be compared ({reasons or 'it has none'}){more}")
    runs, compared, failed = {}, [], 0
    for row in rows:
        command = row["command"]
        try:
            if command not in runs:
                runs[command] = measure(command)
        except BookError as error:
            print(f"{error} (recorded at commit {row['commit']})")
            failed += 1
            continue
        compared.append(compare_rows(row, runs[command]))
        if compared[-1].differences:
            print(compared[-1].text(row))
    print(closing_line(path.stem, compared, failed, reasons))
    return failed == 0 and not any(each.differences for each in compared)


def counted(count, noun):
    """"1 row", "2 rows"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def closing_line(name, compared, failed, reasons):
    """The last line: rows and figures compared, rows with differences, and everything left out."""
    differing = sum(bool(each.differences) for each in compared)
    figures, timings, added = (sum(getattr(each, key) for each in compared) for key in ("figures", "timings", "added"))
    verdict = f"{counted(differing, 'row')} with differences" if differing else "no differences"
    left_out = [counted(timings, "timing"), f"{counted(added, 'key')} that the recorded rows lack" if added else "", reasons]
    return (f"{name}: compared {counted(len(compared), 'row')} with {counted(figures, 'figure')}, {verdict}"
            + (f", {counted(failed, 'row')} failed" if failed else "")
            + f"; left out: {', '.join(filter(None, left_out))}")
