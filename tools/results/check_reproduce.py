"""Tries the commands of all tables on small models, and compares the shapes by which hours are predicted with the program's.

    python3 tools/results/check_reproduce.py build/dev/lacuna
"""
import argparse
import sys

import dry_run
from papers import TABLES
from papers.table import MODELS
from reproduce import execute, try_commands

NEAR = 0.02  # relative: shapes are rounded


def problems_of_shapes(lacuna):
    """Models whose numbers are not those of `lacuna inspect`."""
    for model in MODELS.values():
        if not model.shape:
            continue
        found, _ = execute(lacuna, f"lacuna inspect -m random:{model.shape} --json")
        embedding = 0 if found["tied_embeddings"] else found["vocabulary"] * found["hidden"]
        expected = {"weights": (model.weights, found["parameters"] / 1e9),
                    "row": (model.row, (found["active_parameters"] - embedding) / 1e9),
                    "layers": (model.layers, found["layers"]), "q_dim": (model.q_dim, found["heads"] * found["head_dim"])}
        for name, (here, there) in expected.items():
            if abs(here - there) > NEAR * there:
                yield f"{model.name}: {name} is {here}; {model.shape} has {there:.4g}"


def main(lacuna):
    """Returns the exit code."""
    problems = list(problems_of_shapes(lacuna))
    print("\n".join(problems))
    failed, seen = len(problems), set()
    for table in TABLES.values():
        # Rows that are the same on small models are tried once.
        fresh = {dry_run.small(row.command): (number, row) for number, row in enumerate(table.rows, 1) if row.command}
        rows = [pair for words, pair in fresh.items() if words not in seen]
        seen |= set(fresh)
        print(f"{table.paper}, Table {table.name}")
        failed += try_commands(rows, lacuna)[1]
    print(f"{len(seen)} commands were tried; {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lacuna", help="binary that runs them")
    sys.exit(main(parser.parse_args().lacuna))
