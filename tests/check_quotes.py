#!/usr/bin/env python3
"""Compares programs that pages quote with their files: python3 tests/check_quotes.py [ROOT]

A block after a line `<!-- examples/answer.cpp -->` holds that file.
"""
import pathlib
import re
import sys

QUOTE = re.compile(r"<!-- (examples/\S+) -->\n```\w*\n(.*?)\n```", re.DOTALL)


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[1]
    problems = []
    quotes = 0
    for page in sorted((root / "docs").rglob("*.md")):
        for name, text in QUOTE.findall(page.read_text()):
            quotes += 1
            file = root / name
            if not file.exists() or file.read_text().strip() != text.strip():
                problems.append(f"{page.relative_to(root)}: the block is not what {name} holds")
    print("\n".join(problems + [f"{quotes} quoted programs"]))
    return 1 if problems or not quotes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
