"""Checks drafts of a smaller model (SimSD) of a `lacuna` binary against drafted.py.

    python check_drafted.py LACUNA_BINARY [--seeds N] [--first-seed K] [--cases N] [--families sdar,...] [--quiet]

For every seed it writes a random checkpoint and a guide with some of its layers, and decodes random prompts with random
options. Tokens must agree, and pass by pass its kind, the positions of its rows and the tokens that it wrote. A run that differs
is skipped as too close when the reference nearly tied in that pass or before. For every seed a model of one layer that is its own
guide must write its own text. The last lines say how many runs took each rare path. Exit status 0 when nothing failed.
"""
import collections
import json
import shutil
import sys

import numpy as np

import safetensors_io
from blocks import Options
from check_blocks import block_checkpoints, flags, random_rule, short
from check_engine import ROUTER_TOLERANCE, Report, count_paths, engines_of, parse_arguments
from check_seeded import answer_of, compare_run
from drafted import decode
from models import Model

FAMILIES = "sdar,llada2,diffcoder"
PATHS = ("accepted", "refused", "all accepted", "known tokens", "several in a step", "stopped by an end",
         "a drafted end was refused", "prefill in parts")


def shallower(folder, source, model, layers):
    """Writes the checkpoint with its first layers alone; returns its reference Model."""
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text())
    kept = min(layers, config["num_hidden_layers"])
    gone = tuple(f"model.layers.{i}." for i in range(kept, config["num_hidden_layers"]))
    config["num_hidden_layers"] = kept
    (folder / "config.json").write_text(json.dumps(config))
    tensors = safetensors_io.read_folder(source)
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    tensors = {name: values for name, values in tensors.items() if not name.startswith(gone)}
    safetensors_io.write(folder / "model.safetensors", tensors, "f32")
    return Model(model.config | {"num_hidden_layers": kept}, tensors)


def random_options(rng):
    size = int(rng.choice([2, 4, 8, 16]))
    options = Options(gen_length=int(rng.integers(1, 33)), block_length=size, seed=int(rng.integers(0, 1000)))
    rule = random_rule(rng)
    rule = None if rule == "None" else rule
    options.unmask = rule or "low-confidence"
    if options.unmask.split("=")[0] not in ("threshold", "factor", "entropy-bounded") and rng.random() < 0.5:
        options.steps = int(rng.integers(1, size + 1))
    if rng.random() < 0.3:
        options.temperature = short(rng.uniform(0.2, 1.3))
        options.top_k = int(rng.choice([0, rng.integers(1, 20)]))
        options.top_p = short(rng.choice([1.0, rng.uniform(0.5, 0.99)]))
    return options, rule


def random_prompt(model, rng):
    length = int(rng.integers(1030, 1060)) if rng.random() < 0.01 else int(rng.integers(0, 40))
    prompt = rng.integers(0, model.shape.vocab, length)
    return np.where(rng.random(length) < 0.95, rng.integers(0, model.shape.vocab - 20, length), prompt).tolist()


def compare(engine, root, folder, guide, prompt, options, arguments, expected):
    want, router_gap = expected
    result = compare_run(engine, root, folder, prompt, options, [*arguments, "--guide", guide], want)
    if result[0] is False and router_gap < ROUTER_TOLERANCE:
        return None, f"router gap {router_gap:.1e}: {result[1]}"
    return result


def compare_own_text(engine, root, folder, prompt, arguments):
    trace = root / "trace.jsonl"
    drafted = answer_of(engine, folder, prompt, [*arguments, "--guide", folder], trace)
    own = answer_of(engine, folder, prompt, arguments, trace)
    return drafted == own, f"{drafted} and {own}; {' '.join(map(str, arguments))} -m {folder}"


def main():
    args = parse_arguments(__doc__, 10, 12, FAMILIES)
    families = args.families.split(",")
    report, counts, engines = Report(not args.quiet), collections.Counter(), engines_of(args)
    for family, name, folder, model, ends, rng in block_checkpoints(args, families, FAMILIES.split(","), 97):
        guide_folder, thin = folder.with_name(f"{folder.name}-guide"), folder.with_name(f"{folder.name}-thin")
        guide = shallower(guide_folder, folder, model, int(rng.integers(1, model.shape.layers + 1)))
        shallower(thin, folder, model, 1)
        for case in range(args.cases):
            prompt, (options, rule) = random_prompt(model, rng), random_options(rng)

            def wanted():
                model.router_gap = guide.router_gap = np.inf
                want = decode(model, guide, prompt, ends, options)
                count_paths(counts, want, PATHS)
                return want, min(model.router_gap, guide.router_gap)

            arguments = flags(options, rule)
            report.on_each(engines, f"{name} case {case}",
                           lambda engine, want: compare(engine, folder.parent, folder, guide_folder, prompt, options, arguments, want),
                           wanted)
            if case % 4 == 0:
                # Without --unmask a guide's steps are those of low-confidence.
                alone = arguments if rule else [*arguments, "--unmask", "low-confidence"]
                report.on_each(engines, f"{name} case {case}, own text",
                               lambda engine, _: compare_own_text(engine, folder.parent, thin, prompt, alone))
    print(", ".join(f"{counts[path]} {path}" for path in ("runs", *PATHS)))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
