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
LACUNA = """
case "$*" in
  --version) echo 'lacuna 0.2.0 (amx; devices: cpu, cuda:0)';;
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
                         ["tests", "device", "copy", "model", "model", "model", "cpu_threads"])
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
        self.assertEqual([line["check"] for line in lines if line["what"] == "left_out"], ["models"])

    def test_what_does_not_fit_into_the_time_is_left_out(self):
        self.program("cuda_device_tests", "exec sleep 60")
        code, lines, _ = self.run_checks("--minutes", "0.1")
        self.assertEqual(code, 0)
        self.assertEqual({line["what"] for line in lines}, {"left_out"})


if __name__ == "__main__":
    unittest.main()
