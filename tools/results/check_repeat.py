"""Measures some quick commands twice on this machine, as `python3 tools/results` does, and compares the figures.

    /usr/bin/python3 tools/results/check_repeat.py build/dev/lacuna

The first run fills a temporary book, the second is `python3 tools/results repeat`. The commands are of every kind that
the committed pages have and `repeat` compares.
"""
import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

try:
    from book import PAGES
    from measure import Measurer
    from rows import append_line
except ModuleNotFoundError as error:
    sys.exit(f"results: {error}; numpy and matplotlib are needed (tools/results/README.md)")

LLADA, SDAR = "-m mini-llada --gen-length 16 --threads 1", "-m mini-sdar --gen-length 16 --threads 1"
FEW = "--task arithmetic --samples 4"
COMMANDS = (
    f"lacuna eval {LLADA} {FEW} --lock eps=5e-3,gate=20 --judge mini-qwen",
    f"lacuna eval {LLADA} {FEW} --cache free --guide mini-qwen --guide-match top-k=2 --batch 4",
    f"lacuna eval {SDAR} {FEW} --sparse mage=16 --temperature 0.7 --seed 3 --out answers.jsonl",
    f"lacuna eval -m mini-refusion --gen-length 16 --threads 2 {FEW}",
    f"lacuna eval -m mini-gidd --gen-length 16 --threads 2 {FEW} --temperature 0.3",
    f'lacuna run {LLADA} --lock eps=5e-3 -p "Mia has 12 shells." --trace trace.jsonl',
    f"lacuna analyze drift {LLADA} {FEW} --map step,layer",
    f"lacuna analyze lock {LLADA} {FEW} --lock eps=5e-2,gate=off",
    f"lacuna analyze recall {SDAR} {FEW} --budgets 16 --ignore-eos",
    f"lacuna bench decode {LLADA} --prompt-length 8 --lock eps=5e-3 --timed-passes 2 --repeat 1",
    "lacuna quantize -m mini-llada --to int8 -o $(mktemp -d)/model --json",
    f"lacuna tune {LLADA} --task arithmetic --samples 20 --risk 0.2 --methods lock --gflops 400 --bandwidth 20",
)


def command_line():
    """`main` of `python3 tools/results`."""
    spec = importlib.util.spec_from_file_location("results_main", Path(__file__).resolve().parent / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def main(lacuna):
    """Returns the exit code of `repeat`."""
    page = PAGES["masked"]  # for its name alone
    with tempfile.TemporaryDirectory() as folder:
        measure = Measurer(lacuna, dirty=True, environment=page.environment)
        for command in COMMANDS:
            append_line(Path(folder) / f"{page.name}.jsonl", measure(command))
        return command_line()(["repeat", page.name, "--lacuna", str(lacuna), "--out", folder])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lacuna", help="binary that is measured")
    sys.exit(main(Path(parser.parse_args().lacuna).resolve()))
