"""Checks the rotations of a `lacuna` binary against rotations.py.

    python check_rope.py LACUNA_BINARY [--seeds N] [--first-seed K] [--families qwen3,llama] [--quiet]

For every seed and family it writes a random checkpoint whose rotation is plain, linear, dynamic, YaRN or Llama 3 in turn, in
one of the forms that files have, and compares `lacuna logits` with the reference within 2e-3, dynamic scaling within
max_position_embeddings. A file whose forms disagree, and a type that is not computed, must be refused by name. Exit status 0
when nothing failed.
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from check_engine import Report, compare_logits, engines_of, parse_arguments, wanted_logits
from models import read_shape
from random_checkpoints import make_checkpoint

FAMILIES = "llama,qwen2,qwen3,dream,llada_moe,rnd1,coda,a2d_qwen3,llada2"
TYPES = ("default", "linear", "dynamic", "yarn", "llama3")
FORMS = ("rope_scaling", "rope_parameters", "by layer", "both")
POSITIONS = 64


def random_scaling(kind, rng):
    """The keys of a type, with none that its formula does not read."""
    if kind == "default":
        return {}
    scaling = {"factor": float(rng.choice([1.0, 2.0, 3.5, 8.0, 40.0]))}
    if kind in ("yarn", "llama3") and rng.random() < 0.8:
        scaling["original_max_position_embeddings"] = int(rng.choice([8, 16, 32, POSITIONS]))
    if kind == "llama3":
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": float(rng.choice([2.0, 4.0, 8.0]))}
    if kind == "yarn":
        optional = {"beta_fast": float(rng.choice([2.0, 8.0, 32.0])), "beta_slow": float(rng.choice([0.25, 1.0])),
                    "truncate": bool(rng.random() < 0.5), "mscale": float(rng.choice([0.707, 1.0])),
                    "mscale_all_dim": float(rng.choice([0.5, 1.0])), "attention_factor": float(rng.choice([0.8, 1.2]))}
        scaling |= {key: value for key, value in optional.items() if rng.random() < 0.5}
    return scaling


def write_rotation(config, kind, form, rng):
    """Replaces the rotation of a config.json."""
    theta = config.pop("rope_theta", None) or config["rope_parameters"]["rope_theta"]
    share = config.pop("partial_rotary_factor", None)
    if share is None:
        share = (config.get("rope_parameters") or {}).get("partial_rotary_factor")
    config.pop("rope_parameters", None)
    config.pop("rope_scaling", None)
    outer = {"rope_theta": theta} | ({"partial_rotary_factor": share} if share is not None else {})
    scaling = {str(rng.choice(["rope_type", "type"])): kind} | random_scaling(kind, rng)
    if form == "rope_scaling":
        config |= outer | {"rope_scaling": scaling}
    elif form == "rope_parameters":
        config["rope_parameters"] = outer | scaling
    elif form == "by layer":
        config["rope_parameters"] = {"full_attention": outer | scaling, "sliding_attention": {"rope_type": "default",
                                                                                             "rope_theta": 5.0}}
    else:
        config |= outer | {"rope_parameters": outer | scaling, "rope_scaling": dict(scaling)}


def check_one(engines, family, seed, kind, root, report):
    rng = np.random.default_rng([seed, TYPES.index(kind), 47])
    folder = root / f"{family}-{kind}-{seed}"
    form = FORMS[(seed + TYPES.index(kind)) % len(FORMS)]

    def edit(config, _):
        config["max_position_embeddings"] = POSITIONS
        write_rotation(config, kind, form, rng)

    model = make_checkpoint(folder, family, seed, tokenizer=None, dtype="f32", edit=edit)
    config = json.loads((folder / "config.json").read_text())
    model.shape = read_shape(config)
    tokens = rng.integers(0, model.shape.vocab - 10, int(rng.integers(20, POSITIONS))).tolist()
    report.on_each(engines, f"{family} {seed} {kind} as {form}",
                   lambda engine, want: compare_logits(engine, folder, want, tokens),
                   lambda: wanted_logits(model, tokens))
    if seed == 0 and kind == "linear":
        refuse_bad_files(engines[0], folder, config, report)


def refuse_bad_files(engine, folder, config, report):
    def is_refused(change, words):
        (folder / "config.json").write_text(json.dumps(config | change))
        try:
            engine.logits(folder, {"tokens": [5, 6, 7]})
        except Exception as refusal:
            return all(word in str(refusal) for word in words), str(refusal)
        return False, "loads"

    for kind in ("longrope", "su", "mrope", "ntk"):
        change = {"rope_parameters": None, "rope_theta": 1e4, "rope_scaling": {"type": kind, "factor": 2.0}}
        report.run(f"{folder.name} {kind} is refused", lambda: is_refused(change, ["rope_scaling.type", kind]))
    change = {"rope_theta": 1e4, "rope_scaling": None, "rope_parameters": {"rope_type": "default", "rope_theta": 2e4}}
    report.run(f"{folder.name} two thetas are refused",
               lambda: is_refused(change, ["rope_theta", "rope_parameters.rope_theta", "expected one value"]))
    (folder / "config.json").write_text(json.dumps(config))


def main():
    args = parse_arguments(__doc__, 1, 1, families=FAMILIES, keeps=False)
    report = Report(not args.quiet)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        engines = engines_of(args)
        for family in args.families.split(","):
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                for kind in TYPES:
                    check_one(engines, family, seed, kind, Path(scratch), report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
