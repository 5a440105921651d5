#!/usr/bin/env python3
"""Each limit in docs/reference/limits.md names tests that reach it: finds lines without one, and names that no test has."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
known = {f"{suite}.{name}" for path in (root / "tests").rglob("*_test.cpp")
         for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", path.read_text(), re.M)}
scripts = list((root / "tests/reference").glob("*.py"))
known |= {path.name for path in scripts}
known |= {name for path in scripts for name in re.findall(r"^\s*(?:async )?def (check_\w+)\(", path.read_text(), re.M)}
problems = []
for line in (root / "docs/reference/limits.md").read_text().splitlines():
    if not line.startswith("| ") or line.startswith("| what |"):
        continue
    tests = re.findall(r"`(\w+\.\w+|check_\w+)`", line.rsplit(" | ", 1)[1])
    problems += [f"no such test: {name}" for name in tests if name not in known]
    if not tests:
        problems.append(f"no test: {line}")
print("\n".join(problems))
sys.exit(1 if problems else 0)
