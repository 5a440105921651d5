"""`python3 tools/results reproduce PAPER TABLE`: a paper's table as commands on released checkpoints, its figures next to
ours, and the hours that the commands take."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dry_run
import prepare
from errors import BookError
from measure import ROOT, Measurer
from papers import TABLES
from papers.table import DATA, OUT, ours
from rows import append_line, read_lines
from text import table as markdown

DESCRIPTION = """\
The main tables of the five papers as commands. Without --run nothing is computed: the table is printed with the paper's
figures, those of earlier runs (kept in --out), the predicted hours, and every command. DATA in a command stands for the
folder of --data, OUT for that of --out."""
RATE_COMMAND = "lacuna bench step -m random:llada-8b --canvas 1024 --rows 1024 --repeat 3 --threads 2 --json"
BENCH = "bench step -m random:llada-8b,layers=1 --canvas 512 --rows 512 --repeat 1 --json"
BANDWIDTH = 20.0  # GB/s at which weights are read, where --bandwidth is not given


def parse_arguments(arguments):
    """Command line flags."""
    parser = argparse.ArgumentParser(prog="python3 tools/results reproduce", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    papers = sorted({paper for paper, _ in TABLES})
    parser.add_argument("paper", nargs="?", choices=papers, metavar="PAPER", help=", ".join(papers))
    parser.add_argument("table", nargs="?", metavar="TABLE", help="number of the table in the paper, such as 1 or 6.1")
    parser.add_argument("--list", action="store_true", help="list all tables, or those of PAPER")
    parser.add_argument("--rows", metavar="N,N", help="numbers of rows to show, to run or to try (default: all)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--run", action="store_true", help="run what --out has no result of; takes the hours that are shown")
    what.add_argument("--dry-run", action="store_true",
                      help="run the same commands on small models of the same families: two samples, short lengths")
    what.add_argument("--prepare", action="store_true", help="write the files that are made of published ones into --data")
    parser.add_argument("--data", default="build/data", metavar="FOLDER", help="published files (default %(default)s)")
    parser.add_argument("--out", default="build/reproduce", metavar="FOLDER", help="results (default %(default)s)")
    parser.add_argument("--lacuna", default="build/release/lacuna", metavar="FILE", help="binary (default %(default)s)")
    parser.add_argument("--dirty", action="store_true", help="run although files differ from the commit")
    parser.add_argument("--gflops", type=float, metavar="X",
                        help="GFLOP/s of products (default: the rate recorded in docs/results/shapes.jsonl)")
    parser.add_argument("--bandwidth", type=float, default=BANDWIDTH, metavar="X",
                        help="GB/s of reading weights (default %(default)s)")
    parser.add_argument("--bench", action="store_true", help="measure --gflops now, with `lacuna bench step`")
    options = parser.parse_args(arguments)
    if not options.list and (options.paper is None or options.table is None):
        parser.error("expected PAPER and TABLE, or --list")
    if options.table is not None and (options.paper, options.table) not in TABLES:
        known = ", ".join(name for paper, name in TABLES if paper == options.paper)
        parser.error(f"argument TABLE: {options.paper} has no table {options.table!r}; expected one of {known}")
    return options


def chosen(table, numbers):
    """(number, row) of the rows that --rows names, counted from 1."""
    rows = list(enumerate(table.rows, 1))
    if not numbers:
        return rows
    try:
        wanted = [int(number) for number in numbers.split(",")]
        return [rows[number - 1] if number > 0 else rows[len(rows)] for number in wanted]
    except (ValueError, IndexError):
        raise BookError(f"--rows {numbers}: expected numbers from 1 to {len(rows)}, as 1,4") from None


def recorded_rate():
    """GFLOP/s of a step of LLaDA-8B's shape, from the committed rows."""
    for row in read_lines(ROOT / "docs/results/shapes.jsonl"):
        if row["command"] == RATE_COMMAND:
            return row["result"]["results"][0]["gflops"], f"docs/results/shapes.jsonl, {row['machine']['processor']}"
    raise BookError(f"docs/results/shapes.jsonl has no row of `{RATE_COMMAND}`; expected --gflops or --bench")


def rate(options):
    """(GFLOP/s, where from)."""
    if options.gflops:
        return options.gflops, "--gflops"
    if options.bench:
        result, _ = execute(options.lacuna, f"lacuna {BENCH}")
        return result["results"][0]["gflops"], f"`lacuna {BENCH}`"
    return recorded_rate()


def execute(lacuna, command):
    """The JSON object that a command prints, and its seconds."""
    start = time.monotonic()
    done = subprocess.run(["sh", "-c", command.replace("lacuna ", '"$LACUNA" ', 1)], capture_output=True, text=True,
                          errors="replace", cwd=ROOT, check=False,
                          env={**os.environ, "LACUNA": str(Path(lacuna).resolve())})
    if done.returncode != 0:
        raise BookError(f"`{command}` failed: {(done.stderr.strip() or f'exit code {done.returncode}').splitlines()[-1]}")
    return json.loads(done.stdout), time.monotonic() - start


def with_folders(command, data, out):
    """A command with the folders that it reads and writes."""
    return command.replace(f" {DATA}/", f" {data}/").replace(f" {OUT}/", f" {out}/")


def results_file(table, options):
    """Where the results of a table are kept."""
    return Path(options.out) / f"{table.paper}-{table.name}.jsonl"


def known_results(table, options):
    """command -> result of earlier runs."""
    return {row["command"]: row["result"] for row in read_lines(results_file(table, options))}


def run(table, rows, options):
    """Runs what has no result yet and keeps the results."""
    found = known_results(table, options)
    measurer = Measurer(options.lacuna, options.dirty)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for _, row in rows:
        if not row.command or row.command in found:
            continue
        print(f"  {row.command}", file=sys.stderr, flush=True)
        result, _ = execute(options.lacuna, with_folders(row.command, Path(options.data).resolve(), out.resolve()))
        result.pop("row_ratio_by_step", None)
        append_line(results_file(table, options), {"command": row.command, **measurer.origin(), "result": result})


def try_commands(rows, lacuna):
    """Runs each command on small models. Returns number of the row -> result, and prints what fails."""
    results, failed = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        dry_run.write_files(Path(folder))
        for number, row in rows:
            if not row.command:
                continue
            command = with_folders(dry_run.small(row.command), folder, folder)
            try:
                results[number], seconds = execute(lacuna, command)
                print(f"{number:4} {seconds:5.1f} s  {dry_run.small(row.command)}", flush=True)
            except BookError as error:
                failed += 1
                print(f"{number:4} failed: {error}", flush=True)
    return results, failed


def shown(value):
    """A figure in a cell."""
    return "-" if value is None else f"{value:.4g}"


def hours_of(row, speed, bandwidth):
    """Hours of a row in a cell."""
    return "-" if row.work is None else f"{row.work.seconds(speed, bandwidth) / 3600:.3g}"


def page(table, rows, results, options):
    """Markdown of a table: figures, commands, files and notes. `results`: number of a row -> result."""
    speed, source = rate(options)
    head = ["row", "setting", *(f"{name}: paper, here" for name in table.figures), "hours"]
    lines = [[number, row.label,
              *(f"{shown(row.paper.get(name))}, {shown(ours(name, results[number])) if number in results else '-'}"
                for name in table.figures),
              hours_of(row, speed, options.bandwidth) if row.command else f"not runnable: {row.reason}"]
             for number, row in rows]
    total = sum(row.work.seconds(speed, options.bandwidth) for _, row in rows if row.work) / 3600
    parts = [f"# {table.paper}, Table {table.name}: {table.title}", markdown(head, lines),
             f"{total:.0f} hours in all, at {speed:.0f} GFLOP/s ({source}) and {options.bandwidth:g} GB/s: samples x passes x "
             "the longer of rows x FLOPs and of reading the weights (papers/table.py)."]
    if table.notes:
        parts.append("\n".join(f"- {note}." for note in table.notes))
    if table.files:
        parts.append("\n".join(f"- {DATA}/{name}: {source}" for name, source in table.files.items()))
    parts.append("\n".join(f"{number:4} {row.command}" for number, row in rows if row.command))
    return "\n\n".join(parts)


def list_tables(paper):
    """Prints all tables, or those of a paper."""
    for (name, number), table in TABLES.items():
        if paper in (None, name):
            runnable = sum(bool(row.command) for row in table.rows)
            print(f"{name:10} {number:5} {runnable:4} of {len(table.rows):3} rows  {table.title}")


def main(arguments):
    """Returns the exit code."""
    options = parse_arguments(arguments)
    if options.list:
        list_tables(options.paper)
        return 0
    table = TABLES[options.paper, options.table]
    if options.prepare:
        for path in prepare.files_of(table, Path(options.data)):
            print(path)
        return 0
    rows = chosen(table, options.rows)
    if options.dry_run:
        results, failed = try_commands(rows, options.lacuna)
        print("\nFigures here are those of a dry run on small models, two samples each: they say nothing.\n")
        print(page(table, rows, results, options))
        return 1 if failed else 0
    if options.run:
        run(table, rows, options)
    known = known_results(table, options)
    print(page(table, rows, {number: known[row.command] for number, row in rows if row.command in known}, options))
    return 0
