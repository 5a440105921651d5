#!/usr/bin/env python3
"""Finds sources that need each other: python3 tests/check_cycles.py [ROOT]

A unit is a header with its source. Units that include each other, one by way of others, can only be read together. KNOWN
lists those that there are; one more is an error, and so is one in the list that is gone.
"""
import pathlib
import re
import sys

# Sets of units that need each other, with the reason; without one, nobody has divided them yet. A header without a source of
# its own that one unit alone includes is a part of that unit.
KNOWN = {
    # A class and a part of its implementation, which has a source of its own.
    "cache/kv_cache cache/sparse_cells": "cells and what sparse attention gathers of them",
    "constraint/byte_automaton constraint/expression constraint/expression_node": "an automaton may be a part of an expression",
    "decode/make_decoder decode/make_parts": "one function over several sources",
    "model/model model/pass": "the class and its nested class",
    "server/http_server server/reply_writer": "the server and the replies of its handlers",
    "tokenizer/jinja/evaluator tokenizer/jinja/evaluator_scope": "the evaluator and the scopes that it enters",
    # Grammars that contain each other.
    "constraint/constraint constraint/quoted_arguments constraint/tool_calls": "a call's language contains an answer's",
    "tokenizer/jinja/format tokenizer/jinja/loop tokenizer/jinja/methods "
    "tokenizer/jinja/operators": "values, their methods and how they are written",
}


def units_of(root):
    """Unit -> units that it includes. Headers that a single unit includes and that have no source are parts of it."""
    files = {}
    for base, prefix in (("src", ""), ("lab", ""), ("lab/commands", "apps/"), ("apps/lacuna", "apps/")):
        for path in sorted((root / base).rglob("*")):
            if path.suffix in (".h", ".cpp") and (base != "lab" or path.parent.name != "commands"):
                files[prefix + str(path.relative_to(root / base))] = path
    includes = {}
    for name, path in files.items():
        quoted = re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)
        places = ("", "apps/", name[:name.rfind("/") + 1]) if name.startswith("apps/") else ("",)
        includes[name] = {place + each for each in quoted for place in places if place + each in files}
    unit = {name: re.sub(r"\.(h|cpp)$", "", name) for name in files}
    users = {}
    for name, included in includes.items():
        for each in included:
            users.setdefault(each, set()).add(unit[name])
    for name in files:
        others = users.get(name, set()) - {unit[name]}
        if name.endswith(".h") and name[:-1] + "cpp" not in files and len(others) == 1:
            unit[name] = others.pop()
    graph = {each: set() for each in unit.values()}
    for name, included in includes.items():
        graph[unit[name]] |= {unit[each] for each in included} - {unit[name]}
    return graph


def cycles(graph):
    """Strongly connected components of two units and more (Tarjan 1972)."""
    found, index, low, stack = [], {}, {}, []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for other in sorted(graph.get(unit, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[unit] = min(low[unit], low[other])
        if low[unit] == index[unit]:
            first = stack.index(unit)
            if len(stack) - first > 1:
                found.append(frozenset(stack[first:]))
            del stack[first:]

    sys.setrecursionlimit(10_000)
    for unit in sorted(graph):
        if unit not in index:
            visit(unit)
    return found


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    graph = units_of(root)
    found = cycles(graph)
    known = [frozenset(names.split()) for names in KNOWN]
    for cycle in found:
        if not any(cycle <= each for each in known):
            print("These sources need each other; move what they share into a file of its own:")
            for unit in sorted(cycle):
                print(f"  {unit} includes {', '.join(sorted(graph[unit] & cycle))}")
    gone = [each for each in known if not any(cycle <= each for cycle in found)]
    for each in gone:
        print(f"No longer a cycle; take it out of KNOWN in tests/check_cycles.py: {' '.join(sorted(each))}")
    return 1 if gone or not all(any(cycle <= each for each in known) for cycle in found) else 0


if __name__ == "__main__":
    sys.exit(main())
