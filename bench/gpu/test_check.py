"""Tests of check.py with programs that only print; no device is needed."""
import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import check

COMMON = '"device": "D", "driver": "13.0", "cuda": "13.0", "commit": "abc"'
GPU_CHECK = f"""
echo '{{{COMMON}, "what": "device", "capability": "9.0"}}'
case "$*" in *--only-device*) exit 0; esac
echo '{{{COMMON}, "what": "copy", "copy_gbs": 4000}}'
"""
TESTS = "echo '[  PASSED  ] 41 tests.'"
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
  logits*) exec python3 "$(dirname "$0")/logits.py" "$@";;
  run*) echo '{"tokens": [4, 8]}';;
  *--by-threads*) echo '{"isa": "amx", "by_threads": []}';;
  *) echo '{"results": []}';;
esac
"""


class CheckTest(unittest.TestCase):
    """A folder of programs, as --pack makes one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, body in (("gpu_check", GPU_CHECK), ("cuda_device_tests", TESTS), ("lacuna", LACUNA)):
            self.program(name, body)
        self.logits(misses=0)
        model = self.folder / "models" / "mini-one"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}", encoding="utf-8")
        for name, value in (("MODELS_FOLDER", self.folder / "models"), ("COMPARED", ("llada-8b",))):
            patch = mock.patch.object(check, name, value)
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
        out, error = self.folder / "gpu.jsonl", io.StringIO()
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            code = check.main(["--packed", str(self.folder), "--out", str(out), *more])
        lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
        return code, lines, error.getvalue()

    def test_every_line_has_the_device_and_the_commit(self):
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        self.assertEqual([line["what"] for line in lines],
                         ["tests", "device", "copy", *("logits", "tokens") * 2, "model", "model", "model", "cpu_threads"])
        for line in lines:
            self.assertEqual((line["device"], line["commit"]), ("D", "abc"))
        self.assertEqual(lines[0]["passed"], 41)

    def test_without_a_device_the_exit_code_is_77(self):
        self.program("gpu_check", "echo 'gpu_check: there is no CUDA device' >&2; exit 77")
        self.assertEqual(self.run_checks()[:2], (77, []))

    def test_without_a_driver_nothing_is_built(self):
        with mock.patch.object(check, "has_driver", return_value=False), mock.patch.object(check, "build") as build, \
                contextlib.redirect_stderr(io.StringIO()) as error:
            self.assertEqual(check.main([]), 77)
        build.assert_not_called()
        self.assertIn("there is no CUDA device", error.getvalue())

    def test_failed_tests_are_named(self):
        failed = "echo '[  FAILED  ] Stream.Runs (3 ms)'; echo '[  FAILED  ] Stream.Runs'; exit 1"
        self.program("cuda_device_tests", failed)
        code, lines, error = self.run_checks()
        self.assertEqual(code, 1)
        self.assertEqual(lines[0]["failed"], ["Stream.Runs"])
        self.assertIn("tests: cuda_device_tests ended with exit code 1: Stream.Runs", error)

    def test_different_bits_are_a_failure(self):
        self.program("gpu_check", GPU_CHECK + "exit 1")
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 1)
        self.assertIn({"check": "kernels", "why": "gpu_check ended with exit code 1"},
                      [{key: line.get(key) for key in ("check", "why")} for line in lines])

    def test_models_are_left_out_by_a_program_without_cuda(self):
        self.program("lacuna", LACUNA.replace(", cuda:0", ""))
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        self.assertEqual([line["check"] for line in lines if line["what"] == "left_out"],
                         ["agreement_bf16", "agreement_f32", "models"])

    def test_logits_like_the_cpus_in_most_rows_are_no_failure(self):
        self.logits(misses=7)
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        found = next(line for line in lines if line["what"] == "logits")
        self.assertEqual((found["difference"], found["same_best"]), (0, 9))
        self.assertAlmostEqual(found["largest_difference"], 2**0.5)

    def test_other_logits_than_the_cpus_are_a_failure(self):
        self.logits(misses=9)
        code, _, error = self.run_checks()
        self.assertEqual(code, 1)
        self.assertIn("random:llada-8b,layers=2, bf16: logits differ by 1.4 of their size", error)

    def test_other_greedy_tokens_than_the_cpus_are_a_failure_in_f32_alone(self):
        self.program("lacuna", LACUNA.replace("run*)", "run*cuda:0) echo '{\"tokens\": [4, 9]}';;\n  run*)"))
        code, lines, error = self.run_checks()
        self.assertEqual(code, 1)
        self.assertEqual([line["same"] for line in lines if line["what"] == "tokens"], [1, 1])
        self.assertIn("agreement_f32: mini-one, f32: greedy tokens differ", error)
        self.assertNotIn("agreement_bf16", error)

    def test_a_type_that_the_device_refuses_is_left_out(self):
        self.program("lacuna", "case \"$*\" in *f32*cuda:0) exit 2;; esac\n" + LACUNA)
        code, lines, _ = self.run_checks()
        self.assertEqual(code, 0)
        self.assertEqual([line["check"] for line in lines if line["what"] == "left_out"],
                         ["llada-8b, f32", "mini-one, f32"])

    def test_what_does_not_fit_into_the_time_is_left_out(self):
        self.program("cuda_device_tests", "exec sleep 60")
        code, lines, _ = self.run_checks("--minutes", "0.1")
        self.assertEqual(code, 0)
        self.assertEqual({line["what"] for line in lines}, {"left_out"})


if __name__ == "__main__":
    unittest.main()
