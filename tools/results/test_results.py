"""Tests of the results book on synthetic rows; nothing is measured."""
import contextlib
import importlib.util
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import book  # noqa: E402
import claim  # noqa: E402
import claims  # noqa: E402
import drift  # noqa: E402
import figures  # noqa: E402
import frontier  # noqa: E402
import gpu  # noqa: E402
import headlines  # noqa: E402
import mage  # noqa: E402
import masked  # noqa: E402
import measure  # noqa: E402
import repeat  # noqa: E402
import step_times  # noqa: E402
import text  # noqa: E402
import timings  # noqa: E402
import uniform  # noqa: E402
from errors import BookError  # noqa: E402
from evaluation import Evaluation, difference  # noqa: E402
from rows import MissingRow, Rows  # noqa: E402


NEEDS_FIGURES = unittest.skipIf(figures.MISSING, f"needs numpy and matplotlib: {figures.MISSING}")


def load_command_line():
    """The module behind `python3 tools/results`."""
    path = Path(__file__).resolve().parent / "__main__.py"
    spec = importlib.util.spec_from_file_location("results_main", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(command="lacuna bench step --json", seconds=2.0, commit="abc", **result):
    """A synthetic raw row."""
    return {"command": command, "machine": {"processor": "P", "cores": 2, "instructions": "avx2"},
            "commit": commit, "result": {"seconds": seconds, **result}}


class Folder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, *rows):
        """Writes a .jsonl file."""
        path = self.folder / name
        path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
        return path


class RowsTest(Folder):
    def test_fastest_times_of_the_first_row(self):
        rows = Rows(self.write("a.jsonl", row(seconds=3.0, x=1), row(seconds=2.0, x=2)))
        self.assertEqual(rows.row("lacuna bench step --json")["result"], {"seconds": 2.0, "x": 1})

    def test_borrowed_rows_count(self):
        rows = Rows(self.folder / "none.jsonl", [self.write("b.jsonl", row())])
        self.assertEqual(rows.runs("lacuna bench step --json"), 1)

    def test_missing_row_is_an_error_without_measuring(self):
        with self.assertRaisesRegex(MissingRow, "a.jsonl has no row of `x`"):
            Rows(self.write("a.jsonl")).row("x")

    def test_missing_runs_are_measured_and_kept(self):
        path = self.write("a.jsonl", row("x"))
        rows = Rows(path, measure=lambda command: row(command, seconds=1.0))
        self.assertEqual(rows.row("x", 3)["result"]["seconds"], 1.0)
        self.assertEqual(Rows(path).runs("x"), 3)

    def test_bad_line_is_named(self):
        path = self.write("a.jsonl", row())
        path.write_text(path.read_text() + "{\n")
        with self.assertRaisesRegex(BookError, "line 2"):
            Rows(path)


class PageTest(Folder):
    """A page made of synthetic functions."""

    PROSE = "# T\n\n{{ value machines }} {{ value commits }} {{ value size }}\n\n{{ table speed a }}\n"

    def page(self, prose=PROSE):
        @book.table
        def speed(run, name):
            return ["name", "seconds"], [[name, run.result("x")["seconds"]]]

        @book.value
        def unused(_run):
            return "never"

        (self.folder / "t.md").write_text(prose)
        module = SimpleNamespace(__name__="t", FULL={"size": 7}, QUICK={"size": 1}, speed=speed)
        if "unused" in prose:
            module.unused = unused
        self.module = module
        return SimpleNamespace(name="t", code=module, prose=self.folder / "t.md", markdown="t.md", borrows=())

    def test_placeholders_are_filled(self):
        self.write("t.jsonl", row("x"))
        made = book.make_page(self.page(), self.folder)
        self.assertEqual(made["t.md"],
                         "# T\n\nP, 2 cores, avx2 abc 7\n\n| name | seconds |\n| --- | --- |\n| a | 2.0 |\n")

    def test_commits_of_models_that_were_trained_again(self):
        command = "lacuna eval -m mini-sdar --task chat"
        self.write("t.jsonl", row("x") | {"commit": "df7dcd2"})
        self.assertNotIn("trained again", book.make_page(self.page(), self.folder)["t.md"])
        page = self.page("{{ value commits }} {{ table speed a }}")
        page.code.speed = book.table(lambda run, name: (["name"], [[run.row(command)["commit"]]]))
        for commit, noted in (("df7dcd2", True), ("abc", False)):
            self.write("t.jsonl", row("x") | {"command": command, "commit": commit})
            self.assertEqual(noted, f"{commit}{book.RETRAINED_NOTE}" in book.make_page(page, self.folder)["t.md"])

    def test_unknown_placeholder(self):
        with self.assertRaisesRegex(BookError, "unknown placeholders: table sped"):
            book.make_page(self.page("{{ table sped }}{{ table speed a }}"), self.folder)

    def test_unused_function(self):
        page = self.page("{{ table speed a }} {{ value unused }}")
        page.prose.write_text("{{ table speed a }}")
        with self.assertRaisesRegex(BookError, "no placeholder uses: value unused"):
            book.make_page(page, self.folder)

    def test_missing_row_names_the_placeholder(self):
        with self.assertRaisesRegex(MissingRow, "table speed a: t.jsonl has no row of `x`"):
            book.make_page(self.page(), self.folder)

    def test_commands_of_a_table_are_listed(self):
        self.write("t.jsonl", row("x"))
        made = book.make_page(self.page("{{ table speed a }}\n\n{{ commands speed a }}\n"), self.folder)
        self.assertEqual(made["t.md"], "| name | seconds |\n| --- | --- |\n| a | 2.0 |\n\n- `x`\n")
        with self.assertRaisesRegex(BookError, "unknown placeholders: commands sped"):
            book.make_page(self.page("{{ table speed a }}{{ commands sped }}"), self.folder)

    def test_blocks_follow_their_condition(self):
        for is_there, expected in ((True, "a\nb\n"), (False, "a\n")):
            page = self.page("a\n{{ if shown }}\nb\n{{ end }}\n")
            page.code.speed = None
            page.code.shown = book.condition(lambda run, answer=is_there: answer)
            self.assertEqual(book.make_page(page, self.folder)["t.md"], expected)


class MeasureTest(unittest.TestCase):
    def test_unclean_commit_is_refused(self):
        with mock.patch.object(measure, "unclean_files", return_value=" M src/a.cpp"):
            with self.assertRaisesRegex(BookError, "unclean"):
                measure.Measurer("lacuna").origin()
            self.assertTrue(measure.Measurer("lacuna", dirty=True).origin()["commit"].endswith("-dirty"))

    def test_rows_with_the_same_keys_are_one_table(self):
        lines = ['{"instrument": "drift", "model": "m", "a": 1}', '{"a": 2}', '{"b": 3}']
        self.assertEqual(measure.cells_by_head(lines),
                         [{"head": ["a"], "rows": [[1], [2]]}, {"head": ["b"], "rows": [[3]]}])

    def test_no_run_finds_the_cache_of_an_earlier_one(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "lacuna"  # prints how many files its cache has, and leaves one there
            program.write_text('#!/bin/sh\necho "{\\"known\\": $(ls "$XDG_CACHE_HOME" | wc -l)}"\n'
                               'touch "$XDG_CACHE_HOME/log"\n')
            program.chmod(0o755)
            measurer = measure.Measurer(program, dirty=True, environment={"XDG_CACHE_HOME": folder})
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual([measurer("lacuna tune -m m")["result"] for _ in range(2)], [{"known": 0}] * 2)

    def test_trace_keeps_passes_and_texts(self):
        lines = ['{"request": 0, "prompt_tokens": 5, "canvas": []}',
                 '{"request": 0, "rows": [1], "pieces": {"7": "x"}}', '{"request": 1, "rows": []}']
        self.assertEqual(measure.trace_result(lines),
                         (5, {"trace": [{"request": 0, "rows": [1]}], "texts": [{"token": 7, "text": "x"}]}))


class TimingsTest(unittest.TestCase):
    def test_keys_of_times_are_timings(self):
        for key in ("seconds", "processor_seconds", "pass_seconds", "seconds_min", "baseline_seconds",
                    "first_use_seconds_median", "tokens_per_second", "canvas_tokens_per_second"):
            self.assertTrue(timings.is_timing(key, "lacuna eval -m m"), key)
        for key in ("accuracy", "rows", "layer_flops", "bytes", "steps_mean", "tokens_per_forward", "attention", "share"):
            self.assertFalse(timings.is_timing(key, "lacuna eval -m m"), key)

    def test_some_keys_are_timings_of_a_bench_alone(self):
        for key in ("time_ratio", "speedup", "attention", "peak_bytes", "isa"):
            self.assertTrue(timings.is_timing(key, "lacuna bench decode -m m"), key)
        self.assertFalse(timings.is_timing("flops_ratio", "lacuna bench decode -m m"))
        self.assertFalse(timings.is_timing("out", "lacuna eval -m m"))

    def test_rows_of_timings_alone(self):
        self.assertTrue(timings.is_pure_timing({"kind": "steps", "command": "lacuna eval -m m"}))
        self.assertTrue(timings.is_pure_timing({"command": "lacuna bench step -m m --json"}))
        self.assertTrue(timings.is_pure_timing({"command": "python3 bench/serve_load.py --json"}))
        for command in ("lacuna bench decode -m m --json", "python3 bench/step_times.py -m m --json"):
            self.assertFalse(timings.is_pure_timing({"command": command}))

    def test_cores_do_not_make_another_machine(self):
        machine = {"processor": "P", "cores": 2, "instructions": "avx2"}
        self.assertTrue(timings.same_machine(machine, machine | {"cores": 64}))
        self.assertFalse(timings.same_machine(machine, machine | {"instructions": "avx512"}))
        self.assertFalse(timings.same_machine(machine, machine | {"processor": "Q"}))


class RepeatTest(Folder):
    """`repeat` of a file of rows with a lacuna that prints what it was given."""

    COMMAND = "lacuna eval -m {}"
    RESULT = {"accuracy": 0.1 + 0.2, "seconds": 1.5, "tokens_per_second": 4.0, "texts": "ab", "settings": {"seed": 0}}

    def fake(self, instructions="avx2", **models):
        """Binary that prints these results, by model; each answer of `lacuna eval` is one line of JSON."""
        program = self.folder / "lacuna"
        cases = "".join(f"*' -m {name} '*) echo '{json.dumps(result)}';;\n" for name, result in models.items())
        program.write_text(f"""#!/bin/sh
[ "$1" = --version ] && {{ echo "lacuna 1.0 ({instructions}; devices: cpu)"; exit; }}
case " $* " in\n{cases}*) echo "no such model" >&2; exit 1;;\nesac\n""")
        program.chmod(0o755)
        return program

    def recorded(self, model="m", more=None, **machine):
        """A row as it was recorded."""
        row = {"command": self.COMMAND.format(model), "commit": "abc", "seed": 0, "result": self.RESULT | (more or {}),
               "machine": {"processor": measure.processor_name(), "cores": 1, "instructions": "avx2"} | machine,
               "row_ratio_by_step": []}
        return row

    def repeat(self, program, *rows, **choice):
        """(whether all is the same, what was printed)."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            same = repeat.repeat(self.write("page.jsonl", *rows), measure.Measurer(program, dirty=True),
                                 repeat.Choice(**choice))
        return same, printed.getvalue()

    def test_other_times_are_the_same_figures(self):
        program = self.fake(m=self.RESULT | {"seconds": 9.0, "tokens_per_second": 1.0})
        self.assertEqual(self.repeat(program, self.recorded()), (True, (
            "page: compared 1 row with 5 figures, no differences; left out: 2 timings\n")))

    def test_the_last_bit_of_a_figure_differs(self):
        same, printed = self.repeat(self.fake(m=self.RESULT | {"accuracy": 0.3}), self.recorded())
        self.assertFalse(same)
        self.assertEqual(printed.splitlines(), [
            "`lacuna eval -m m` (recorded at commit abc)",
            "  result.accuracy: 0.30000000000000004 recorded, 0.3 now",
            "page: compared 1 row with 5 figures, 1 row with differences; left out: 2 timings"])

    def test_a_key_that_is_gone_differs_and_a_new_one_is_counted(self):
        found = {key: value for key, value in self.RESULT.items() if key != "texts"} | {"sparse_rows": 0}
        same, printed = self.repeat(self.fake(m=found), self.recorded())
        self.assertFalse(same)
        self.assertIn("  result.texts: ab recorded, nothing now\n", printed)
        self.assertIn("left out: 2 timings, 1 key that the recorded rows lack", printed)

    def test_lists_of_other_lengths_differ(self):
        program = self.fake(m=self.RESULT | {"row_ratio_by_step": [1.0]})
        same, printed = self.repeat(program, self.recorded())
        self.assertFalse(same)
        self.assertIn("row_ratio_by_step.length: 0 recorded, 1 now", printed)

    def test_columns_of_a_table_are_named_and_those_of_times_left_out(self):
        recorded = {"tables": [{"head": ["step", "error", "seconds"], "rows": [[1, 0.5, 2.0]]}]}
        found = {"tables": [{"head": ["step", "error", "seconds"], "rows": [[1, 0.25, 3.0]]}]}
        made = repeat.compare_rows({"command": "lacuna analyze x", "result": recorded}, {"result": found})
        self.assertEqual(made.differences, [("result.tables[0].rows[0].error", 0.5, 0.25)])
        self.assertEqual(made.timings, 1)

    def test_long_texts_are_shown_where_they_differ(self):
        self.assertEqual(repeat.shown("a" * 70 + "b", "a" * 70 + "c"), "...b")
        self.assertEqual(repeat.shown("a" * 70, "a" * 70 + "c"), "...")
        self.assertEqual(repeat.shown(0.5, 0.25), "0.5")

    def test_rows_of_other_machines_and_of_timings_are_left_out(self):
        rows = [self.recorded(), self.recorded(processor="Q"), self.recorded(instructions="avx512"),
                self.recorded() | {"command": "lacuna bench step -m m"}]
        same, printed = self.repeat(self.fake(m=self.RESULT), *rows)
        self.assertTrue(same)
        self.assertIn("compared 1 row", printed)
        self.assertIn("1 row of timings, 2 rows of other machines", printed)
        self.assertIn("compared 3 rows", self.repeat(self.fake(m=self.RESULT), *rows, any_machine=True)[1])

    def test_nothing_to_compare_is_an_error(self):
        with self.assertRaisesRegex(BookError, "1 row of other machines.; --any-machine"):
            self.repeat(self.fake(m=self.RESULT), self.recorded(processor="Q"))
        with self.assertRaisesRegex(BookError, "does not run"):
            self.repeat(self.folder / "none", self.recorded())

    def test_a_sample_follows_its_seed(self):
        models = [f"m{number}" for number in range(20)]
        program, rows = self.fake(**{name: self.RESULT for name in models}), [self.recorded(name) for name in models]
        chosen = [[row["command"] for row in repeat.choose(rows, rows[0]["machine"], repeat.Choice(3, seed))[0]]
                  for seed in (0, 0, 1)]
        self.assertEqual(chosen[0], chosen[1])
        self.assertNotEqual(chosen[0], chosen[2])
        self.assertIn("compared 3 rows", self.repeat(program, *rows, rows=3)[1])
        self.assertIn("17 rows outside the sample", self.repeat(program, *rows, rows=3)[1])

    def test_a_failing_command_proves_nothing(self):
        same, printed = self.repeat(self.fake(m=self.RESULT), self.recorded(), self.recorded("gone"))
        self.assertFalse(same)
        self.assertIn("`lacuna eval -m gone --json` failed: no such model", printed)
        self.assertIn("compared 1 row with 5 figures, no differences, 1 row failed", printed)

    def test_runs_of_one_command_are_compared_with_one_run(self):
        same, printed = self.repeat(self.fake(m=self.RESULT), self.recorded(), self.recorded(more={"texts": "cd"}))
        self.assertFalse(same)
        self.assertIn("compared 2 rows", printed)
        self.assertIn("result.texts: cd recorded, ab now", printed)

    def test_exit_code_of_the_command_line(self):
        self.write("masked.jsonl", self.recorded())
        for accuracy, code in ((0.1 + 0.2, 0), (0.5, 1)):
            program = self.fake(m=self.RESULT | {"accuracy": accuracy})
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(load_command_line().main(
                    ["repeat", "masked", "--lacuna", str(program), "--out", str(self.folder)]), code)


class TextTest(unittest.TestCase):
    def test_table(self):
        self.assertEqual(text.table(["a", "b"], [[1, "x"]]), "| a | b |\n| --- | --- |\n| 1 | x |")

    def test_perplexity_has_its_interval_where_it_was_measured(self):
        old = SimpleNamespace(perplexity=1.5, perplexity_low=None, perplexity_high=None)
        new = SimpleNamespace(perplexity=1.5, perplexity_low=1.25, perplexity_high=1.75)
        self.assertEqual([text.perplexity(old), text.perplexity(new)], ["1.500", "1.500 (1.250 to 1.750)"])

    def test_cells(self):
        self.assertEqual([text.cell(each) for each in (0.123456, 3, None, "x", True)],
                         ["0.1235", "3", "-", "x", "true"])


class EvaluationTest(unittest.TestCase):
    RESULT = {"samples": 4, "accuracy": 0.5, "accuracy_low": 0.2, "accuracy_high": 0.8, "steps_mean": 3.0, "rows": 40,
              "row_ratio": 0.5, "layer_flops": 10.0, "seconds": 2.0, "processor_seconds": 4.0,
              "settings": {"gen-length": 8}}

    def evaluation(self, **more):
        """Figures of a synthetic row."""
        return Evaluation({"result": self.RESULT | more, "row_ratio_by_step": [1.0]})

    def test_per_sample(self):
        found = self.evaluation(layer_flops_uncached=40.0, tokens_per_forward=2.0)
        self.assertEqual((found.rows, found.seconds, found.processor_seconds), (10, 0.5, 1.0))
        self.assertEqual((found.flops_ratio, found.answer_tokens), (0.25, 6.0))
        self.assertEqual(text.accuracy(found), "50.0% (20.0 to 80.0)")

    def test_a_sparse_method_without_a_sparse_row_is_an_error(self):
        flops = {"layer_flops_uncached": 40.0}
        self.assertEqual(self.evaluation(sparse_rows=10, **flops).sparse_share, 0.25)
        for more in ({"sparse_rows": 0}, {}):
            with self.assertRaisesRegex(BookError, "computed no sparse pass"):
                mage.sparse_share("mage", self.evaluation(**more, **flops))
        self.assertEqual(mage.sparse_share("exact", self.evaluation(**flops)), "-")

    def test_difference_has_newcombes_interval(self):
        # Newcombe (1998), Table II, method 10: 56/70 against 48/80.
        def wilson(correct, samples):
            z, share = 1.959964, correct / samples
            middle, scale = share + z * z / (2 * samples), 1 + z * z / samples
            half = z * (share * (1 - share) / samples + z * z / (4 * samples ** 2)) ** 0.5
            return SimpleNamespace(accuracy=share, accuracy_low=(middle - half) / scale,
                                   accuracy_high=(middle + half) / scale)

        for found, expected in zip(difference(wilson(56, 70), wilson(48, 80)), (0.2, 0.0524, 0.3339)):
            self.assertAlmostEqual(found, expected, places=4)

    def test_rows_of_older_versions(self):
        self.assertEqual(self.evaluation(layer_flops_baseline=20.0).flops_ratio, 0.5)


class FrontierTest(unittest.TestCase):
    """Settings of sparse attention, whose runs have these sparse rows."""

    def labels(self, sparse_rows):
        settings = [("exact", ""), ("mage=16", "--sparse mage=16")]
        run = SimpleNamespace(grid=SimpleNamespace(families={"sdar": ("m", "", settings)}, samples=4),
                              evaluate=lambda command, timed: Evaluation({
                                  "command": command, "row_ratio_by_step": [],
                                  "result": EvaluationTest.RESULT | {"layer_flops_uncached": 1.0,
                                                                     "sparse_rows": sparse_rows}}))
        return [each.label for each in frontier.evaluate(run, "sdar")], frontier.left_out(run)

    def test_settings_that_never_began_are_left_out_and_named(self):
        self.assertEqual(self.labels(3), (["exact", "mage=16"], "none"))
        shown, left_out = self.labels(0)
        self.assertEqual(shown, ["exact"])
        self.assertIn("--sparse mage=16", left_out)


class VerdictTest(unittest.TestCase):
    """Additions on the page of masked models."""

    def test_what_loses_accuracy_does_not_help(self):
        good, bad = (SimpleNamespace(accuracy=share, accuracy_low=share - 0.02, accuracy_high=share + 0.02)
                     for share in (0.95, 0.7))
        self.assertEqual([masked.verdict(0.5, good, found) for found in (good, bad)],
                         ["helps", "faster, but less accurate"])
        self.assertEqual([masked.verdict(1.2, good, found) for found in (good, bad)],
                         ["costs more than it saves", "only costs: less accurate and not faster"])


class StepTimesTest(unittest.TestCase):
    """The time of each step without and with a lock."""

    @staticmethod
    def passes(*seconds, rows=2):
        """One decode: passes of these seconds, of `rows` rows."""
        return [{"seconds": each, "rows": list(range(rows)), "layer_flops": 3.0, "head_flops": 1.0} for each in seconds]

    def test_medians_of_repeats_are_summed_over_prompts(self):
        prompts = [[self.passes(1, 5), self.passes(9, 6), self.passes(2, 7)],
                   [self.passes(10, 20, rows=3), self.passes(30, 40, rows=3), self.passes(20, 10, rows=3)]]
        self.assertEqual(step_times.figures_of(prompts), {
            "rows": [5, 5], "flops": [8.0, 8.0], "seconds": [22, 26], "seconds_min": [11, 15]})

    def test_decodes_of_other_lengths_are_an_error(self):
        with self.assertRaises(ValueError):
            step_times.figures_of([[self.passes(1, 2)], [self.passes(1)]])

    def test_quarters_are_ratios_of_sums(self):
        plain = {"rows": [4] * 8, "flops": [6.0] * 8, "seconds": [0.004] * 8, "seconds_min": [0.003] * 8}
        locked = {"rows": [4, 4, 2, 2, 1, 1, 1, 1], "flops": [6.0, 6.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0],
                  "seconds": [0.006, 0.004, 0.002, 0.002, 0.001, 0.003, 0.001, 0.001], "seconds_min": [0.003] * 8}
        run = SimpleNamespace(grid=SimpleNamespace(**masked.FULL | {"lengths": (8,)}),
                              result=lambda command: {"samples": 1, "plain": plain, "setting": locked})
        rows = masked.step_speeds(run)[1]
        self.assertEqual(rows[0], [8, 1, "100.0%", "1.00×", "1.00×", "0.80×", "1.00×", "4.00", "5.00"])
        self.assertEqual(rows[2], [8, 3, "25.0%", "4.00×", "3.00×", "2.00×", "1.00×", "4.00", "2.00"])


class GpuTest(Folder):
    """The page of `make gpu-check`, from lines as it writes them."""

    COMMON = {"device": "D", "driver": "13.0", "cuda": "13.0", "commit": "abc"}
    LINES = (
        {"what": "device", "capability": "9.0"},
        {"what": "tests", "suite": "Stream", "passed": 1, "failed": ["Stream.Runs"]},
        {"what": "tests", "suite": "Graph", "passed": 40, "failed": []},
        {"what": "invariance", "kernel": "norm", "plans": 200, "rows": 9000, "different": 0},
        {"what": "sums", "depth": 512, "elements": 8192, "different": 3},
        {"what": "logits", "model": "random:llada-8b,layers=2", "dtype": "bf16", "rows": 16, "vocabulary": 126464,
         "difference": 0.0012, "largest_difference": 0.0034, "bound": 0.00704, "same_best": 15},
        {"what": "tokens", "model": "mini-llada", "dtype": "f32", "tokens": 16, "same": 16},
        {"what": "copy", "copy_gbs": 4000.0},
        {"what": "gap", "gap_us": 1.25},
        {"what": "product", "shape": "qkv", "format": "bf16", "rows": 1, "us": 20.0, "share_of_copy": 0.5, "library_us": 30.0},
        {"what": "product", "shape": "qkv", "format": "bf16", "rows": 32, "us": 25.0, "share_of_copy": 0.4},
        {"what": "attention", "shape": "sdar-8b", "cells": 1024, "rows": 32, "us": 9.0, "share_of_copy": 0.1},
        {"what": "statistics", "kernel": "drift", "rows": 32, "us": 12.0, "share_of_copy": 0.7},
        {"what": "model", "command": "lacuna bench step", "result": {"results": [
            {"rows": 32, "seconds_median": 0.005, "rows_per_second": 6400}]}},
        {"what": "cpu_threads", "processor": "P", "cores": 16, "result": {"isa": "amx", "by_threads": [
            {"threads": 16, "rows": 32, "seconds_median": 0.1, "speedup": 9.5}]}},
        {"what": "left_out", "check": "models", "why": "time was out"},
    )

    def page(self):
        return book.make_page(book.PAGES["gpu"], self.folder)["gpu.md"]

    def test_says_that_nothing_was_measured(self):
        page = self.page()
        self.assertIn("Not yet measured on a device", page)
        self.assertNotIn("## Peaks", page)

    def test_shows_what_was_measured(self):
        self.write("gpu.jsonl", *({"kind": line["what"], **self.COMMON, **line} for line in self.LINES))
        page = self.page()
        self.assertNotIn("Not yet measured", page)
        for line in ("| D | 13.0 | 13.0 | abc | 4000 GB/s | - | - | 1.25 µs |", "| D | kernel tests | 41 | 1 |",
                     "| D | `random:llada-8b,layers=2` | bf16 | 16 | 1.2e-03 | 3.4e-03 | 7.0e-03 | 15 of 16 |",
                     "| D | mini-llada | f32 | 16 | 16 |",
                     "| D | qkv | bf16 | 50.0% | 40.0% |", "| D | qkv | bf16 | 1.50× |", "| D | sdar-8b | 1024 | 9 µs, 10.0% |",
                     "| D | `lacuna bench step` | 32 | 5.00 ms | 6400 |", "| P | amx | 32 | 16 | 100.0 ms | 9.50× |",
                     "- D, models: time was out."):
            self.assertIn(line, page)

    def measured(self, kept, lines):
        """Rows that `python3 tools/results gpu` writes."""
        grid = SimpleNamespace(kept=self.write("kept.jsonl", *kept), lines=self.write("lines.jsonl", *lines))
        return list(gpu.measure(None, grid))

    def test_a_new_run_replaces_that_of_its_device(self):
        kept = [{"kind": "copy", "device": "D", "copy_gbs": 1}, {"kind": "copy", "device": "E", "copy_gbs": 2}]
        rows = self.measured(kept, [{"what": "plan", "steps": []}, self.COMMON | {"what": "copy", "copy_gbs": 3}])
        self.assertEqual([(row["device"], row["copy_gbs"]) for row in rows], [("E", 2), ("D", 3)])

    def test_figures_without_the_peaks_of_their_run_are_refused(self):
        with self.assertRaisesRegex(BookError, "no copy bandwidth"):
            self.measured([], [self.COMMON | {"what": "product"}])


class SyntheticRun:
    """Rows of every command that claims.py asks for, alike but for planted faults: {command: {key: value}}."""

    ACCURACY = {"accuracy": 0.9, "accuracy_low": 0.895, "accuracy_high": 0.905}
    LOCK = {"lock_of_request": 0, "steps_after": 3, "largest_contraction": 0.5}
    JUDGE = {"perplexity": 1.5, "perplexity_low": 1.4, "perplexity_high": 1.6}
    BENCH = {"time_ratio": 0.1, "flops_ratio": 0.05, "row_ratio": 0.2}
    GUIDE = {"guide bytes": 1.1e9}  # model and guide together; the model alone has 1e9
    RECALL = {"budget": 16, "recall": 0.8}
    BLOCKS = {"mage": (10.0, 1.0), "quest": (20.0, 1.0), "sparsed": (20.0, 1.0)}  # seconds, first over exact step

    def __init__(self, planted):
        self.planted, self.asked = planted, []
        self.grid = SimpleNamespace(**claims.FULL)

    def evaluate(self, command):
        """Figures of `lacuna eval`; the passes and rows of each command are its own."""
        number = self._number(command)
        found = EvaluationTest.RESULT | self.ACCURACY | {
            "samples": 1000, "rows": 100000 + number, "passes_mean": 10.0, "tokens_per_forward": 2.0, "layer_flops": 1e6 + number,
            "layer_flops_uncached": 1e6, "sparse_rows": 10, "judge": self.JUDGE}
        return Evaluation({"command": command, "result": found | self.planted.get(command, {}),
                           "row_ratio_by_step": [1.0]})

    def result(self, command):
        """Output of a bench, or of inspect."""
        self._number(command)
        if command.startswith("lacuna bench decode"):
            found = self.BENCH | self._fault(command, self.BENCH)
            # Repeated runs are within 1% of each other.
            return found | {"plain": {"seconds_min": 0.995, "seconds_max": 1.0},
                            "setting": {"seconds_min": 0.995 * found["time_ratio"], "seconds_max": found["time_ratio"]}}
        if command.startswith("lacuna inspect"):
            found = self.GUIDE | self._fault(command, self.GUIDE)
            return {"memory": {"run": {"total_bytes": 1e9}}, "guide": {"total_bytes_with_model": found["guide bytes"]}}
        blocks = self.BLOCKS | self._fault(command, self.BLOCKS)
        # Exact attention takes 20 s with the shorter context and 40 s with the longer one.
        short = self.BLOCKS | {"mage": (self.planted.get(command, {}).get("mage at 8192", 10.0), 1.0)}
        return {"results": [{"sparse": f"{name}=512", "prefix": prefix, "block_seconds": seconds,
                             "speedup": exact / seconds, "flops_allow": 4.0, "first_step_ratio": first,
                             "later_step": {"rest": 1.0 if name == "quest" else 1.05}}
                            for prefix, exact, found in ((8192, 20, short), (65536, 40, blocks))
                            for name, (seconds, first) in found.items()]}

    def tables(self, command):
        """Output of an instrument."""
        self._number(command)
        known = self.RECALL if "recall" in command else self.LOCK
        found = known | self._fault(command, known)
        return [{"head": list(found), "rows": [list(found.values())]}]

    def _fault(self, command, known):
        return {key: value for key, value in self.planted.get(command, {}).items() if key in known}

    def _number(self, command):
        if command not in self.asked:
            self.asked.append(command)
        return self.asked.index(command)


class ClaimsTest(unittest.TestCase):
    FAULTS = ({"accuracy": 0.2, "accuracy_low": 0.19, "accuracy_high": 0.21},
              {"accuracy": 0.99, "accuracy_low": 0.985, "accuracy_high": 0.993},
              {"rows": 1000}, {"layer_flops": 1e5}, {"layer_flops": 3e5}, {"passes_mean": 1.0}, {"passes_mean": 30.0},
              {"largest_contraction": 2.0}, {"time_ratio": 0.01}, {"mage": (100.0, 1.0)}, {"mage": (1.0, 5.0)},
              {"processor_seconds": 0.1}, {"processor_seconds": 1e-4}, {"row_ratio": 0.5}, {"row_ratio": 0.1},
              {"time_ratio": 0.5}, {"guide bytes": 5e9}, {"recall": 0.1},
              {"judge": {"perplexity": 1.1, "perplexity_low": 1.0, "perplexity_high": 1.2}},
              {"judge": {"perplexity": 2.1, "perplexity_low": 2.0, "perplexity_high": 2.2}})

    @staticmethod
    def verdicts(planted):
        """Claim -> verdict, and the commands that were asked for."""
        run = SyntheticRun(planted)
        return {claim.name: claim.verdict for claim in claims.judge(run)[0]}, run.asked

    @classmethod
    def planted_everywhere(cls):
        """Claim -> verdicts that a fault in one command gave it, and the commands in which no fault changed a claim."""
        run = SyntheticRun({})
        base = claims.judge(run)[0]
        seen, idle = {each.name: {each.verdict} for each in base}, set(run.asked)
        for command in run.asked:
            for fault in cls.FAULTS:
                found = claims.judge(SyntheticRun({command: fault}))[0]
                for each in found:
                    seen[each.name].add(each.verdict)
                if found != base:
                    idle.discard(command)
        return seen, idle

    def test_every_claim_flips_with_a_planted_fault_and_rests_on_commands_that_matter(self):
        seen, idle = self.planted_everywhere()
        self.assertEqual({name for name, verdicts in seen.items() if not {"yes", "no"} <= verdicts}, set())
        self.assertEqual(idle, set())

    def test_every_claim_of_the_committed_page_is_among_those_that_are_planted(self):
        page = (Path(book.__file__).resolve().parents[2] / "docs/results/claims.md").read_text(encoding="utf-8")
        shown = re.findall(r"^\*\*(.+)\*\*: (?:yes|no|undecided)\.$", page, re.MULTILINE)
        self.assertEqual(shown, [claim.name for claim in claims.judge(SyntheticRun({}))[0]])

    def test_planted_faults_flip_the_claims_that_they_concern(self):
        base, commands = self.verdicts({})
        self.assertEqual(base["SureLock: quality is kept"], "yes")
        planted = {command: self.FAULTS[0] for command in commands if "--block-length 8 --lock eps=5e-3" in command}
        found, _ = self.verdicts(planted)
        self.assertEqual(found["SureLock: quality is kept"], "no")
        self.assertEqual({name for name in base if found[name] != base[name]}, {"SureLock: quality is kept"})
        mage_rows = {command: self.FAULTS[0] for command in commands if "--sparse mage=8" in command}
        changed = {name for name in base if self.verdicts(mage_rows)[0][name] != base[name]}
        self.assertEqual(len(changed), 10)
        self.assertTrue(all(name.startswith("MAGE: ") for name in changed))

    def test_a_speedup_that_does_not_grow_flips_only_its_growth(self):
        base, _ = self.verdicts({})
        found, _ = self.verdicts({claims.BLOCKS: {"mage at 8192": 4.0}})  # 5.0 times there, 4.0 times at 65536
        name = "MAGE: the longer the context, the larger the speedup over exact attention, as FLOPs allow"
        self.assertEqual((base[name], found[name]), ("yes", "no"))
        self.assertEqual({each for each in base if found[each] != base[each]}, {name})

    def test_times_of_sparse_methods_that_differ_by_noise_decide_nothing(self):
        name = "MAGE: faster than Quest and SparseD"
        self.assertEqual([self.verdicts({claims.BLOCKS: {"mage": (seconds, 1.0)}})[0][name] for seconds in (19.0, 19.1, 20.9, 21.1)],
                         ["yes", "undecided", "undecided", "no"])

    def test_one_weak_guide_that_costs_accuracy_flips_its_kind(self):
        base, commands = self.verdicts({})
        planted = {command: self.FAULTS[0] for command in commands if "trained-500 --guide-match exact" in command}
        self.assertEqual(len(planted), 1)
        found, _ = self.verdicts(planted)
        self.assertEqual({name for name in base if found[name] != base[name]},
                         {"FlashDLM: a guide weaker than the model suffices, trained too briefly"})

    def test_speed_is_judged_by_time_and_not_by_passes(self):
        base, commands = self.verdicts({})
        slots = [command for command in commands if "mini-refusion --task records --refusion lacuna" in command]
        name = "ReFusion: more tokens per second than an autoregressive model, mini-refusion against mini-qwen3, records"
        self.assertEqual(base[name], "no")
        self.assertEqual(self.verdicts({command: {"processor_seconds": 0.1} for command in slots})[0][name], "yes")
        self.assertEqual(self.verdicts({command: {"passes_mean": 1.0, "tokens_per_forward": 20.0}
                                        for command in slots})[0][name], "no")

    def test_caches_are_judged_by_the_figures_of_their_own_model(self):
        _, commands = self.verdicts({})
        free = {command: {"rows": 20000} for command in commands if "phrasings" in command and "--cache free" in command}
        found, _ = self.verdicts(free)  # five times fewer rows: above Dream's figure, below LLaDA's
        self.assertEqual([found[f"FlashDLM: FreeCache is {least} times as fast or more, {model} with a short prompt"]
                          for least, model in (("6.20", "mini-llada"), ("4.42", "mini-dream"))], ["no", "yes"])

    def test_spread_of_repeated_runs_decides_nothing(self):
        def found(*seconds):
            return SimpleNamespace(rate=1 / min(seconds), rates=[1 / each for each in seconds])
        self.assertEqual(claim.as_fast(found(1.0, 1.1), found(1.2, 1.3)), "yes")
        self.assertEqual(claim.as_fast(found(1.0, 1.25), found(1.2, 1.3)), "undecided")
        self.assertEqual(claim.as_fast(found(1.4, 1.5), found(1.2, 1.3)), "no")
        self.assertEqual(claim.as_fast(found(1.0, 1.1), found(1.2, 1.3), 1.3), "no")
        self.assertEqual(claim.as_fast(found(1.0), found(1.0)), "no")

    def test_timings_whose_ranges_overlap_decide_nothing(self):
        def bench(*seconds):
            return {"plain": {"seconds_min": 10, "seconds_max": 10}, "time_ratio": seconds[0] / 10,
                    "setting": {"seconds_min": seconds[0], "seconds_max": seconds[1]}}
        self.assertEqual([headlines.faster(bench(1, 2), bench(*base)) for base in ((3, 4), (1.5, 4), (0.5, 0.9))],
                         ["yes", "undecided", "no"])
        self.assertEqual([headlines.reaches(bench(1, 2), least) for least in (5, 7, 11)], ["yes", "undecided", "no"])

    def test_rows_keep_the_times_of_all_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.jsonl"
            path.write_text("".join(json.dumps(row("x", processor_seconds=each)) + "\n" for each in (3.0, 2.0)),
                            encoding="utf-8")
            found = Rows(path).row("x")
        self.assertEqual((found["runs"], found["result"]["processor_seconds"]), ([3.0, 2.0], 2.0))

    def test_overlapping_accuracies_decide_nothing(self):
        wide = {"accuracy": 0.89, "accuracy_low": 0.85, "accuracy_high": 0.92}
        _, commands = self.verdicts({})
        found, _ = self.verdicts({command: wide for command in commands if "--lock eps=5e-3" in command})
        self.assertEqual(found["SureLock: quality is kept"], "undecided")

    def test_caches_that_compute_the_same_rows_are_an_error(self):
        _, commands = self.verdicts({})
        same = {command: {"rows": 5} for command in commands if "free" in command or "prefix" in command}
        with self.assertRaisesRegex(BookError, "compute the same rows"):
            self.verdicts(same)

    def test_a_sparse_method_without_a_sparse_pass_is_an_error(self):
        _, commands = self.verdicts({})
        with self.assertRaisesRegex(BookError, "computed no sparse pass"):
            self.verdicts({command: {"sparse_rows": 0} for command in commands if "sparsed=8" in command})


@NEEDS_FIGURES
class ReuseTest(unittest.TestCase):
    """Work next to times where K/V are reused and recomputed."""

    @staticmethod
    def run_of(added):
        """A run in which recomputation adds so many FLOPs of 1,000 and so many rows of 100; reuse once takes twice the time."""
        def evaluate(command, timed=False):
            again = "recompute" in command
            found = EvaluationTest.RESULT | {"rows": 100 + added * again, "flops": 1000.0 + added * again, "bytes": 1e6,
                                             "tokens_per_forward": 2.0, "layer_flops_uncached": 40.0}
            return Evaluation({"command": command, "result": found, "row_ratio_by_step": [1.0],
                               "runs": [3.0, 3.0] if again else [3.0, 6.0]})
        return SimpleNamespace(grid=SimpleNamespace(model="a", samples=4, timed_samples=2), evaluate=evaluate)

    def test_equal_work_is_counted_and_set_against_the_spread(self):
        import refusion  # pylint: disable=import-outside-toplevel
        self.assertEqual((refusion.reuse_equal(self.run_of(0)), refusion.reuse_added(self.run_of(0))), ("6 of the 6", "0.0%"))
        self.assertEqual((refusion.reuse_equal(self.run_of(20)), refusion.reuse_added(self.run_of(20))), ("0 of the 6", "2.0%"))
        self.assertEqual(refusion.reuse_spread(self.run_of(0)), "100.0%")


class DriftTest(unittest.TestCase):
    @staticmethod
    def run_of(cells):
        """A run whose models all have these cells: (step, layer, part, value, count)."""
        head = ["step", "layer", "part", "key", "value", "mass", "count"]
        rows = [[step, layer, part, found, 2 * found, found, count] for step, layer, part, found, count in cells]
        return SimpleNamespace(grid=SimpleNamespace(masked=("m",), samples=1),
                               tables=lambda _: [{"head": ["region"], "rows": [["sink"]]}, {"head": head, "rows": rows}])

    def test_means_are_weighted_by_what_they_count(self):
        run = self.run_of([(1, 0, "prompt", 0.1, 3), (2, 0, "prompt", 0.5, 1), (2, 0, "masked", 1.0, 1)])
        self.assertEqual(drift.stability(run)[1], [["m", "keys", "2.0e-01", "0.0e+00", "0.0e+00", "1.0e+00"],
                                                   ["m", "values", "4.0e-01", "0.0e+00", "0.0e+00", "2.0e+00"]])

    def test_parts_that_a_step_lacks_get_nothing(self):
        run = self.run_of([(0, 0, "masked", 0.2, 1), (0, 1, "masked", 0.4, 1), (2, 0, "self", 0.5, 1),
                           (2, 1, "self", 0.5, 1)])
        self.assertEqual(drift.over_time(run)[1], [["m", 0, "30.0%", "0.0%"], ["m", 1, "0.0%", "0.0%"],
                                                   ["m", 2, "0.0%", "50.0%"]])


class UniformTest(unittest.TestCase):
    @staticmethod
    def run_of(tables):
        """A run whose instruments all print these tables: (head, rows)."""
        return SimpleNamespace(grid=SimpleNamespace(model="a", masked="b", instrument_samples=1),
                               tables=lambda _: [{"head": head, "rows": rows} for head, rows in tables])

    def test_drift_is_the_mean_over_steps_within_and_between_blocks(self):
        run = self.run_of([(["region", "passes", "key", "value", "count"],
                            [["next", "within", 0.1, 0.2, 3], ["next", "boundary", 0.5, 0.6, 1],
                             ["all", "within", 0.0, 0.001, 1]])])
        rows = uniform.records(run, "x")
        self.assertEqual([f"{each:.3f}" for each in uniform.mean_drift(rows, "next")], ["0.200", "0.300"])
        self.assertIsNone(uniform.mean_drift(rows, "prompt"))
        self.assertEqual(uniform.drift_means(run)[1][0][1], "0.0000 / 0.0010")

    def test_two_digits_of_any_size(self):
        self.assertEqual([uniform.two_digits(each) for each in (0, 0.0000419, 0.03, 1.25, 250)],
                         ["0", "0.000042", "0.030", "1.2", "250"])

    def test_the_figures_of_the_thesis_stand_below_those_measured(self):
        run = self.run_of([(["correlation", "pearson"], [["keys and values", 0.876]])])
        rows = uniform.key_value_correlation(run)[1]
        self.assertEqual(rows[:3], [["blocks of 8, adaptive", "0.88", "0.88", "0.88", "0.88"],
                                    ["thesis: blocks of 32, adaptive", "0.94", "0.93", "0.87", "-"],
                                    ["blocks of 8, ancestral", "0.88", "0.88", "0.88", "0.88"]])

    def test_refresh_intervals_stand_in_the_order_of_noise_or_of_work(self):
        def run_of(never, usual):
            """A run whose passes of a block take so many seconds; R = 4 takes 50 s in all and 2% more FLOPs."""
            def result(command):
                is_never = "--refresh 0" in command
                return {"setting": {"passes": 64, "rows": 6080 if is_never else 6336, "seconds": 50.0,
                                    "flops": 0.98e12 if is_never else 1e12, "pass_seconds": [9.0, never if is_never else usual]}}
            return SimpleNamespace(grid=SimpleNamespace(shapes=["random:a"]), result=result)
        self.assertIn("over 62 passes a difference of 6.2 s: noise, and not the interval,", uniform.refresh_order(run_of(0.6, 0.5)))
        self.assertIn("faster one by 2.0%, or 1.0 s", uniform.refresh_order(run_of(0.6, 0.5)))
        self.assertIn("difference of 0.6 s: the interval decides", uniform.refresh_order(run_of(0.51, 0.5)))

    def test_first_and_last_step_whatever_the_order(self):
        run = self.run_of([(["step", "entropy", "of_answer"], [[1, 0.5, 0.0], [0, 7.0, 0.25], [2, 0.25, 0.125]])])
        rows = uniform.records(run, "x")
        self.assertEqual(uniform.ends(rows), "7.00 → 0.25")
        self.assertEqual(uniform.changed(rows), "25.0%, 12.5%")


@NEEDS_FIGURES
class FigureTest(unittest.TestCase):
    def scatter(self):
        """SVG of two families, two of whose points are equal."""
        drawn, axes = figures.axes("title", "x", "y", log="x")
        figures.scatter_families(axes, {"a": [(1, 1, "one"), (1, 1, "two")], "b": [(10, 2, "three")]})
        return figures.to_svg(drawn)

    def test_same_values_same_text(self):
        self.assertEqual(self.scatter(), self.scatter())

    def test_text_is_text_and_equal_points_share_a_label(self):
        self.assertIn(">one, two</text>", self.scatter())
        self.assertNotIn("<dc:date>", self.scatter())

    def test_labels_keep_clear_of_each_other(self):
        frame, taken = figures.Bbox.from_extents(0, 0, 200, 200), []
        for _ in range(8):
            *_, box = figures.place_label((100, 100), 5, frame, taken)
            self.assertFalse(any(box.overlaps(other) for other in taken))
            taken.append(box)

    def test_no_place_is_no_label(self):
        frame = figures.Bbox.from_extents(0, 0, 20, 20)
        self.assertIsNone(figures.place_label((10, 10), 50, frame, []))

    def test_heat_map_begins_at_the_top(self):
        drawn = figures.heat_map("t", "x", "y", ["1"], ["0", "1"], {"a": [[0], [1]], "b": [[0], [1]]})
        self.assertTrue(all(axes.yaxis_inverted() for axes in drawn.axes))


class BookTest(unittest.TestCase):
    def test_placeholders_of_every_page_are_known_and_used(self):
        for page in book.PAGES.values():
            with self.subTest(page.name):
                book.Template(page).check()

    @NEEDS_FIGURES
    def test_committed_pages_are_as_their_rows_say(self):
        command_line = load_command_line()
        self.assertEqual(command_line.main(["check"]), 0)


if __name__ == "__main__":
    unittest.main()
