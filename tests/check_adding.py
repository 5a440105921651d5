"""Follows docs/inside/adding_*.md in a copy of the sources. Usage: check_adding.py ROOT BUILD CXX

A block of code that begins with the path of a file is put into it: `after:TEXT` or `before:TEXT` the line that has this text,
or `in:TEXT`, in place of the text. Every source that is changed, or that includes a changed header of its own module or another one, is
compiled as far as its syntax. Pages without such blocks have tests of their own.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```cpp (\S+) (after|before|in):([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A policy touches at most eight files, a setting four.
MOST_FILES = {"adding_a_setting.md": 4, "adding_a_policy.md": 8}


def apply(folder, path, place, text, code):
    """Puts the code of a block into its file. Returns a sentence that says what is wrong, or None."""
    file = folder / path
    if not file.exists():
        return f"{path} does not exist"
    lines = file.read_text().splitlines(keepends=True)
    found = [index for index, line in enumerate(lines) if text in line]
    if len(found) != 1:
        return f"{path}: {text!r} is in {len(found)} lines; expected one"
    if place == "in":
        lines[found[0]] = lines[found[0]].replace(text, code.rstrip("\n"))
    else:
        lines.insert(found[0] + (place == "after"), code)
    file.write_text("".join(lines))
    return None


def sources_with(folder, paths):
    """The changed sources, and of each changed header those that include it."""
    sources = {path for path in paths if path.endswith(".cpp")}
    for header in (path for path in paths if path.endswith(".h")):
        include = f'#include "{header.removeprefix("src/")}"'
        for module in ("decode", "options"):
            for source in (folder / "src" / module).glob("*.cpp"):
                if include in source.read_text():
                    sources.add(source.relative_to(folder).as_posix())
    return sorted(sources)


def check_page(page, root, build, compiler):
    """Sentences that say what is wrong with a page."""
    blocks = BLOCK.findall(page.read_text())
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        shutil.copytree(root / "src", folder / "src", ignore=shutil.ignore_patterns("page"))
        problems = [problem for block in blocks if (problem := apply(folder, *block))]
        paths = {block[0] for block in blocks}
        if len(paths) > MOST_FILES[page.name]:
            problems.append(f"{len(paths)} files are changed; expected at most {MOST_FILES[page.name]}: {', '.join(sorted(paths))}")
        if problems:
            return problems
        sources = sources_with(folder, paths)
        for module in sorted({source.split("/")[1] for source in sources}):
            unit = folder / f"{module}.cpp"
            unit.write_text("".join(f'#include "{folder / source}"\n' for source in sources if source.startswith(f"src/{module}/")))
            command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", f"-I{folder}/src", f"-I{root}/include",
                       f"-I{build}/include/public", unit]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                problems.append(f"the sources of {module} do not compile:\n{done.stderr[:3000]}")
        return problems


def main():
    root, build, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    failed = 0
    for name in MOST_FILES:
        page = root / "docs/inside" / name
        for problem in check_page(page, root, build, compiler):
            print(f"docs/inside/{name}: {problem}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
