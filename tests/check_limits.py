#!/usr/bin/env python3
"""Each limit in docs/reference/limits.md, and each mitigation in SECURITY.md, names tests: finds those without one, and names that no
test has."""
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
mitigations = re.search(r"^### Mitigations$(.*?)^###", (root / "SECURITY.md").read_text(), re.MULTILINE | re.DOTALL).group(1)
for mitigation in re.split(r"^- ", mitigations, flags=re.MULTILINE)[1:]:
    tests = re.findall(r"`([A-Z]\w+\.[A-Z]\w+|check_\w+)`", mitigation)
    problems += [f"no such test: {name}" for name in tests if name not in known]
    if not re.search(r"Tests?[ :]|test: |tests: ", mitigation):
        problems.append(f"no test: {mitigation.splitlines()[0]}")
print("\n".join(problems))
sys.exit(1 if problems else 0)
