"""Tests of `real-text` on synthetic rows; nothing is measured."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import book  # noqa: E402
import figures  # noqa: E402
import measure  # noqa: E402
import real_text  # noqa: E402
import real_text_run  # noqa: E402
from errors import BookError, CommandError  # noqa: E402
from real_text import BASELINES, MASKED, MT_BENCH, SETTINGS, WIKITEXT  # noqa: E402

NEEDS_FIGURES = unittest.skipIf(figures.MISSING, f"needs numpy and matplotlib: {figures.MISSING}")
METHODS = Path(__file__).resolve().parents[2] / "docs" / "methods"


def result(samples=2, rows=100, seconds=4.0, **more):
    """Figures as `lacuna eval` prints them."""
    return {"samples": samples, "passes_mean": 4.0, "tokens_per_forward": 2.0, "rows": rows, "sparse_rows": 0,
            "processor_seconds": seconds, "settings": {"gen-length": 8}, **more,
            "judge": {"perplexity": 12.345, "perplexity_low": 10.0, "perplexity_high": 20.0, "tokens": 16, "repetition": 0.25}}


class FakeMeasurer:
    """Rows without measuring. `refuses`: a flag whose commands do not apply; `fails`: one whose commands crash."""

    def __init__(self, refuses="--never", fails="--never"):
        self.refuses, self.fails, self.commands = refuses, fails, []

    def origin(self):
        """Machine and commit."""
        return {"machine": {"processor": "P", "cores": 2, "instructions": "avx2"}, "commit": "abc"}

    def __call__(self, command):
        self.commands.append(command)
        if self.refuses in command or self.fails in command:
            raise CommandError(command, "lacuna: no | effect", 2 if self.refuses in command else 134)
        is_baseline = " --unmask low-confidence --gen" in command
        answers = [{"text": "abcd"}, {"text": "xy" if is_baseline else "xz"}]
        if "continuations" in command:
            answers = [each | {"tokens": [1, 2, 3, 4] if is_baseline else [1, 2, 3, 5]} for each in answers]
        return {"command": command, **self.origin(), "seed": 0, "row_ratio_by_step": [], "full_answers": answers,
                "result": result(seconds=4.0 if is_baseline else 1.0)}


class RealTextTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "model").mkdir()
        (self.folder / "model" / "config.json").write_text("{}")
        (self.folder / "judge.gguf").write_text("judge")
        (self.folder / "wiki.txt").write_text("\n".join([" = Heading = ", "", *(f"{i} " + 500 * "a" for i in range(9))]))
        (self.folder / "mt.jsonl").write_text("{}\n" * 2 + "\n")
        self.path = self.folder / "real_text.jsonl"

    def plan(self, *more):
        """A plan for two questions and two paragraphs."""
        files = {"--masked": "model", "--judge": "judge.gguf", "--wikitext": "wiki.txt", "--mt-bench": "mt.jsonl"}
        words = [word for flag, name in files.items() for word in (flag, str(self.folder / name))]
        options = real_text_run.parse_arguments([*words, "--samples", "4", "--gen-length", "8", *more])
        return real_text_run.Plan(options, self.folder)

    def measure(self, *more, measurer=None):
        """Measures the first two settings; returns the commands that ran and the errors."""
        measurer = measurer or FakeMeasurer()
        with contextlib.redirect_stderr(io.StringIO()):
            errors = real_text_run.measure_all(self.plan("--first", "2", *more), self.path, measurer)
        return measurer.commands, errors

    def page(self):
        """The page of the measured rows."""
        return book.make_page(book.PAGES["real_text"], self.folder)["real_text.md"]

    def rows(self):
        """The rows of the file."""
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def test_prompts_are_spread_paragraphs(self):
        words = (self.folder / "wiki.txt").read_text()
        self.assertEqual([each[0] for each in real_text_run.prompts_of(words, 3)], ["0", "3", "6"])
        with self.assertRaisesRegex(BookError, "at least 10 paragraphs of 400 characters; WikiText's file has 9"):
            real_text_run.prompts_of(words, 10)

    def test_paragraphs_take_the_place_of_missing_questions(self):
        self.assertEqual(real_text_run.split(200, 80), {WIKITEXT: 120, MT_BENCH: 80})
        self.assertEqual(real_text_run.split(5, 80), {WIKITEXT: 3, MT_BENCH: 2})

    def test_baseline_comes_first_and_rows_name_no_path(self):
        commands, errors = self.measure()
        self.assertEqual((len(commands), errors), (4, []))
        self.assertIn(" --unmask low-confidence --gen-length 8 --temperature 0 ", commands[0])
        self.assertNotIn(str(self.folder), self.path.read_text())
        self.assertEqual(self.rows()[0]["inputs"].keys(), {"MASKED", "WIKITEXT", "JUDGE"})
        self.assertEqual(["full_answers" in row for row in self.rows()], [True] * 4)  # others are compared with both settings

    @NEEDS_FIGURES
    def test_caches_are_compared_with_the_same_decoding_without_them(self):
        self.measure("--first", "3")
        row = self.rows()[-1]
        self.assertEqual(row["flags"], "--unmask low-confidence --cache dkv")
        self.assertEqual((row["agreement_exact"], "full_answers" in row), (row["agreement"], False))
        self.assertRegex(self.page(), r"--cache dkv` \| 6.2 \| 1.000 \| 4.0 \| 0.25 \| 2 of 4 \| 2 of 4 \| 75.0% \|")
        self.assertRegex(self.page(), r"`--unmask threshold=0.9` \| 6.2 \| 1.000 \| 4.0 \| 0.25 \| 2 of 4 \| - \| 75.0% \|")

    def test_known_rows_are_not_measured_again(self):
        self.measure()
        lines = self.path.read_text().splitlines(keepends=True)
        self.path.write_text("".join(lines[:3]) + lines[3][:20])  # killed while it wrote a row
        commands, _ = self.measure()
        self.assertEqual([("mt-bench" in each, "threshold" in each) for each in commands], [(True, True)])
        self.assertEqual(self.path.read_text().splitlines(keepends=True), lines)

    def test_rows_of_other_files_or_flags_are_not_mixed(self):
        self.measure()
        with self.assertRaisesRegex(BookError, "other --samples, --gen-length or --threads"):
            self.measure("--threads", "1")
        (self.folder / "judge.gguf").write_text("another")
        with self.assertRaisesRegex(BookError, "rows of another JUDGE"):
            self.measure()

    @NEEDS_FIGURES
    def test_refused_setting_is_a_row(self):
        _, errors = self.measure(measurer=FakeMeasurer(refuses="threshold=0.9"))
        self.assertEqual(errors, [])
        self.assertEqual(self.rows()[2]["result"], {"refused": "no | effect"})
        self.assertIn("| masked | `--unmask threshold=0.9` | refused: no \\| effect | - |", self.page())

    def test_other_failure_leaves_the_row_missing(self):
        _, errors = self.measure(measurer=FakeMeasurer(fails="threshold=0.9"))
        self.assertEqual(([each.exit_code for each in errors], len(self.rows())), ([134, 134], 2))
        with self.assertRaises(CommandError):  # without a baseline nothing can be compared
            self.path.unlink()
            self.measure(measurer=FakeMeasurer(refuses="low-confidence"))

    def test_missing_file_is_named(self):
        (self.folder / "judge.gguf").unlink()
        with self.assertRaisesRegex(BookError, "--judge .*judge.gguf: there is no such file or folder"):
            self.plan()

    def test_settings_of_missing_models_are_left_out(self):
        cells = [setting for setting, _ in self.plan().cells()]
        self.assertEqual({each.model for each in cells}, {MASKED})
        self.assertFalse(any(each.needs_guide for each in cells))
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            real_text_run.parse_arguments(["--judge", "j", "--wikitext", "w", "--mt-bench", "m"])

    @NEEDS_FIGURES
    def test_table_has_the_agreement_with_the_baseline(self):
        self.measure()
        perplexity = "12.35 (10 to 20)"
        self.assertIn(f"| masked | `--unmask threshold=0.9` | 6.2 | 1.000 | 4.0 | 0.25 | 2 of 4 | 75.0% | 75.0% | {perplexity} | "
                      f"{perplexity} | 25.0% |\n", self.page())
        self.assertIn("| masked | baseline: `--unmask low-confidence` | 6.2 | 1.000 | 4.0 | 1.00 | 4 of 4 | 100.0% | 100.0% |",
                      self.page())
        self.assertIn("- blocks: `--unmask dynamic=0.9`", self.page())

    @NEEDS_FIGURES
    def test_time_of_another_machine_is_left_out(self):
        self.measure()
        rows = self.rows()
        rows[2]["machine"]["processor"] = "Q"
        self.path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.assertIn("| masked | `--unmask threshold=0.9` | 6.2 | 1.000 | 4.0 | - |", self.page())

    def test_page_without_rows(self):
        self.assertIn("**Nothing is measured yet.**", self.page())
        self.assertIn("- masked: `--unmask low-confidence --steps 16`", self.page())

    def test_page_by_its_own_name_measures_nothing(self):
        self.assertEqual(book.PAGES["real_text"].measured_by, "real-text")


class LabelTest(unittest.TestCase):
    def test_labels_leave_out_what_most_settings_have(self):
        self.assertEqual(real_text.label("--block-length 8 --unmask low-confidence --cache dual --eos-exit"), "block-length 8 dual")
        self.assertEqual(real_text.label("--unmask low-confidence"), "low-confidence")


class AgreementTest(unittest.TestCase):
    def test_tokens_end_with_the_end_token(self):
        answer = {"text": "ab", "tokens": [1, 2, 9, 9, 7], "stop_reason": "eos",
                  "stats": {"tokens_per_forward": 2 / 3, "forward_passes": 3}}
        self.assertEqual(real_text_run.kept_answer(answer), {"text": "ab", "tokens": [1, 2, 9]})
        answer |= {"tokens": [1, 2], "stop_reason": "length"}
        self.assertEqual(real_text_run.kept_answer(answer)["tokens"], [1, 2])
        self.assertEqual(real_text_run.kept_answer({"choices": [{"turns": ["a"]}]}), {"text": "a"})

    def test_shared_beginning(self):
        self.assertEqual(real_text.shared_beginning("abcd", "abx"), 0.5)
        self.assertEqual(real_text.shared_beginning("ab", "abcd"), 0.5)
        self.assertEqual((real_text.shared_beginning("", ""), real_text.shared_beginning("", "a")), (1.0, 0.0))

    def test_tokens_are_counted_by_position_of_the_longer_answer(self):
        found = real_text.agreement([{"text": "a", "tokens": [1, 2]}], [{"text": "a", "tokens": [1, 3, 2]}])
        self.assertEqual(found, {"texts": 1, "same_texts": 1, "beginnings": 1.0, "tokens": 3, "same_tokens": 1})

    def test_answers_have_to_be_of_the_same_samples(self):
        with self.assertRaises(ValueError):
            real_text.agreement([{"text": "a"}], [])


class SettingsTest(unittest.TestCase):
    def test_every_setting_is_there_once_and_on_a_page(self):
        self.assertEqual(len({(each.model, each.flags) for each in SETTINGS}), len(SETTINGS))
        self.assertLessEqual(len(SETTINGS), 60)
        for each in SETTINGS:
            self.assertTrue(each.pages or each in BASELINES.values())

    def test_method_pages_link_to_the_headings(self):
        prose = book.PAGES["real_text"].prose.read_text(encoding="utf-8")
        for page in {page for each in SETTINGS for page in each.pages}:
            self.assertIn(f"{{{{ value section {page} }}}}", prose)
            heading = prose.split(f"\n[The method](../methods/{page}.md)")[0].rsplit("\n## ", 1)[1].strip()
            anchor = heading.lower().replace(" ", "-")
            self.assertIn(f"(../results/real_text.md#{anchor})", (METHODS / f"{page}.md").read_text(encoding="utf-8"))

    def test_exact_flags(self):
        for flags, expected in (("--unmask a --cache dual --eos-exit", "--unmask a --eos-exit"), ("--unmask a", ""),
                                ("--unmask a --sparse quest=16,page=4", "--unmask a"),
                                ("--block-length 8 --suffix 8 --unmask a", "--block-length 8 --unmask a"),
                                ('--guide "$GUIDE" --cache free', "")):
            self.assertEqual(real_text.Setting(MASKED, (), flags).exact_flags, expected)

    def test_settings_follow_those_that_they_are_compared_with(self):
        compared = [(each, real_text.exact_of(each)) for each in SETTINGS if real_text.exact_of(each)]
        self.assertGreater(len(compared), 15)
        for setting, exact in compared:
            self.assertIn(exact, real_text.COMPARED)
            self.assertLess(SETTINGS.index(exact), SETTINGS.index(setting))

    def test_flags_follow_the_length(self):
        half = next(each for each in SETTINGS if "{half}" in each.flags)
        self.assertIn("16", half.at(32))
        self.assertNotIn("{", half.at(8))


class MeasureTest(unittest.TestCase):
    def test_one_turn_of_mt_bench_is_a_result(self):
        self.assertEqual(measure.only_turn({"task": "mt-bench", "turns": [{"samples": 2}]}), {"samples": 2})
        self.assertEqual(measure.only_turn({"samples": 2}), {"samples": 2})
        self.assertEqual(measure.text_of({"choices": [{"turns": ["a"]}]}), "a")

    def test_failed_command_has_its_exit_code(self):
        with self.assertRaises(CommandError) as caught, contextlib.redirect_stderr(io.StringIO()):
            measure.Measurer("lacuna", dirty=True)("echo reason >&2; exit 3")
        self.assertEqual((caught.exception.exit_code, caught.exception.reason), (3, "reason"))


if __name__ == "__main__":
    unittest.main()
