"""Pages: a Markdown file with placeholders, and the functions that fill them.

A page NAME has its prose in pages/NAME.md and its functions in NAME.py, marked @table, @figure, @value or @condition.
Every function takes a Run, and further words of its placeholder as strings:

    {{ table speed }}         Markdown table of speed(run), which returns (head, rows) or a list of such tables
    {{ table settings sdar }} the same of settings(run, "sdar")
    {{ figure speed }}        speed(run) returns (title, figure), of matplotlib; it becomes NAME_speed.svg
    {{ commands speed }}      list of the commands whose rows table speed(run) shows
    {{ value rows_saved }}    text of rows_saved(run), or the entry rows_saved of the page's grid
    {{ if has_shapes }} ... {{ end }}   what is between them, where has_shapes(run) is true

The values machines and commits are those of all rows that the page uses.
"""
import importlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import text
from errors import BookError
from evaluation import Evaluation
from rows import MissingRow, Rows, replace_lines

PROSE = Path(__file__).resolve().parent / "pages"
PLACEHOLDER = re.compile(r"\{\{ *(\w+)((?: +[^\s{}]+)*) *\}\}")
BLOCK = re.compile(r"\{\{ *if +(\w+) *\}\}\n(.*?)\{\{ *end *\}\}\n", re.DOTALL)
ORIGINS = ("machines", "commits")

# Models that were trained again, and the commits whose rows are of the models before.
RETRAINED = re.compile(r"mini-(llada|dream|sdar|qwen)(?![\w-])")
BEFORE_RETRAINING = frozenset(
    "0e548bb 1273b53 16e6d83 184d315 1f86e85 2257c17 25b6f43 38443be 40c23c2 4bbd135 5eeb519 635f230 66daa49 80c694d 84da730 "
    "92a1475 aaad8cd be81807 df7dcd2 edbebb6 f76603e ff5065b".split())
RETRAINED_NOTE = (" (mini-llada, mini-dream, mini-sdar and mini-qwen were trained again since; `git checkout COMMIT -- models` brings "
                  "back those of a row)")


def table(function):
    """Marks a function that returns (head, rows), or a list of such tables."""
    function.kind = "table"
    return function


def value(function):
    """Marks a function that returns text."""
    function.kind = "value"
    return function


def condition(function):
    """Marks a function that says whether a part of the page is there."""
    function.kind = "if"
    return function


def figure(file=None):
    """Marks a function that returns (title, figure). `file`: its name, "{}" for the placeholder's argument."""
    def mark(function):
        function.kind, function.file = "figure", file
        return function
    return mark


@dataclass(frozen=True)
class Page:
    """A page and where it is written."""
    name: str  # of the rows: NAME.jsonl
    module: str = ""  # with its functions; default: as the page
    file: str = ""  # default: NAME.md
    folder: str = "docs/results"
    borrows: tuple = ()  # pages whose rows it uses as well
    environment: dict = field(default_factory=dict)  # of its commands
    measured_by: str = ""  # the command of tools/results that measures its rows, where the page's own name does not

    @property
    def code(self):
        """The module with the functions and the grid of the page."""
        return importlib.import_module(self.module or self.name)

    @property
    def prose(self):
        """The Markdown file with the placeholders."""
        return PROSE / f"{self.module or self.name}.md"

    @property
    def markdown(self):
        """Name of the file that is written."""
        return self.file or f"{self.name}.md"


PAGES = {page.name: page for page in (
    Page("server"),
    Page("shapes"),
    Page("mixtures"),
    Page("cpu"),
    Page("cpu_avx2", module="cpu", environment={"LACUNA_ISA": "avx2"}),
    Page("cpu_avx512", module="cpu", environment={"LACUNA_ISA": "avx512"}),
    Page("gpu"),
    Page("frontier", file="README.md"),
    Page("masked"),
    Page("lock"),
    Page("weak_guide"),
    Page("refusion"),
    Page("locality"),
    Page("drift"),
    Page("mage"),
    Page("uniform"),
    Page("zoo"),
    Page("tune"),
    Page("real_text", measured_by="real-text"),
    Page("claims", borrows=("masked", "lock", "weak_guide", "refusion", "uniform", "mage", "frontier", "shapes")),
)}


def grid_of(page, quick):
    """The settings of a page: FULL, and for --quick what QUICK replaces."""
    return SimpleNamespace(**(page.code.FULL | (page.code.QUICK if quick else {})))


class Run:
    """Input of the functions of a page: `grid`, the page's settings, and the rows of its commands."""

    def __init__(self, page, rows, quick=False, turn=1):
        self.page, self.grid = page, grid_of(page, quick)
        self._rows, self._turn = rows, turn
        self.machines, self.commits = set(), set()
        self.is_retrained = False  # a row is of a model that was trained again since
        self._asked = []  # commands in order

    def row(self, command, timed=False):
        """The row of a command. `timed`: its times matter, so that it is run once in each turn."""
        row = self._rows.row(command, self._turn if timed else 1)
        if command not in self._asked:
            self._asked.append(command)
        machine = row["machine"]
        self.machines.add(f'{machine["processor"]}, {machine["cores"]} cores, {machine["instructions"]}')
        self.commits.add(row["commit"])
        self.is_retrained |= row["commit"] in BEFORE_RETRAINING and bool(RETRAINED.search(command))
        return row

    def commands_of(self, function, *words):
        """Commands whose rows a function uses, in order."""
        before, self._asked = self._asked, []
        function(self, *words)
        found, self._asked = self._asked, before
        return found

    def of_kind(self, kind):
        """Rows of a kind."""
        return [row for row in self._rows.kinds if row["kind"] == kind]

    def known(self):
        """Rows that need no measuring, of all commands of the page's file."""
        return self._rows.known()

    def result(self, command):
        """Output of a command."""
        return self.row(command)["result"]

    def evaluate(self, command, timed=False):
        """Figures of `lacuna eval`."""
        return Evaluation(self.row(command, timed))

    def tables(self, command):
        """Tables of `lacuna analyze`: objects with "head" and "rows"."""
        return self.result(command)["tables"]

    def analysis(self, command):
        """Markdown of all tables of `lacuna analyze`, and its command."""
        tables = [text.table(found["head"], [[text.cell(each) for each in row] for row in found["rows"]])
                  for found in self.tables(command)]
        return "\n\n".join([*tables, text.code(command)])


class Template:
    """The prose of a page and the functions of its placeholders."""

    def __init__(self, page):
        self._page, self._prose = page, page.prose.read_text(encoding="utf-8")
        self._functions = {(found.kind, name): found for name, found in vars(page.code).items()
                           if hasattr(found, "kind")}
        self._used = set()

    def check(self):
        """BookError where a placeholder is unknown, or a function is in no placeholder."""
        used = {("if", name) for name, _ in BLOCK.findall(self._prose)}
        used |= {(kind, words.split()[0]) for kind, words in PLACEHOLDER.findall(BLOCK.sub(r"\2", self._prose))
                 if words}
        grid = set(self._page.code.FULL) | set(ORIGINS)
        known = set(self._functions) | {("value", name) for name in grid}
        known |= {("commands", name) for kind, name in self._functions if kind == "table"}
        unknown = [key for key in used if key not in known]
        if unknown:
            raise BookError(f"{self._page.prose.name}: unknown placeholders: {listed(unknown)}; "
                            f"{self._page.code.__name__}.py has: {listed(self._functions)}")
        unused = set(self._functions) - used
        if unused:
            raise BookError(f"{self._page.prose.name}: no placeholder uses: {listed(unused)}")

    def render(self, run):
        """Files of the page: name -> Markdown, or a figure."""
        files = {}
        prose = BLOCK.sub(lambda block: block[2] if self._functions["if", block[1]](run) else "", self._prose)
        filled = PLACEHOLDER.sub(lambda found: self._fill(found, run, files), prose)
        origins = {"machines": run.machines, "commits": run.commits}  # complete only now
        notes = {"commits": RETRAINED_NOTE if run.is_retrained else ""}
        filled = PLACEHOLDER.sub(
            lambda found: "; ".join(sorted(origins[found[2].strip()])) + notes.get(found[2].strip(), ""), filled)
        return {self._page.markdown: filled, **files}

    def _fill(self, found, run, files):
        kind, (name, *words) = found[1], found[2].split()
        if kind == "value" and name in ORIGINS:
            return found[0]
        function = self._functions.get(("table" if kind == "commands" else kind, name))
        if kind == "commands":
            return "\n".join(f"- {text.code(command)}" for command in run.commands_of(function, *words))
        if function is None:
            return str(getattr(run.grid, name))
        try:
            made = function(run, *words)
        except MissingRow as error:
            raise MissingRow(f"{kind} {' '.join([name, *words])}: {error}") from error
        if kind == "table":
            return "\n\n".join(text.table(*each) for each in (made if isinstance(made, list) else [made]))
        if kind == "value":
            return str(made)
        title, drawn = made
        file = (function.file or "{}").format(*words) if function.file else "_".join([run.page.name, name, *words])
        files[f"{file}.svg"] = drawn
        return f"![{title}]({file}.svg)"


def listed(keys):
    """("table", "speed"), ... -> "table speed, ..."."""
    return ", ".join(sorted(" ".join(key) for key in keys)) or "none"


def make_page(page, folder, measure=None, quick=False):
    """Renders a page from its rows, measuring what is missing: file name -> Markdown, or a figure."""
    template = Template(page)
    template.check()
    path = folder / f"{page.name}.jsonl"
    if measure and hasattr(page.code, "measure"):
        replace_lines(path, page.code.measure(measure, grid_of(page, quick)))
    known = Rows(path, [folder / f"{name}.jsonl" for name in page.borrows], measure)
    # Turn by turn through the whole page, so that a busy minute of the machine does not hit all runs of a setting.
    turns = page.code.FULL.get("turns", 1) if measure and not quick else 1
    for turn in range(1, turns + 1):
        files = template.render(Run(page, known, quick, turn))
    return files
