"""The checks of check.py: each runs programs, and writes lines about what they print."""
import array
import ast
import csv
import json
import math
import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import plans
from running import Job, Runner

ROOT = Path(__file__).resolve().parents[2]
MODELS_FOLDER = ROOT / "models"
COMMON = ("device", "driver", "cuda", "commit")
# Kernels are loaded when a program begins, not when one is first launched, which may be while a graph is recorded.
ENVIRONMENT = {"CUDA_MODULE_LOADING": "EAGER"}
# Of tests: an error is that of its launch, and the CPU that devices are compared with has the same kernels on every machine: with
# others, experts that nearly tie for a place are chosen otherwise.
TESTS_ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "1", **({"LACUNA_ISA": "avx2"} if platform.machine() == "x86_64" else {})}
SUITE_SECONDS = 20
SUITES_AT_ONCE = 4  # most of a suite's time goes to begin its process; nothing is timed
LEAST_SECONDS = 2  # that are left for a step to begin

# Published shapes with random weights are cut to two layers unless more are named.
LAYERS = 2
LAYERS_OF = {"diffusion-gemma": 6}  # its sixth layer is the first without a window
ROWS = 16
PROMPT = "Q: 17 + 25 = ? A:"
CPU_MODEL = "random:llada-8b,layers=2"


def bound(dtype, layers):
    """How far a row's logits may lie from the CPU's, as a part of their root mean square. bf16: six roundings in a layer and
    one in the head, which add up like independent ones (tests/backend/cuda/logits.h derives it). f32: sums in other orders."""
    return 2**-9 * math.sqrt(6 * layers + 1) if dtype == "bf16" else 2e-4


class Failed(Exception):
    """A check that cannot be run; the message is a sentence."""


def read_npy(path):
    """Rows of a NumPy file of f32."""
    data = path.read_bytes()
    begin = data.index(b"\n") + 1
    count, columns = ast.literal_eval(data[data.index(b"{"):begin].decode().strip())["shape"]
    values = array.array("f", data[begin:])
    return [values[row * columns:(row + 1) * columns] for row in range(count)]


def relative_difference(row, other):
    """Root mean square of the difference, relative to that of `other`."""
    squares = sum((a - b) * (a - b) for a, b in zip(row, other))
    return math.sqrt(squares / sum(b * b for b in other))


def best(row):
    """The token with the largest logit."""
    return max(range(len(row)), key=row.__getitem__)


def last_object(output):
    """The last JSON object of some lines."""
    found = [line for line in output if line.startswith("{") and line.endswith("}")]
    if not found:
        raise Failed("a program printed no JSON")
    return json.loads(found[-1])


def profiled_kernels(output):
    """Kernels of ncu's table, with the metrics of each."""
    begin = next((i for i, line in enumerate(output) if line.startswith('"ID"')), len(output))
    found = {}
    for row in csv.DictReader(output[begin:]):
        kernel = found.setdefault(row.get("ID"), {"kernel": row.get("Kernel Name"), "grid": row.get("Grid Size"),
                                                  "block": row.get("Block Size"), "metrics": {}})
        if row.get("Metric Name"):
            kernel["metrics"][f"{row['Metric Name']} [{row['Metric Unit']}]"] = row["Metric Value"]
    return list(found.values())


class Suite:
    """Tests of one suite, from what GoogleTest prints while they run."""

    def __init__(self, name):
        self.name, self.passed, self.skipped, self.failed, self.messages = name, 0, 0, [], {}
        self.running, self._said = None, []

    def read(self, line):
        """Takes one line."""
        mark, _, rest = line.partition("] ")
        test = rest.split(" (")[0].split(",")[0].strip()
        if mark == "[ RUN      ":
            self.running, self._said = test, []
        elif self.running is None:
            return
        elif mark in ("[       OK ", "[  SKIPPED ", "[  FAILED  ") and test == self.running:
            self.passed += mark == "[       OK "
            self.skipped += mark == "[  SKIPPED "
            if mark == "[  FAILED  ":
                self.failed.append(test)
                self.messages[test] = "\n".join(self._said)
            self.running = None
        elif sum(map(len, self._said)) < 1500:
            self._said.append(line)

    def line(self, job):
        """Values of the line that says how the process has ended."""
        found = {"suite": self.name, "passed": self.passed, "skipped": self.skipped, "failed": list(self.failed),
                 "seconds": round(job.seconds, 2)}
        if self.running is not None:
            found["failed"].append(self.running)
            found["died_in"] = self.running
        if self.messages:
            found["messages"] = self.messages
        problem = job.problem()
        return {**found, "why": problem} if problem else found


class Checks:
    """Runs steps, and writes lines with what they have in common.

    programs  paths by name
    earlier   lines of another run, of which tests that passed are not run again; empty: all run
    tiny      with small sizes, for the simulator
    """

    def __init__(self, programs, lines, log, seconds, environment, *, device="cuda:0", earlier=(), tiny=False, slower=1):
        self._programs, self._lines, self._device, self._tiny, self._slower = programs, lines, device, tiny, slower
        self._runner = Runner(log, {**environment, **ENVIRONMENT})
        self._all_end = self._end = time.monotonic() + seconds
        self._lacking = {name.removeprefix("tests: ") for name in plans.missing(earlier) if name.startswith("tests: ")}
        self._copy_gbs = None
        self.failed = []

    def add(self, what, **more):
        """Writes a line."""
        self._lines.add(what, **more)

    def take(self, step):
        """Runs a step; what it raises, and that it has ended, are lines."""
        begun = time.monotonic()
        self._end = min(begun + step.limit, self._all_end)
        self.add("begin", step=step.name, limit=step.limit)
        outcome = "done"
        try:
            if self._end - begun < LEAST_SECONDS:
                raise Failed("time was out")
            problem = getattr(self, step.method)(*step.arguments)
            if problem:
                outcome = "failed"
                self.failed.append(f"{step.name}: {problem}")
                self.add("failed", check=step.name, why=problem)
        except Failed as failure:
            outcome = "left_out"
            self.add("left_out", check=step.name, why=str(failure))
        self.add("end", step=step.name, outcome=outcome, seconds=round(time.monotonic() - begun, 2))

    def job(self, name, *words, tool=(), on_line=None):
        """A program's job, for what is left of the step."""
        program = self._programs[name]
        if not program.exists():
            raise Failed(f"{name} is not built")
        return Job([*tool, str(program), *words], self._end - time.monotonic(), on_line, name=name)

    def run(self, job):
        """Runs a job to its end."""
        return next(iter(self._runner.run([job], self._end)))

    def output(self, name, *words, tool=()):
        """(ended job, lines that it printed); fails where time was out."""
        output = []
        job = self.run(self.job(name, *words, tool=tool, on_line=output.append))
        if job.code is None:
            raise Failed(job.problem())
        return job, output

    def find_device(self, commit):
        """Takes over what lines have in common; returns the exit code of gpu_check."""
        job, output = self.output("gpu_check", "--only-device", "--commit", commit)
        if job.code == 0:
            first = last_object(output)
            self._lines.common = {key: first[key] for key in COMMON}
            self.add(first["what"], **{key: value for key, value in first.items() if key not in (*COMMON, "what")})
        else:
            print(f"gpu-check: {job.problem()}", file=sys.stderr)
        return job.code

    def facts(self):
        """The machine, and which program there is."""
        if shutil.which("nvidia-smi"):
            keys = ("driver_version,pstate,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu,ecc.mode.current,"
                    "mig.mode.current")
            output = []
            self.run(Job(["nvidia-smi", f"--query-gpu={keys}", "--format=csv,noheader"], 5, output.append, name="nvidia-smi"))
            self.add("nvidia_smi", query=keys, result=output)
        _, version = self.output("lacuna", "--version")
        self.add("program", version=" ".join(version), cores=len(os.sched_getaffinity(0)),
                 libc=os.confstr("CS_GNU_LIBC_VERSION"))

    def kernels(self, section, *words):
        """A section of gpu_check, whose lines are written as they come."""
        def take(line):
            if not line.startswith("{") or not line.endswith("}"):
                return
            found = json.loads(line)
            self._copy_gbs = found.get("copy_gbs", self._copy_gbs)
            what = found.pop("what")
            if what != "device":
                self.add(what, **{key: value for key, value in found.items() if key not in COMMON})
        if self._copy_gbs and section != "peaks":
            words = (*words, "--copy-gbs", str(self._copy_gbs))
        if self._tiny:
            words = ("--tiny",)
        job = self.run(self.job("gpu_check", "--only", section, "--commit", self._lines.common["commit"], *words,
                                on_line=take))
        if job.code is None:
            raise Failed(job.problem())
        return job.problem()

    def tests(self):
        """Kernel tests: a process for each suite, so that one that hangs or breaks the device takes no other along."""
        _, listed = self.output("cuda_device_tests", "--gtest_list_tests", "--gtest_filter=-*Slow*")
        names = [line.split(".")[0] for line in listed if line.split("#")[0].rstrip().endswith(".") and line[0] != " "]
        names = [name for name in names if not self._lacking or name in self._lacking]
        self.add("suites", names=names)
        suites = {}
        for name in names:
            suite = Suite(name)
            job = self.job("cuda_device_tests", f"--gtest_filter={name}.*-*Slow*", on_line=suite.read)
            job.name, job.limit, job.environment = name, SUITE_SECONDS * self._slower, TESTS_ENVIRONMENT
            suites[name] = (suite, job)
        bad, not_begun = [], []
        for job in self._runner.run([job for _, job in suites.values()], self._end, SUITES_AT_ONCE):
            if not job.was_begun:
                not_begun.append(job.name)
                continue
            line = suites[job.name][0].line(job)
            self.add("tests", **line)
            if "why" in line:
                bad.append(", ".join(line["failed"]) or job.name)
        if not_begun:
            self.add("left_out", check="tests", why=f"time was out before {', '.join(not_begun)}")
        return f"cuda_device_tests: {', '.join(bad)}" if bad else None

    def lacuna(self, what, words, **more):
        """A line with what a command of the program prints as one JSON object."""
        job, output = self.output("lacuna", *words)
        if job.code != 0:
            return job.problem()
        self.add(what, command=f"lacuna {' '.join(words)}", **more, result=last_object(output))
        return None

    def model(self, name, *words):
        """Passes of a model on the device."""
        self.require_device()
        return self.lacuna("model", ["bench", "step", "-m", name, *words, "--device", self._device, "--json"])

    def require_device(self):
        """Fails where the program has no backend for the device."""
        version = " ".join(self.output("lacuna", "--version")[1])
        if self._device.split(":")[0] not in version.lower():
            raise Failed(f"this program computes on the CPU alone: {version.strip()}")

    def on_both(self, words, read):
        """Results of `read` for a command's output, on the device and on the CPU."""
        found = []
        for device in (self._device, "cpu"):
            job, output = self.output("lacuna", *words, "--device", device)
            if job.code != 0:
                raise Failed(f"`lacuna {' '.join(words)} --device {device}`: {job.problem()}")
            found.append(read(output))
        return found

    def compare_logits(self, name, dtype):
        """A line about the logits of one pass; returns a problem or None."""
        self.require_device()
        layers = LAYERS_OF.get(name, LAYERS)
        model = str(ROOT / name) if "/" in name else f"random:{name},layers={layers}"
        with tempfile.TemporaryDirectory() as folder:
            request, out = Path(folder) / "request.json", Path(folder) / "logits.npy"
            request.write_text(json.dumps({"tokens": [(37 * i + 11) % 1000 for i in range(ROWS)]}), encoding="utf-8")
            words = ("logits", "-m", model, "--dtype", dtype, "--request", str(request), "--out", str(out))
            rows, expected = self.on_both(words, lambda _: read_npy(out))
        # Of models with experts, a row whose router nearly ties may choose another expert: the median leaves such rows out.
        differences = [relative_difference(*pair) for pair in zip(rows, expected)]
        median = statistics.median(differences)
        self.add("logits", model=model, dtype=dtype, rows=ROWS, vocabulary=len(rows[0]), difference=median,
                 largest_difference=max(differences), bound=bound(dtype, layers),
                 same_best=sum(best(row) == best(other) for row, other in zip(rows, expected)))
        return None if median <= bound(dtype, layers) else f"{model}, {dtype}: logits differ by {median:.2g} of their size"

    def compare_tokens(self, model, dtype):
        """A line about greedy tokens; returns a problem or None."""
        words = ("run", "-m", str(model), "--dtype", dtype, "--prompt", PROMPT, "--gen-length", "16", "--temperature", "0",
                 "--json")
        tokens, expected = self.on_both(words, lambda output: last_object(output)["tokens"])
        self.add("tokens", model=model.name, dtype=dtype, tokens=len(expected),
                 same=sum(a == b for a, b in zip(tokens, expected)))
        # In bf16 another token may win where two nearly tie, and change all that are denoised after it.
        return f"{model.name}, {dtype}: greedy tokens differ" if dtype == "f32" and tokens != expected else None

    def compare_small_models(self, dtype, pattern):
        """Greedy tokens of the small models whose names match."""
        self.require_device()
        problems, reasons = [], []
        models = sorted(path.parent for path in MODELS_FOLDER.glob("mini-*/config.json")
                        if re.fullmatch(pattern, path.parent.name))
        for model in models:
            try:
                problems.append(self.compare_tokens(model, dtype))
            except Failed as failure:
                reasons.append(str(failure))
                self.add("left_out", check=f"{model.name}, {dtype}", why=str(failure))
        if reasons and len(reasons) == len(models):
            raise Failed("no model was compared")
        return "; ".join(filter(None, problems)) or None

    def require_tool(self, name):
        """Path of a program of CUDA's; fails without it."""
        found = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
        if not found:
            raise Failed(f"{name} is not on this machine")
        return found

    def profile(self):
        """Counters of some kernels: products at 32 and 1,024 rows, attention, draws."""
        tool = (self.require_tool("ncu"), "--clock-control", "none", "--csv", "--page", "details",
                "--kernel-name", "regex:product|attend|merge|draw", "--filter-mode", "per-launch-config", "--launch-count", "1",
                *(word for section in ("SpeedOfLight", "Occupancy", "WarpStateStats", "LaunchStats")
                  for word in ("--section", section)))
        words = ("--only", "products,attention,statistics", "--once", "--formats", "bf16", "--rows", "32,1024",
                 "--shapes", "8b attention output,8b gate and up,8b down,sdar-8b", "--attention-rows", "32", "--cells", "32768")
        job, output = self.output("gpu_check", *words, tool=tool)
        kernels = profiled_kernels(output)
        for kernel in kernels:
            self.add("ncu", **kernel)
        if not kernels:
            raise Failed(f"ncu gave no counters: {job.problem() or job.tail.strip()}")

    def sanitize(self, kind):
        """A tiny request under compute-sanitizer."""
        tool = (self.require_tool("compute-sanitizer"), "--tool", kind, "--error-exitcode", "9")
        job, output = self.output("lacuna", "run", "-m", str(MODELS_FOLDER / "mini-llada"), "--prompt", PROMPT,
                                  "--gen-length", "2", "--temperature", "0", "--device", self._device, "--json", tool=tool)
        said = [line for line in output if line.startswith("=========")]
        self.add("sanitizer", tool=kind, exit_code=job.code, said=said[:12], summary=said[-1:])
        if job.code not in (0, 9):
            raise Failed(job.problem())
        return f"{kind}: {said[-1]}" if job.code == 9 and said else None

    def threads(self, model=CPU_MODEL):
        """The CPU's kernels by threads."""
        cores = len(os.sched_getaffinity(0))
        counts = [count for count in (1, 2, 4, 8, 16) if count <= cores]
        name = next((line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                     if line.startswith("model name")), "unknown")
        words = ["bench", "step", "-m", model, "--canvas", "1024", "--rows", "256,32", "--repeat", "3", "--by-threads",
                 ",".join(map(str, counts)), "--json"]
        return self.lacuna("cpu_threads", words, processor=name, cores=cores)
