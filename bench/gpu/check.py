"""Everything that needs a CUDA device, in one command; `make gpu-check` runs it.

    python3 bench/gpu/check.py                     builds the preset `cuda`, and runs all checks
    python3 bench/gpu/check.py --pack FOLDER       builds, and copies the programs with the libraries that they need
    python3 FOLDER/check.py --packed FOLDER        runs what was packed, on a machine without compilers

The checks: kernel tests, bits, peaks and times of kernels (gpu_check), logits of random models and greedy tokens of small
trained ones against the CPU's, passes of whole models on the device, the CPU by threads.
Each line of --out is one JSON object with device, driver, cuda, commit and what; `python3 tools/results gpu` makes
docs/results/gpu.md of them. What does not fit into --minutes is left out, and a line says so.
Exit codes: 0, 1: something failed, 2: wrong usage, 77: there is no device. Only the standard library is used.
"""
import argparse
import array
import ast
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODELS_FOLDER = HERE / "models" if (HERE / "models").exists() else ROOT / "models"  # a packed folder has its own
NO_DEVICE = 77
PROGRAMS = {"gpu_check": "bench/gpu/gpu_check", "cuda_device_tests": "tests/backend/cuda/cuda_device_tests",
            "lacuna": "lacuna"}
LIBRARIES_OF_THE_SYSTEM = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "ld-linux", "linux-vdso")

MODELS = (  # shapes with random weights
    "bench step -m random:llada-8b --canvas 1024 --rows 1024,256,32",
    "bench step -m random:sdar-8b --canvas 8192 --rows 32,4",
    "bench step -m random:llada2-mini --canvas 1024 --rows 128,32",
)
CPU = "bench step -m random:llada-8b,layers=2 --canvas 1024 --rows 256,32 --repeat 3"

# Published shapes with random weights, cut to two layers unless more are named. Their logits on the device and on the CPU are
# compared, and greedy tokens of the small trained models in models/.
LAYERS = 2
LAYERS_OF = {"diffusion-gemma": 6}  # its sixth layer is the first without a window
COMPARED = ("llada-8b", "dream-7b", "sdar-1.7b", "fast-dllm-v2-7b", "gidd-3b", "sumi-7b", "qwen3-0.6b", "llada-moe-7b",
            "llada2-mini", "llada2.2-mini", "nemotron-labs-diffusion-3b-base", "diffusion-gemma")
ROWS = 16
PROMPT = "Q: 17 + 25 = ? A:"


def bound(dtype, layers):
    """How far a row's logits may lie from the CPU's, as a part of their root mean square. bf16: six roundings in a layer and
    one in the head, which add up like independent ones (tests/backend/cuda/logits.h derives it). f32: sums in other orders."""
    return 2**-9 * math.sqrt(6 * layers + 1) if dtype == "bf16" else 2e-4


class Failed(Exception):
    """A check that cannot be run; the message is a sentence."""


def has_driver():
    """Whether there can be a device; decided before minutes of building."""
    return shutil.which("nvidia-smi") is not None or any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/dxg"))


def commit():
    """Name of the commit; a packed folder has it in a file."""
    packed = HERE / "commit"
    if packed.exists():
        return packed.read_text(encoding="utf-8").strip()
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def build(folder, jobs):
    """Configures and builds the preset `cuda`."""
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "cuda"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", str(folder), "-j", str(jobs), "--target", *PROGRAMS], cwd=ROOT, check=True)


def libraries_of(program):
    """Shared libraries that a program needs and that another Linux may lack."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    paths = [line.split("=> ")[1].split(" ")[0] for line in listed.splitlines() if "=> /" in line]
    return [Path(path) for path in paths if not Path(path).name.startswith(LIBRARIES_OF_THE_SYSTEM)]


def pack(built, folder):
    """Copies programs, libraries and this file."""
    (folder / "lib").mkdir(parents=True, exist_ok=True)
    for name, path in PROGRAMS.items():
        if not (built / path).exists():
            continue
        shutil.copy2(built / path, folder / name)
        subprocess.run(["strip", str(folder / name)], check=False)
        for library in libraries_of(built / path):
            shutil.copy2(library, folder / "lib" / library.name)
    shutil.copytree(ROOT / "models", folder / "models", dirs_exist_ok=True)
    shutil.copy2(__file__, folder / "check.py")
    (folder / "commit").write_text(commit() + "\n", encoding="utf-8")


def cublaslt():
    """The library that Python packages of CUDA bring, for where the linker does not find one; "" without it."""
    found = [path for folder in sys.path if folder for path in Path(folder).glob("nvidia/*/lib/libcublasLt.so.13")]
    return str(found[0]) if found else ""


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


class Checks:
    """Runs programs and writes lines with what they have in common."""

    def __init__(self, programs, out, minutes, environment):
        self._programs, self._out, self._environment = programs, out, environment
        self._end = time.monotonic() + 60 * minutes
        self.common, self.failed = {}, []
        self.device = "cuda:0"
        self.models_at = sorted(path.parent for path in MODELS_FOLDER.glob("mini-*/config.json"))

    def add(self, what, **more):
        """Writes a line."""
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**self.common, "what": what, **more}) + "\n")

    def run(self, name, *words):
        """(exit code, standard output) of a program; the code is None where time is out."""
        program = self._programs[name]
        if not program.exists():
            raise Failed(f"{name} is not built")
        left = self._end - time.monotonic()
        if left < 5:
            return None, ""
        print(f"  {name} {' '.join(words)}", file=sys.stderr, flush=True)
        try:
            done = subprocess.run([str(program), *words], stdout=subprocess.PIPE, text=True, timeout=left, check=False,
                                  env=self._environment)
        except subprocess.TimeoutExpired as late:
            output = late.stdout or ""
            return None, output if isinstance(output, str) else output.decode(errors="replace")
        return done.returncode, done.stdout

    def step(self, name, function):
        """Runs a check; what it raises is a line."""
        try:
            problem = function()
        except Failed as failure:
            self.add("left_out", check=name, why=str(failure))
            return
        if problem:
            self.failed.append(f"{name}: {problem}")
            self.add("failed", check=name, why=problem)

    def kernels(self):
        """Bits, peaks and times of kernels."""
        code, output = self.run("gpu_check", "--commit", self.common["commit"])
        for line in output.splitlines():
            if line.endswith("}"):
                found = json.loads(line)
                self.add(found.pop("what"), **{key: value for key, value in found.items() if key not in self.common})
        if code is None:
            raise Failed("time was out")
        return None if code == 0 else f"gpu_check ended with exit code {code}"

    def tests(self):
        """Kernel tests."""
        code, output = self.run("cuda_device_tests", "--gtest_brief=1")
        if code is None:
            raise Failed("time was out")
        passed = [line for line in output.splitlines() if "[  PASSED  ]" in line]
        failed = [line.split("] ")[1].split(" (")[0].split(",")[0] for line in output.splitlines()
                  if line.startswith("[  FAILED  ] ")]
        failed = sorted({name for name in failed if "." in name})
        self.add("tests", passed=int(passed[0].split("] ")[1].split(" ")[0]) if passed else 0, failed=failed)
        return None if code == 0 else f"cuda_device_tests ended with exit code {code}: {', '.join(failed)}"

    def lacuna(self, what, command, **more):
        """A command of the program that prints one JSON object."""
        code, output = self.run("lacuna", *command.split(), "--json")
        if code is None:
            raise Failed("time was out")
        if code != 0:
            return f"`lacuna {command}` ended with exit code {code}"
        self.add(what, command=f"lacuna {command}", **more, result=json.loads(output.splitlines()[-1]))
        return None

    def require_cuda(self):
        """Fails where the program has no backend for the device."""
        _, version = self.run("lacuna", "--version")
        if "cuda" not in version.lower():
            raise Failed(f"this program computes on the CPU alone: {version.strip()}")

    def on_both(self, words, read):
        """Results of `read` for a command's output, on the device and on the CPU."""
        found = []
        for device in (self.device, "cpu"):
            code, output = self.run("lacuna", *words, "--device", device)
            if code is None:
                raise Failed("time was out")
            if code != 0:
                raise Failed(f"`lacuna {' '.join(words)} --device {device}` ended with exit code {code}")
            found.append(read(output))
        return found

    def compare_logits(self, folder, name, dtype):
        """A line about the logits of one pass; returns a problem or None."""
        layers = LAYERS_OF.get(name, LAYERS)
        model = f"random:{name},layers={layers}"
        tokens = [(37 * i + 11) % 1000 for i in range(ROWS)]
        request, out = folder / "request.json", folder / "logits.npy"
        request.write_text(json.dumps({"tokens": tokens}), encoding="utf-8")
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
        tokens, expected = self.on_both(words, lambda output: json.loads(output.splitlines()[-1])["tokens"])
        self.add("tokens", model=model.name, dtype=dtype, tokens=len(expected),
                 same=sum(a == b for a, b in zip(tokens, expected)))
        # In bf16 another token may win where two nearly tie, and change all that are denoised after it.
        return f"{model.name}, {dtype}: greedy tokens differ" if dtype == "f32" and tokens != expected else None

    def agreement(self, dtype):
        """Logits and greedy tokens on the device against the CPU's."""
        self.require_cuda()
        problems = []
        with tempfile.TemporaryDirectory() as folder:
            checks = [(name, lambda name=name: self.compare_logits(Path(folder), name, dtype)) for name in COMPARED]
            checks += [(model.name, lambda model=model: self.compare_tokens(model, dtype)) for model in self.models_at]
            for name, function in checks:
                try:
                    problems.append(function())
                except Failed as failure:
                    self.add("left_out", check=f"{name}, {dtype}", why=str(failure))
        return "; ".join(filter(None, problems)) or None

    def agreement_bf16(self):
        """In bf16."""
        return self.agreement("bf16")

    def agreement_f32(self):
        """In f32, where the greedy tokens have to be equal."""
        return self.agreement("f32")

    def models(self):
        """Passes of whole models on the device."""
        self.require_cuda()
        problems = [self.lacuna("model", f"{command} --device {self.device}") for command in MODELS]
        return "; ".join(filter(None, problems)) or None

    def threads(self):
        """The CPU's kernels by threads."""
        cores = len(os.sched_getaffinity(0))
        counts = [count for count in (1, 2, 4, 8, 16) if count <= cores]
        name = next((line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                     if line.startswith("model name")), "unknown")
        return self.lacuna("cpu_threads", f"{CPU} --by-threads {','.join(map(str, counts))}", processor=name,
                           cores=cores)


def parse_arguments(arguments):
    """Command line flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cuda", help="build folder of the preset `cuda`")
    parser.add_argument("--no-build", action="store_true", help="run what --build has")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="build and pack; runs nothing")
    parser.add_argument("--packed", type=Path, metavar="FOLDER", help="run what was packed")
    parser.add_argument("--out", type=Path, default=Path("build/gpu/gpu.jsonl"),
                        help="file of lines (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=9.5, help="time for all checks, after the build")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="of the build")
    return parser.parse_args(arguments)


def run_checks(programs, options, environment):
    """Runs everything; returns the exit code."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.unlink(missing_ok=True)
    checks = Checks(programs, options.out, options.minutes, environment)
    try:
        code, device = checks.run("gpu_check", "--only-device", "--commit", commit())
    except Failed as failure:
        print(f"gpu-check: {failure}", file=sys.stderr)
        return 1
    if code != 0:
        return code if code is not None else 1
    first = json.loads(device)
    checks.common = {key: first[key] for key in ("device", "driver", "cuda", "commit")}
    for name in ("tests", "kernels", "agreement_bf16", "agreement_f32", "models", "threads"):
        checks.step(name, getattr(checks, name))
    print(options.out)
    for problem in checks.failed:
        print(f"gpu-check: {problem}", file=sys.stderr)
    return 1 if checks.failed else 0


def main(arguments):
    """Returns the exit code."""
    options = parse_arguments(arguments)
    environment = dict(os.environ)
    if "LACUNA_CUBLASLT" not in environment and cublaslt():
        environment["LACUNA_CUBLASLT"] = cublaslt()
    if options.packed:
        programs = {name: options.packed.resolve() / name for name in PROGRAMS}
        environment["LD_LIBRARY_PATH"] = f'{options.packed.resolve() / "lib"}:{environment.get("LD_LIBRARY_PATH", "")}'
        return run_checks(programs, options, environment)
    if not options.pack and not has_driver():
        print("gpu-check: there is no CUDA device: this machine has no NVIDIA driver", file=sys.stderr)
        return NO_DEVICE
    try:
        if not options.no_build:
            build(options.build, options.jobs)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"gpu-check: the build failed: {error}", file=sys.stderr)
        return 1
    if options.pack:
        pack(options.build, options.pack)
        return 0
    return run_checks({name: options.build / path for name, path in PROGRAMS.items()}, options, environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
