"""Everything that needs a CUDA device, in one command; `make gpu-check` runs it.

    python3 bench/gpu/check.py                     builds the preset `cuda`, and runs all checks
    python3 bench/gpu/check.py --pack FOLDER       builds, and writes an archive of the programs with their libraries
    python3 bench/gpu/check.py --packed FOLDER     runs what was packed, with the models of this tree, without compilers
    python3 bench/gpu/check.py --plan a|b          runs the steps of a short lease (plans.py) instead of all
    python3 bench/gpu/check.py --rehearse          runs the steps with small sizes in the simulator
    python3 bench/gpu/check.py --missing FILE      names the steps and suites of tests that a file of lines lacks

The checks: kernel tests, bits, peaks and times of kernels (gpu_check), logits of random models and greedy tokens of small
trained ones against the CPU's, passes of whole models on the device, the CPU by threads.
Each line of --out is one JSON object with device, driver, cuda, commit and what, and is written as soon as it exists: a run
that is killed has lost nothing. What programs print is in a file of the same name that ends in .log. `python3 tools/results gpu`
makes docs/results/gpu.md of the lines. What does not fit into the time is left out, and a line says so.
Exit codes: 0, 1: something failed, 2: wrong usage, 77: there is no device. Only the standard library is used.
"""
import argparse
import atexit
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import plans
from checks import ROOT, Checks, Failed
from running import Lines, read_lines

NO_DEVICE = 77
PROGRAMS = {"gpu_check": "bench/gpu/gpu_check", "cuda_device_tests": "tests/backend/cuda/cuda_device_tests",
            "lacuna": "lacuna"}
SIMULATED = {**PROGRAMS, "cuda_device_tests": "tests/backend/cuda/cuda_tests"}
ARCHIVE = "programs.tar.xz"
SLOWER = 20  # limits of a rehearsal
LIBRARIES_OF_THE_SYSTEM = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "ld-linux", "linux-vdso")


def has_driver():
    """Whether there can be a device; decided before minutes of building."""
    return shutil.which("nvidia-smi") is not None or any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/dxg"))


def commit(folder=None):
    """Name of the commit; a packed folder has it in a file."""
    packed = folder and folder / "commit"
    if packed and packed.exists():
        return packed.read_text(encoding="utf-8").strip()
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def build(preset, folder, jobs, targets):
    """Configures and builds a preset."""
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", preset], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", str(folder), "-j", str(jobs), "--target", *targets], cwd=ROOT, check=True)


def cublaslt():
    """The library that Python packages of CUDA bring, for where the linker does not find one; "" without it."""
    found = [path for folder in sys.path if folder for path in Path(folder).glob("nvidia/*/lib/libcublasLt.so.13")]
    return str(found[0]) if found else ""


def libraries_of(program):
    """Shared libraries that a program needs and that another Linux may lack."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    paths = [line.split("=> ")[1].split(" ")[0] for line in listed.splitlines() if "=> /" in line]
    return [Path(path) for path in paths if not Path(path).name.startswith(LIBRARIES_OF_THE_SYSTEM)]


def pack(built, folder, max_mib):
    """Writes programs and libraries to an archive; returns a problem or None. Models are not copied: they are in the tree, which
    comes along."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        loose = Path(temporary)
        (loose / "lib").mkdir()
        for name, path in PROGRAMS.items():
            shutil.copy2(built / path, loose / name)
            for library in libraries_of(built / path):
                shutil.copy2(library, loose / "lib" / library.name)
        for file in (*(loose / name for name in PROGRAMS), *(loose / "lib").iterdir()):
            subprocess.run(["strip", "--strip-unneeded", str(file)], check=True)
        (loose / "commit").write_text(commit() + "\n", encoding="utf-8")
        if str(ROOT).encode() in (loose / "cuda_device_tests").read_bytes():
            return f"cuda_device_tests holds the path {ROOT}, where another machine has nothing"
        for file in sorted(loose.rglob("*"), key=lambda file: -file.stat().st_size):
            if file.is_file():
                print(f"{file.stat().st_size / 2**20:7.2f} MiB  {file.relative_to(loose)}")
        with tarfile.open(folder / ARCHIVE, "w:xz") as archive:
            archive.add(loose, ".")
    mib = (folder / ARCHIVE).stat().st_size / 2**20
    print(f"{mib:7.2f} MiB  {folder / ARCHIVE}")
    return f"the pack has {mib:.1f} MiB; expected at most --max-mib {max_mib:g}" if mib > max_mib else None


def unpack(folder):
    """The folder with the programs of a pack; of a loose one, itself."""
    if not (folder / ARCHIVE).exists():
        return folder.resolve()
    loose = Path(tempfile.mkdtemp(prefix="gpu-check-"))
    atexit.register(shutil.rmtree, loose, ignore_errors=True)
    with tarfile.open(folder / ARCHIVE) as archive:
        archive.extractall(loose)
    return loose


def parse_arguments(arguments):
    """Command line flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="build folder (default: build/ and the preset: cuda, with --pack cuda-pack, "
                        "with --rehearse dev)")
    parser.add_argument("--no-build", action="store_true", help="run what --build has")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="build and pack; runs nothing")
    parser.add_argument("--max-mib", type=float, default=14, help="refuse a larger pack (default %(default)s)")
    parser.add_argument("--packed", type=Path, metavar="FOLDER", help="run what was packed")
    parser.add_argument("--rehearse", action="store_true", help="run in the simulator, with small sizes")
    parser.add_argument("--plan", choices=sorted(plans.PLANS), help="steps of a short lease: a, 240 s; b, 400 s")
    parser.add_argument("--again", type=Path, metavar="FILE", help="with --plan b: lines of plan a; what they lack comes first")
    parser.add_argument("--missing", type=Path, metavar="FILE", help="name what a file of lines lacks; runs nothing")
    parser.add_argument("--out", type=Path, help="file of lines (default: gpu.jsonl in $OUT, or in build/gpu)")
    parser.add_argument("--minutes", type=float, default=9.5, help="time for all checks, after the build, without --plan")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="of the build")
    return parser.parse_args(arguments)


def run_checks(programs, options, environment):
    """Runs everything; returns the exit code."""
    earlier = read_lines(options.again) if options.again else []
    seconds, steps = plans.steps_of(options.plan, earlier) if options.plan else \
        (60 * options.minutes, plans.everything(60 * options.minutes))
    more = {"earlier": earlier}
    if options.rehearse:
        seconds, steps = seconds * SLOWER, [plans.rehearsed(step, SLOWER) for step in steps]
        more |= {"device": "simulator", "tiny": True, "slower": SLOWER}
    lines = Lines(options.out)
    lines.add("plan", plan=options.plan or "all", seconds=seconds, steps=[step.name for step in steps])
    checks = Checks(programs, lines, options.out.with_suffix(".log"), seconds, environment, **more)
    try:
        code = checks.find_device(commit(options.packed))
    except Failed as failure:
        print(f"gpu-check: {failure}", file=sys.stderr)
        return 1
    if code != 0:
        return code
    for step in steps:
        print(f"  {step.name}", file=sys.stderr, flush=True)
        checks.take(step)
    print(options.out)
    for problem in checks.failed:
        print(f"gpu-check: {problem}", file=sys.stderr)
    return 1 if checks.failed else 0


def main(arguments):
    """Returns the exit code."""
    options = parse_arguments(arguments)
    if options.missing:
        print("\n".join(plans.missing(read_lines(options.missing))) or "nothing")
        return 0
    options.out = options.out or Path(os.environ.get("OUT", "build/gpu")) / "gpu.jsonl"
    environment = {**os.environ, "LACUNA_SOURCE_DIR": str(ROOT)}
    if "LACUNA_CUBLASLT" not in environment and cublaslt():
        environment["LACUNA_CUBLASLT"] = cublaslt()
    if options.packed:
        options.packed = unpack(options.packed)
        programs = {name: options.packed / name for name in PROGRAMS}
        return run_checks(programs, options, environment)
    if not options.pack and not options.rehearse and not has_driver():
        print("gpu-check: there is no CUDA device: this machine has no NVIDIA driver", file=sys.stderr)
        return NO_DEVICE
    preset, paths = ("cuda-pack", PROGRAMS) if options.pack else ("dev", SIMULATED) if options.rehearse else ("cuda", PROGRAMS)
    built = options.build or ROOT / "build" / preset
    try:
        if not options.no_build:
            build(preset, built, options.jobs, [Path(path).name for path in paths.values()])
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"gpu-check: the build failed: {error}", file=sys.stderr)
        return 1
    if options.pack:
        problem = pack(built, options.pack, options.max_mib)
        if problem:
            print(f"gpu-check: {problem}", file=sys.stderr)
        return 1 if problem else 0
    return run_checks({name: built / path for name, path in paths.items()}, options, environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
