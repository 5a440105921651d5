"""Tests of the papers' tables as commands. Nothing is measured; they need Python's standard library alone."""
import contextlib
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
import check_reproduce  # noqa: E402
import dry_run  # noqa: E402
import prepare  # noqa: E402
import reproduce  # noqa: E402
from errors import BookError  # noqa: E402
from papers import TABLES, mage, refusion, surelock  # noqa: E402
from papers.table import FIGURES, MODELS, NOT_HERE, Work, ours  # noqa: E402

ROWS = [(table, row) for table in TABLES.values() for row in table.rows]


def printed(*arguments):
    """Exit code and output of `reproduce`."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = reproduce.main([*arguments])
    return code, out.getvalue()


class TablesTest(unittest.TestCase):
    def test_all_main_tables_are_there(self):
        asked = {("surelock", "1"), ("surelock", "2"), ("surelock", "3"), ("flashdlm", "2"), ("flashdlm", "7"),
                 ("flashdlm", "11"), ("refusion", "1"), ("refusion", "6"), ("uniform", "5.1"), ("uniform", "6.1"), ("mage", "2"), ("mage", "3")}
        self.assertLessEqual(asked, set(TABLES))

    def test_rows_have_figures_of_the_paper_and_a_command_or_a_reason(self):
        for table, row in ROWS:
            with self.subTest(table=table.name, row=row.label):
                self.assertLessEqual(set(row.paper), set(table.figures))
                self.assertNotEqual(bool(row.command), bool(row.reason))
                if row.command:
                    self.assertGreater(row.work.seconds(100, 20), 0)
                    self.assertRegex(row.command, f"{row.work.model}|random:{MODELS[row.work.model].shape},")

    def test_figures_are_known(self):
        for table in TABLES.values():
            self.assertLessEqual(set(table.figures), {*FIGURES, *NOT_HERE})

    def test_commands_of_a_table_differ(self):
        for table in TABLES.values():
            commands = [row.command for row in table.rows if row.command]
            self.assertEqual(len(commands), len(set(commands)), f"{table.paper} {table.name}")

    def test_files_of_a_command_are_explained_and_made_for_dry_runs(self):
        for table, row in ROWS:
            explained = " ".join(table.files).replace("longbench/*", "longbench/")
            for file in re.findall(r"DATA/(\S+)", row.command):
                with self.subTest(table=table.name, file=file):
                    self.assertIn(file, dry_run.FILES)
                    self.assertIn(file.split("/")[0] if file.startswith("longbench") else file, explained)

    def test_averages_are_the_papers(self):
        # Averages that the papers print, over the rows that are written here: a wrong digit shows.
        for model, accuracy, rate in ((refusion.REFUSION, 65.31, 72.62), (refusion.QWEN, 73.36, 32.42),
                                      (refusion.LLAMA, 49.63, 37.81), (refusion.LLADA, 48.51, 12.41),
                                      (refusion.DREAM, 55.55, 8.84), ("LLaDA with Fast-dLLM", 46.24, 40.46),
                                      ("Dream with Fast-dLLM", 48.25, 37.22)):
            line = refusion.TABLE_1[model]
            self.assertAlmostEqual(sum(found[0] for found in line) / 7, accuracy, delta=0.006, msg=model)
            self.assertAlmostEqual(sum(found[1] for found in line) / 7, rate, delta=0.006, msg=model)
        averages = {mage.FAST: (42.36, 40.15, 32.26, 37.88, 41.38, 35.51, 40.09, 41.51, 38.43, 41.16),
                    mage.SDAR: (47.14, 45.90, 36.50, 39.57, 46.27, 41.47, 44.34, 46.37, 45.01, 46.27),
                    mage.LLADA2: (50.13, 49.00, 40.36, 45.04, 49.85, 45.63, 49.00, 50.06, 48.98, 49.48)}
        for model, expected in averages.items():
            for column, average in zip(zip(*mage.TABLE_2[model]), expected):
                self.assertAlmostEqual(sum(column) / 6, average, delta=0.011, msg=model)

    def test_ratios_of_surelock_are_those_of_its_flops(self):
        flops = {64: (9.017e11, 4.936e11), 256: (3.629e12, 1.801e12), 1024: (1.492e13, 7.366e12)}
        for length, (base, locked) in flops.items():
            self.assertAlmostEqual(surelock.TABLE_1[length]["5e-4"][1], locked / base, delta=0.001)


class DryRunTest(unittest.TestCase):
    def test_small_commands_name_models_of_this_repository_alone(self):
        for _, row in ROWS:
            if row.command:
                words = dry_run.small(row.command)
                self.assertNotRegex(words, "|".join(map(re.escape, MODELS)))
                self.assertRegex(words, " --samples 2 | --timed-passes 2 ")

    def test_flags_stay(self):
        for _, row in ROWS:
            if row.command:
                flags = re.findall(r"--[a-z-]+", row.command)
                self.assertLessEqual(set(flags), set(re.findall(r"--[a-z-]+", dry_run.small(row.command))))

    def test_lengths_shrink_to_whole_parts(self):
        small = dry_run.small("lacuna eval -m GSAI-ML/LLaDA-8B-Instruct --gen-length 256 --steps 256 --block-length 32 "
                              "--sparse quest=512,page=16 --json")
        self.assertIn("--gen-length 64 --steps 64 --block-length 8 --sparse quest=16,page=2", small)

    def test_a_failing_command_is_counted_and_named(self):
        row = SimpleNamespace(command="lacuna eval -m GSAI-ML/LLaDA-8B-Instruct --task arithmetic")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            results, failed = reproduce.try_commands([(1, row)], "/bin/false")
        self.assertEqual((results, failed), ({}, 1))
        self.assertIn("1 failed", out.getvalue())

    def test_shapes_that_differ_are_problems(self):
        shape = {"tied_embeddings": True, "parameters": 1e9, "active_parameters": 1e9, "layers": 32, "heads": 32,
                 "head_dim": 128}
        with mock.patch.object(check_reproduce, "execute", return_value=(shape, 0.1)):
            problems = list(check_reproduce.problems_of_shapes("lacuna"))
        self.assertTrue(any("GSAI-ML/LLaDA-8B-Base: weights is 8.02" in problem for problem in problems))
        self.assertFalse(any("GSAI-ML/LLaDA-8B-Base: layers" in problem for problem in problems))


class PageTest(unittest.TestCase):
    def test_paper_and_ours_stand_side_by_side(self):
        with tempfile.TemporaryDirectory() as folder:
            command = TABLES["flashdlm", "2"].rows[0].command
            line = {"command": command, "result": {"accuracy": 0.5, "seconds": 20.0, "samples": 2}}
            (Path(folder) / "flashdlm-2.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
            code, text = printed("flashdlm", "2", "--out", folder, "--gflops", "100")
        self.assertEqual(code, 0)
        self.assertIn("| 1 | Dream-v0-Instruct-7B, baseline | 79.68, 50 | 48.05, 10 |", text)
        self.assertIn("| 2 | Dream-v0-Instruct-7B, FreeCache | 77.4, - | 10.87, - |", text)
        self.assertIn(f"   1 {command}", text)

    def test_what_is_not_runnable_says_why(self):
        text = printed("refusion", "1", "--gflops", "100")[1]
        self.assertEqual(text.count("not runnable: D2F"), 14)

    def test_rows_beyond_a_table_are_runnable_and_explained(self):
        extra = [(table.name, row) for table, row in ROWS if not row.paper and not row.reason]
        self.assertEqual([name for name, _ in extra], ["3"] * 12)
        for _, row in extra:
            self.assertIn("needle-128k.jsonl", row.command)
            self.assertIn("--rope-scale 4", row.command)
        self.assertIn("128K is not in the paper's table", printed("mage", "3", "--gflops", "100")[1])

    def test_needles_fit_into_the_models_positions(self):
        for row in TABLES["mage", "3"].rows:
            length = int(re.search(r"--length (\d+)", row.command)[1])
            stretch = re.search(r"--rope-scale (\d+)", row.command)
            self.assertLess(length + mage.ANSWER, mage.POSITIONS * int(stretch[1] if stretch else 1))
            self.assertGreaterEqual(length, 1000 * int(re.search(r"needle-(\d+)k", row.command)[1]))

    def test_the_thesis_judge_is_read(self):
        self.assertIn("--judge nvidia/Minitron-4B-Base", printed("uniform", "5.1", "--gflops", "100")[1])

    def test_rate_comes_from_the_committed_rows(self):
        self.assertIn("docs/results/shapes.jsonl", printed("surelock", "1")[1])

    def test_commands_of_an_instruction_set_shrink_to_what_any_processor_runs(self):
        row = TABLES["refusion", "speed"].rows[0]
        self.assertTrue(row.command.startswith("LACUNA_ISA=avx2 lacuna bench decode -m random:qwen3-8b,layers=8 "))
        self.assertTrue(dry_run.small(row.command).startswith("lacuna bench decode -m mini-qwen3 "))

    def test_list_has_every_table(self):
        self.assertEqual(len(printed("--list")[1].splitlines()), len(TABLES))
        self.assertEqual(len(printed("mage", "--list")[1].splitlines()), 2)

    def test_rows_are_chosen_by_number(self):
        table = TABLES["flashdlm", "2"]
        self.assertEqual([number for number, _ in reproduce.chosen(table, "1,3")], [1, 3])
        for wrong in ("0", "5", "x", "-1"):
            with self.assertRaisesRegex(BookError, "expected numbers from 1 to 4"):
                reproduce.chosen(table, wrong)

    def test_unknown_tables_are_refused_with_the_known_ones(self):
        with contextlib.redirect_stderr(io.StringIO()) as error, self.assertRaises(SystemExit):
            reproduce.main(["mage", "9"])
        self.assertIn("mage has no table '9'; expected one of 2, 3", error.getvalue())

    def test_figures_of_results(self):
        turn = {"turns": [{"layer_flops": 1.0, "layer_flops_uncached": 2.0, "row_ratio": 0.4}]}
        self.assertEqual((ours("FLOPs ratio", turn), ours("rows ratio", turn)), (0.5, 0.4))
        self.assertEqual(ours("score", {"score": 0.25}), 25)
        self.assertIsNone(ours("accuracy %", turn))
        self.assertIsNone(ours("judge's score", turn))


class WorkTest(unittest.TestCase):
    def test_hours_are_the_longer_of_products_and_reading(self):
        # LLaDA-8B: 15 GFLOP a row and 16 GB of weights.
        many = Work("GSAI-ML/LLaDA-8B-Base", 1, 1000, 1, 0)
        self.assertAlmostEqual(many.seconds(100, 1000), 150, places=0)
        one = Work("GSAI-ML/LLaDA-8B-Base", 1, 1, 1, 0)
        self.assertAlmostEqual(one.seconds(100, 2), 7.5, places=0)  # 15 GB of what a row is multiplied with
        self.assertAlmostEqual(Work("GSAI-ML/LLaDA-8B-Base", 3, 1, 1, 0, 2).seconds(1e6, 2), 3 * 7.5 / 2, places=0)


class PrepareTest(unittest.TestCase):
    def test_first_four_questions_of_each_category(self):
        lines = [json.dumps({"category": name, "id": number}) for name in "ab" for number in range(6)]
        self.assertEqual(len(prepare.first_of_each_category(lines)), 8)

    def test_odd_records_skip_blank_lines(self):
        self.assertEqual(prepare.odd_records(["a", " ", "b", "", "c", "d"]), ["b", "d"])

    def test_needles_stand_at_every_depth(self):
        found = [json.loads(line)["context"] for line in prepare.needles(["w"] * 100, 100)]
        self.assertEqual(len(found), 21)
        self.assertTrue(found[0].startswith(prepare.NEEDLE) and found[-1].endswith(prepare.NEEDLE))
        self.assertEqual(found[10].index(prepare.NEEDLE), len("w ") * 37)
        with self.assertRaisesRegex(BookError, "expected at least 75"):
            list(prepare.needles(["w"] * 10, 100))

    def test_files_are_written_and_missing_ones_named(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with self.assertRaisesRegex(BookError, "question.jsonl: cannot be read"):
                list(prepare.files_of(TABLES["surelock", "1"], folder))
            (folder / "question.jsonl").write_text('{"category": "a"}\n', encoding="utf-8")
            self.assertEqual(list(prepare.files_of(TABLES["surelock", "1"], folder)), [folder / "mt-bench-32.jsonl"])
            with self.assertRaisesRegex(BookError, "nothing to prepare"):
                list(prepare.files_of(TABLES["refusion", "6"], folder))


if __name__ == "__main__":
    unittest.main()
