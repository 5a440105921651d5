#!/usr/bin/env python3
"""Finds types of one name in two files: python3 tests/check_one_definition.py [FOLDER ...]

A type of a named namespace that two files define breaks the one-definition rule where both become part of a program:
the linker keeps one destructor for both, without a word. Types of anonymous namespaces and nested types are apart by
themselves. Reads lines, not C++: the sources are formatted, so a type at the level of a namespace begins its line.
"""
import collections
import pathlib
import re
import sys

FOLDERS = ["include", "src", "lab", "apps", "bench", "train"]
NAMESPACE = re.compile(r"(?:inline )?namespace(?: ([\w:]+))? \{")
END = re.compile(r"\}  // namespace")
TYPE = re.compile(r"(?:template <.*> )?(?:struct|class|enum class|enum|union) (?:LACUNA_API )?(\w+)(?: final)?"
                  r"(?: :.*|\s*\{.*)$")


def definitions(path):
    """Qualified names of the types that a file defines in named namespaces."""
    spaces = []
    for line in path.read_text().splitlines():
        if found := NAMESPACE.match(line):
            spaces.append(found[1])
        elif END.match(line) and spaces:
            spaces.pop()
        elif (found := TYPE.match(line)) and None not in spaces:
            yield "::".join([*spaces, found[1]])


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[1]
    folders = [pathlib.Path(argument) for argument in arguments] or [root / folder for folder in FOLDERS]
    places = collections.defaultdict(set)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".cpp"):
                for name in definitions(path):
                    places[name].add(str(path))
    twice = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}
    for name, paths in sorted(twice.items()):
        print(f"{name} is defined in {' and '.join(paths)}")
    print(f"{len(places)} types")
    return 1 if twice or not places else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
