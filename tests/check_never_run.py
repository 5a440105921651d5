"""Compares docs/inside/never_run.md with the files that exist. Usage: check_never_run.py ROOT

Every file of a kind that needs a special machine stands in one row of the page, or below in HAS_RUN with what runs it. Every file that a row
names exists.
"""
import pathlib
import re
import sys

PAGE = "docs/inside/never_run.md"

# Files that need a machine, a system or a service of a kind.
KINDS = [".github/workflows/*", "Dockerfile", ".dockerignore", ".devcontainer/*", "deploy/**/*", "packaging/**/*", "src/backend/cuda/*_cuda.cpp",
         "src/backend/*mpi*.cpp", "src/kernels/*/table.cpp", "bench/gpu/cublas_lt.cpp"]

# What runs them: patterns of files, and the test or command that does.
HAS_RUN = {
    "deploy/haproxy*.cfg": "tests/deploy/check_replicas.py",
    "deploy/nginx.conf": "tests/deploy/check_replicas.py",
    "packaging/conan/**/*": "conan create packaging/conan",
    "packaging/python/*": "make wheel",
    "src/backend/*mpi*.cpp": "mpirun on one machine",
    "src/kernels/scalar/table.cpp": "make test",
    "src/kernels/avx2/table.cpp": "make test",
    "src/kernels/avx512_fma/table.cpp": "make test",
    "src/kernels/avx512/table.cpp": "make test",
    "src/kernels/amx/table.cpp": "make test",
}
NO_CODE = {".md"}


def files_of(root, patterns):
    """Paths of the files that any pattern matches."""
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file() and path.suffix not in NO_CODE}
    return {path.relative_to(root).as_posix() for path in found}


def named_files(page):
    """Paths in the first cell of each row, with how often they occur."""
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def problems_of(root):
    """Sentences about files that are missing here or there."""
    named = named_files((root / PAGE).read_text(encoding="utf-8"))
    has_run = files_of(root, HAS_RUN)
    for name in sorted(set(named)):
        if named.count(name) > 1:
            yield f"{PAGE} names {name} {named.count(name)} times"
        if not (root / name).is_file():
            yield f"{PAGE} names {name}, which does not exist"
        if name in has_run:
            yield f"{PAGE} names {name}, which has run"
    for name in sorted(files_of(root, KINDS) - has_run - set(named)):
        yield f"{name} needs a machine of a kind; expected a row of {PAGE}, or a line in HAS_RUN with what runs it"


def main(root):
    """Prints the problems; returns the exit code."""
    problems = list(problems_of(pathlib.Path(root)))
    print("\n".join(problems) or f"{PAGE} agrees with the files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
