"""Measures the time of each step of whole decodes, without and with a setting.

    python3 bench/step_times.py -m mini-llada --task arithmetic --gen-length 64 --samples 4 --setting "--lock eps=5e-3,gate=20"

The first --samples prompts of a task of `lacuna eval` are decoded by `lacuna run --trace`, one at a time, without and with the setting
in alternation, --repeat times. Of each step, the seconds are the median of the repeats for each prompt, summed over the prompts; rows
and FLOPs are sums as well. Both runs have to take the same number of passes for every prompt. --json prints one object instead of
quarters of the run. Only the standard library is used.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from serving import LACUNA


def lacuna(arguments, words):
    """Runs the program with the flags that all runs share; ends with its message where it fails."""
    shared = ["-m", arguments.model, "--gen-length", str(arguments.gen_length), "--threads", str(arguments.threads)]
    done = subprocess.run([arguments.lacuna, *words, *shared], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
        sys.exit(done.returncode)


def prompts_of(arguments, folder):
    """Prompts of the task's first samples."""
    file = folder / "answers.jsonl"
    lacuna(arguments, ["eval", "--task", arguments.task, "--samples", str(arguments.samples), "--steps", "1", "--out", str(file)])
    return [json.loads(line)["prompt"] for line in file.read_text(encoding="utf-8").splitlines()]


def passes_of(arguments, prompt, flags, folder):
    """Passes of one decode, as its trace has them."""
    file = folder / "trace.jsonl"
    lacuna(arguments, ["run", "-p", prompt, "--trace", str(file), *flags])
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()][1:]


def column(lists, combine):
    """Combines the first values of lists of equal length, the second ones, ..."""
    return [combine(each) for each in zip(*lists, strict=True)]


def figures_of(repeats_by_prompt):
    """Seconds, rows and FLOPs of each step, summed over prompts. `repeats_by_prompt`: [prompt][repeat][pass]."""
    def totals(value, combine=min):  # rows and FLOPs are equal in all repeats
        of_prompts = [column([[value(each) for each in passes] for passes in repeats], combine)
                      for repeats in repeats_by_prompt]
        return column(of_prompts, sum)

    def seconds(combine):
        return [round(each, 9) for each in totals(lambda each: each["seconds"], combine)]

    return {"rows": totals(lambda each: len(each["rows"])),
            "flops": totals(lambda each: each["layer_flops"] + each["head_flops"]),
            "seconds": seconds(statistics.median), "seconds_min": seconds(min)}


def measure(arguments):
    """Figures of both runs by the names that --json prints."""
    settings = {"plain": [], "setting": shlex.split(arguments.setting)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts = prompts_of(arguments, folder)
        found = {key: [[] for _ in prompts] for key in settings}
        for _ in range(arguments.repeat):
            for number, prompt in enumerate(prompts):
                for key, flags in settings.items():
                    found[key][number].append(passes_of(arguments, prompt, flags, folder))
    return {"model": arguments.model, "gen_length": arguments.gen_length, "samples": len(prompts), "repeat": arguments.repeat,
            **{key: figures_of(repeats) for key, repeats in found.items()}}


def quarters(found):
    """Lines of a table: the ratio of rows, FLOPs and seconds in each quarter of the run."""
    steps = len(found["plain"]["rows"])
    for quarter in range(4):
        part = slice(quarter * steps // 4, (quarter + 1) * steps // 4)
        ratios = [sum(found["setting"][key][part]) / sum(found["plain"][key][part]) for key in ("rows", "flops", "seconds")]
        yield f"steps {part.start + 1:5} to {part.stop:5}: " + ", ".join(
            f"{ratio:.3f} of the {key}" for ratio, key in zip(ratios, ("rows", "FLOPs", "seconds")))


def main():
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--task", default="arithmetic", help="task of `lacuna eval` (default %(default)s)")
    parser.add_argument("--gen-length", type=int, default=64, help="canvas, one token per step (default %(default)s)")
    parser.add_argument("--samples", type=int, default=4, help="prompts (default %(default)s)")
    parser.add_argument("--setting", required=True, help="flags of `lacuna run` of the second run")
    parser.add_argument("--repeat", type=int, default=5, help="decodes of each prompt and setting (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="(default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--lacuna", default=LACUNA, help="the program (default %(default)s, or what LACUNA names)")
    arguments = parser.parse_args()
    found = measure(arguments)
    print(json.dumps(found) if arguments.json else "\n".join(quarters(found)))


if __name__ == "__main__":
    main()
