"""Raw rows: one line of JSON for each run of a command, kept in docs/results/NAME.jsonl."""
import copy
import json

from errors import BookError
from timings import FASTEST


class MissingRow(BookError):
    """A command that no row of the file has."""


def read_lines(path):
    """Objects of a .jsonl file, in order; none where the file does not exist."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise BookError(f"{path}, line {number}: not JSON: {error}") from error
    return rows


def append_line(path, row):
    """Appends an object to a .jsonl file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def replace_lines(path, rows):
    """Writes a .jsonl file anew, when all of its rows are there."""
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")


class Rows:
    """The rows of a page by command.

    A command that was run several times has the row of its first run, with the times of the fastest one: other
    programs only ever slow a run down; "runs" of the row are the processor times of all of them. `measure(command)` returns the row of a missing run; without it, a missing
    row is an error.
    """

    def __init__(self, path, borrowed=(), measure=None):
        self._path, self._measure = path, measure
        self._rows, self._runs = {}, {}
        self.kinds = []  # rows with a kind: those of a page that is measured as a whole
        for file in (path, *borrowed):
            for row in read_lines(file):
                self.kinds.append(row) if "kind" in row else self._take(row, file)

    def runs(self, command):
        """How many runs of the command are known."""
        return self._runs.get(command, 0)

    def known(self):
        """The row of each known command, in the order of the file."""
        return list(self._rows.values())

    def row(self, command, runs=1):
        """The row of a command, after measuring what is missing to `runs` runs."""
        while self._measure and self.runs(command) < runs:
            row = self._measure(command)
            append_line(self._path, row)
            self._take(row, self._path)
        if command not in self._rows:
            raise MissingRow(f"{self._path.name} has no row of `{command}`")
        return self._rows[command]

    def _take(self, row, path):
        try:
            command, result = row["command"], row["result"]
        except KeyError as error:
            raise BookError(f"{path}: a row has no key {error}") from error
        self._runs[command] = self.runs(command) + 1
        if command not in self._rows:
            self._rows[command] = copy.deepcopy(row) | {"runs": []}
        known = self._rows[command]
        if isinstance(result, dict) and "processor_seconds" in result:
            known["runs"].append(result["processor_seconds"])
        fastest = known["result"]
        for key in FASTEST:
            if key in fastest:
                fastest[key] = min(fastest[key], result[key])
