"""Tests of check.py with programs that only print; no device is needed."""
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import check  # noqa: E402
import checks  # noqa: E402
import plans  # noqa: E402
import running  # noqa: E402

COMMON = '"device": "D", "driver": "13.0", "cuda": "13.0", "commit": "abc"'
GPU_CHECK = f"""
echo '{{{COMMON}, "what": "device", "capability": "9.0"}}'
case "$*" in
  *--only-device*) exit 0;;
  *peaks*) echo '{{{COMMON}, "what": "copy", "copy_gbs": 4000}}';;
  *) echo "{{{COMMON.replace('"', chr(92) + '"')}, \\"what\\": \\"kernels\\", \\"words\\": \\"$*\\"}}";;
esac
"""
# Two suites; the environment and the filter are the words of a test.
TESTS = """
case "$*" in
  *--gtest_list_tests*) printf 'Stream.\\n  Runs\\n  Waits\\nEvery/Draw.  # TypeParam = int\\n  Draws/0  # GetParam() = 1\\n'; exit 0;;
  *Stream*) suite=Stream.Runs;;
  *) suite=Every/Draw.Draws/0;;
esac
echo "[ RUN      ] $suite"
"""
PASSES = 'echo "blocking $CUDA_LAUNCH_BLOCKING, loading $CUDA_MODULE_LOADING, $1"; echo "[       OK ] $suite (3 ms)"\n'
# Logits of 16 rows of two tokens; on the device, MISSES of them are another token's.
LOGITS = """
import array, sys
words = sys.argv[1:]
misses = MISSES if words[-1] == "cuda:0" else 0
with open(words[words.index("--out") + 1], "wb") as file:
    file.write(b"\\x93NUMPY {'descr': '<f4', 'fortran_order': False, 'shape': (16, 2), }\\n")
    array.array("f", [float(row < misses) if column else 1.0 - (row < misses) for row in range(16)
                      for column in range(2)]).tofile(file)
"""
LACUNA = """
case "$*" in
  --version) echo 'lacuna 0.2.0 (amx; devices: cpu, cuda:0)';;
  logits*) exec python3 -S "$(dirname "$0")/logits.py" "$@";;
  run*) echo '{"tokens": [4, 8]}';;
  *--by-threads*) echo '{"isa": "amx", "by_threads": []}';;
  *) echo '{"results": []}';;
esac
"""
NCU = """
echo '==PROF== Connected'
echo '"ID","Kernel Name","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","attend","(128, 1, 1)","(64, 1, 1)","GPU Speed Of Light Throughput","Duration","us","52.1"'
echo '"0","attend","(128, 1, 1)","(64, 1, 1)","Occupancy","Achieved Occupancy","%","12.5"'
"""


class Folder(unittest.TestCase):
    """A folder of programs, as --pack makes one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, body in (("gpu_check", GPU_CHECK), ("cuda_device_tests", TESTS + PASSES), ("lacuna", LACUNA)):
            self.program(name, body)
        (self.folder / "commit").write_text("abc\n", encoding="utf-8")
        self.logits(misses=0)
        model = self.folder / "models" / "mini-llada"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}", encoding="utf-8")
        self.out = self.folder / "gpu.jsonl"
        self.patch(checks, "MODELS_FOLDER", self.folder / "models")
        self.patch(plans, "COMPARED", ("llada-8b",))
        # No tool of this machine.
        self.patch(os, "environ", {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})

    def patch(self, *what):
        """Replaces something for one test."""
        patch = mock.patch.object(*what)
        patch.start()
        self.addCleanup(patch.stop)

    def logits(self, misses):
        """Writes what `lacuna logits` runs."""
        (self.folder / "logits.py").write_text(LOGITS.replace("MISSES", str(misses)), encoding="utf-8")

    def program(self, name, body):
        """Writes a program in the language of the shell."""
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + body, encoding="utf-8")
        path.chmod(0o755)

    def run_checks(self, *more):
        """(exit code, lines, standard error)."""
        error = io.StringIO()
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            code = check.main(["--packed", str(self.folder), "--out", str(self.out), *more])
        return code, running.read_lines(self.out), error.getvalue()

    @staticmethod
    def of(lines, what, *keys):
        """Values of the lines of a kind."""
        return [tuple(line.get(key) for key in keys) if len(keys) > 1 else line.get(keys[0])
                for line in lines if line["what"] == what]


class CheckTest(Folder):
    """All checks, and each of them."""

    def test_every_line_has_the_device_and_the_commit(self):
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        found = [line["what"] for line in lines if line["what"] not in ("begin", "end")]
        self.assertEqual(found[:2], ["plan", "device"])
        for what in ("program", "suites", "tests", "kernels", "copy", "logits", "tokens", "model", "cpu_threads"):
            self.assertIn(what, found)
        for line in lines[1:]:
            self.assertEqual((line["device"], line["commit"]), ("D", "abc"))
        self.assertEqual(plans.missing(lines), [])

    def test_each_suite_of_tests_has_a_process_and_waits_for_its_kernels(self):
        self.program("cuda_device_tests", TESTS + PASSES.replace("      OK", " FAILED ") + "exit 1")
        _, lines, _ = self.run_checks("--plan", "a")
        suites = sorted((line for line in lines if line["what"] == "tests"), key=lambda line: line["suite"])
        self.assertEqual([(line["suite"], line["failed"]) for line in suites],
                         [("Every/Draw", ["Every/Draw.Draws/0"]), ("Stream", ["Stream.Runs"])])
        self.assertEqual(suites[1]["messages"],
                         {"Stream.Runs": "blocking 1, loading EAGER, --gtest_filter=Stream.*-*Slow*"})

    def test_a_suite_that_hangs_or_crashes_takes_no_other_along(self):
        self.patch(checks, "SUITE_SECONDS", 0.3)
        for last, why in (("sleep 30", "Stream ran past its limit of 0 s"), ("echo bad >&2; kill -SEGV $$", "SIGSEGV")):
            self.program("cuda_device_tests", f'{TESTS} case $suite in Stream*) {last};; esac\n{PASSES}')
            code, lines, _ = self.run_checks("--plan", "a")
            self.assertEqual(code, 1)
            found = {line["suite"]: line for line in lines if line["what"] == "tests"}
            self.assertEqual((found["Stream"]["failed"], found["Stream"]["died_in"]), (["Stream.Runs"], "Stream.Runs"))
            self.assertIn(why, found["Stream"]["why"])
            self.assertEqual((found["Every/Draw"]["passed"], found["Every/Draw"]["failed"]), (1, []))
            self.assertEqual(plans.missing(lines)[0], "tests")
            self.assertIn("tests: Stream", plans.missing(lines))

    def test_without_a_device_the_exit_code_is_77(self):
        self.program("gpu_check", "echo 'gpu_check: there is no CUDA device' >&2; exit 77")
        code, lines, _ = self.run_checks()
        self.assertEqual((code, [line["what"] for line in lines]), (77, ["plan"]))

    def test_without_a_driver_nothing_is_built(self):
        with mock.patch.object(check, "has_driver", return_value=False), mock.patch.object(check, "build") as build, \
                contextlib.redirect_stderr(io.StringIO()) as error:
            self.assertEqual(check.main([]), 77)
        build.assert_not_called()
        self.assertIn("there is no CUDA device", error.getvalue())

    def test_different_bits_are_a_failure(self):
        self.program("gpu_check", GPU_CHECK + "case \"$*\" in *invariance*) exit 1;; esac")
        code, lines, error = self.run_checks("--plan", "a")
        self.assertEqual(code, 1)
        self.assertEqual(self.of(lines, "failed", "check", "why"), [("invariance", "gpu_check ended with exit code 1")])
        self.assertIn("invariance: gpu_check ended", error)

    def test_shares_are_relative_to_the_copy_of_an_earlier_process(self):
        _, lines, _ = self.run_checks("--plan", "a")
        words = self.of(lines, "kernels", "words")
        self.assertNotIn("--copy-gbs", words[0])
        self.assertIn("--only products --commit abc --formats bf16 --rows 1,32,128,256,1024 --copy-gbs 4000", words[2])

    def test_models_are_left_out_by_a_program_without_cuda(self):
        self.program("lacuna", LACUNA.replace(", cuda:0", ""))
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        self.assertEqual(self.of(lines, "left_out", "check"),
                         ["logits llada-8b, bf16", "tokens, bf16", "logits llada-8b, f32", "tokens, f32", "model llada-8b",
                          "model sdar-8b", "model llada2-mini"])

    def test_logits_like_the_cpus_in_most_rows_are_no_failure(self):
        self.logits(misses=7)
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        self.assertEqual(self.of(lines, "logits", "difference", "same_best")[0], (0, 9))

    def test_other_logits_than_the_cpus_are_a_failure(self):
        self.logits(misses=9)
        code, _, error = self.run_checks()
        self.assertEqual(code, 1)
        self.assertIn("random:llada-8b,layers=2, bf16: logits differ by 1.4 of their size", error)

    def test_other_greedy_tokens_than_the_cpus_are_a_failure_in_f32_alone(self):
        self.program("lacuna", LACUNA.replace("run*)", "run*cuda:0) echo '{\"tokens\": [4, 9]}';;\n  run*)"))
        code, lines, error = self.run_checks()
        self.assertEqual(code, 1)
        self.assertEqual(self.of(lines, "tokens", "same"), [1, 1])
        self.assertIn("tokens, f32: mini-llada, f32: greedy tokens differ", error)
        self.assertNotIn("bf16: greedy", error)

    def test_a_type_that_the_device_refuses_is_left_out(self):
        self.program("lacuna", "case \"$*\" in *f32*cuda:0) echo 'no kernel' >&2; exit 2;; esac\n" + LACUNA)
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        self.assertEqual(self.of(lines, "left_out", "check"), ["logits llada-8b, f32", "mini-llada, f32", "tokens, f32"])
        self.assertIn("no kernel", self.of(lines, "left_out", "why")[0])


class PlanTest(Folder):
    """Plans for a short lease."""

    def test_limits_of_steps_fit_into_the_plan(self):
        for seconds, steps in plans.PLANS.values():
            self.assertLessEqual(sum(step.limit for step in steps), seconds)
        self.assertLessEqual(sum(step.limit for step in plans.PLANS["b"][1]) + plans.AGAIN_SECONDS, 400)

    def test_tools_that_are_missing_are_lines(self):
        self.patch(checks.shutil, "which", lambda *_, **__: None)
        code, lines, _ = self.run_checks("--plan", "a")
        self.assertEqual(code, 0)
        self.assertEqual(self.of(lines, "left_out", "check", "why"),
                         [("ncu", "ncu is not on this machine"), ("memcheck", "compute-sanitizer is not on this machine"),
                          ("racecheck", "compute-sanitizer is not on this machine")])
        self.assertEqual(plans.missing(lines), ["ncu", "memcheck", "racecheck"])

    def test_counters_and_errors_of_tools_become_lines(self):
        self.program("ncu", NCU)
        self.program("compute-sanitizer", "echo '========= ERROR SUMMARY: 2 errors'; exit 9")
        code, lines, _ = self.run_checks("--plan", "a")
        self.assertEqual(code, 1)
        self.assertEqual(self.of(lines, "ncu", "kernel", "metrics"),
                         [("attend", {"Duration [us]": "52.1", "Achieved Occupancy [%]": "12.5"})])
        self.assertEqual(self.of(lines, "failed", "why"), ["memcheck: ========= ERROR SUMMARY: 2 errors",
                                                           "racecheck: ========= ERROR SUMMARY: 2 errors"])

    def test_a_step_that_runs_past_its_limit_leaves_the_others_their_time(self):
        self.patch(plans, "PLANS", {"a": (60, (plans.kernels("products", 2.2), plans.kernels("peaks", 5)))})
        self.program("gpu_check", GPU_CHECK.replace("*peaks*", f"*products*) echo '{{{COMMON}, \"what\": \"product\"}}'; "
                                                    "exec sleep 30;;\n  *peaks*"))
        code, lines, _ = self.run_checks("--plan", "a")
        self.assertEqual(code, 0)
        self.assertEqual(self.of(lines, "left_out", "check"), ["products"])
        self.assertIn("ran past its limit of 2 s", self.of(lines, "left_out", "why")[0])
        found = [line["what"] for line in lines]
        self.assertIn("product", found)  # what it had printed
        self.assertIn("copy", found)

    def test_plan_b_begins_with_what_plan_a_lacks(self):
        self.program("gpu_check", GPU_CHECK + "case \"$*\" in *invariance*) exit 1;; esac")
        self.program("cuda_device_tests", TESTS + "case $suite in Stream*) exit 3;; esac\n" + PASSES)
        self.program("ncu", NCU)
        self.program("compute-sanitizer", "shift 4; exec \"$@\"")
        _, lines, _ = self.run_checks("--plan", "a")
        self.assertEqual(plans.missing(lines), ["tests", "invariance", "tests: Stream"])
        earlier = self.folder / "a.jsonl"
        self.out.rename(earlier)
        _, lines, _ = self.run_checks("--plan", "b", "--again", str(earlier))
        self.assertEqual(lines[0]["steps"][:4], ["facts", "tests", "invariance", "model sdar-8b"])
        self.assertEqual(self.of(lines, "tests", "suite"), ["Stream"])

    def test_what_does_not_fit_into_the_time_is_left_out(self):
        code, lines, _ = self.run_checks("--minutes", "0.03")
        self.assertEqual(code, 0)
        self.assertTrue(self.of(lines, "left_out", "check"))
        self.assertEqual(set(plans.missing(lines)), set(lines[0]["steps"]))

    def test_a_rehearsal_runs_the_steps_in_the_simulator(self):
        self.patch(plans, "PLANS", {"a": (60, (plans.kernels("products", 5, "--rows", "9"), plans.model("llada-8b", 5)))})
        for name, path in check.SIMULATED.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            if self.folder / path != self.folder / name:
                (self.folder / name).rename(self.folder / path)
        (self.folder / "lacuna").write_text("#!/bin/sh\n" + LACUNA.replace("cuda:0", "simulator"), encoding="utf-8")
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            code = check.main(["--rehearse", "--plan", "a", "--no-build", "--build", str(self.folder), "--out", str(self.out)])
        lines = running.read_lines(self.out)
        self.assertEqual(code, 0)
        self.assertIn("--only products --commit abc --tiny", self.of(lines, "kernels", "words"))
        self.assertIn("-m models/mini-llada --canvas 32 --rows 8 --repeat 1 --device simulator",
                      self.of(lines, "model", "command")[0])


class KilledTest(Folder):
    """A run that ends at any moment."""

    def test_ten_runs_that_were_killed_name_what_they_lack(self):
        for name, body in (("gpu_check", GPU_CHECK), ("cuda_device_tests", TESTS + PASSES), ("lacuna", LACUNA)):
            self.program(name, "sleep 0.02\n" + body)
        lacking = []
        for _ in range(10):
            self.out.unlink(missing_ok=True)
            run = os.fork()
            if run == 0:
                with open(os.devnull, "w", encoding="utf-8") as nothing, contextlib.redirect_stderr(nothing), \
                        contextlib.redirect_stdout(nothing):
                    os._exit(check.main(["--packed", str(self.folder), "--plan", "a", "--out", str(self.out)]))
            while not self.out.exists() or self.out.stat().st_size == 0:
                time.sleep(0.005)
            time.sleep(random.uniform(0, 0.4))
            os.kill(run, signal.SIGKILL)
            os.waitpid(run, 0)
            text = self.out.read_text(encoding="utf-8")
            self.assertTrue(text.endswith("\n"))
            lines = [json.loads(line) for line in text.splitlines()]
            ended = {line["step"] for line in lines if line["what"] == "end" and line["outcome"] == "done"}
            lacking.append([name for name in plans.missing(lines) if not name.startswith("tests: ")])
            self.assertEqual(lacking[-1], [name for name in lines[0]["steps"] if name not in ended])
            with contextlib.redirect_stdout(io.StringIO()) as named:
                check.main(["--missing", str(self.out)])
            self.assertEqual(named.getvalue().split("\n")[:len(lacking[-1])], lacking[-1] or ["nothing"][:0])
        self.assertTrue(any(lacking))

    def test_a_line_that_was_cut_off_is_left_out(self):
        self.out.write_text('{"what": "plan", "steps": ["facts"]}\n{"what": "en', encoding="utf-8")
        self.assertEqual(plans.missing(running.read_lines(self.out)), ["facts"])


class PackTest(Folder):
    """Programs for another machine."""

    def test_a_pack_is_small_and_names_nothing_of_this_tree(self):
        built, packed = self.folder / "built", self.folder / "packed"
        for name, path in check.PROGRAMS.items():
            (built / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).rename(built / path)
        shutil.copy2(self.folder / "logits.py", built)
        self.patch(check, "libraries_of", lambda _: [])
        self.patch(check, "commit", lambda *_: "abc")
        with mock.patch.object(check.subprocess, "run"), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertIsNone(check.pack(built, packed, 1))
            self.assertIn("cuda_device_tests", said.getvalue())
            self.assertIn("expected at most --max-mib 0.0001", check.pack(built, packed, 0.0001))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = check.main(["--packed", str(packed), "--plan", "a", "--out", str(self.out)])
        self.assertEqual(code, 0)
        self.assertEqual(len(self.of(running.read_lines(self.out), "tests", "suite")), 2)
        (built / check.PROGRAMS["cuda_device_tests"]).write_bytes(str(check.ROOT).encode())
        with mock.patch.object(check.subprocess, "run"), contextlib.redirect_stdout(io.StringIO()):
            self.assertIn("cuda_device_tests holds the path", check.pack(built, packed, 1))


if __name__ == "__main__":
    unittest.main()
