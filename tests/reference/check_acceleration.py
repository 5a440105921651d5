"""Checks the caches, SureLock and the guide of a `lacuna` binary against acceleration.py.

    python check_acceleration.py LACUNA_BINARY [--seeds N] [--families llada,dream] [--only guide] [--backends scalar,packed]

For every family and seed it writes random checkpoints and runs `lacuna run --trace` with the flags of each method.
Tokens must agree, and pass by pass the rows computed, the commits, the rows locked and unlocked. Near-ties count
as in check_engine.py. The last lines say how often each method did something, so that a check which tests
nothing is visible. Exit status 0 when nothing failed.
"""
import argparse
import collections
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import small_tokenizers
from acceleration import Guide, Lock, accelerate, nearest_rank, total_rows
from check_engine import ROUTER_TOLERANCE, Report, add_backend_arguments, engines_of, flags, make_prompt
from random_checkpoints import END_OF_TURN, make_checkpoint, special_ids
from samplers import NoProgress

FAMILIES = ("llada", "llada_moe", "dream")
LOCK_DEFAULTS = Lock()

# Kinds of checkpoint: (strength of a vector that all embeddings share, factor of what the layers add). The first makes
# every position look more like every other one, the second makes context matter less: posteriors then hardly move (rows
# lock), and a guide with the same embeddings and head often agrees.
KINDS = {"plain": (0, 1), "steady": (1, 1), "steadier": (4, 1), "alike": (1, 0.4), "same": (2, 0.15),
         "masks": (0, 1), "ends": (1, 0.4)}

LLADA_SETTINGS = [
    ("plain", {"gen_length": 24, "steps": 12, "block_length": 8}),
    ("plain", {"gen_length": 20, "steps": 20, "block_length": 20}),
    ("plain", {"gen_length": 24, "block_length": 12, "rule": "threshold=0.4"}),
    ("plain", {"gen_length": 24, "block_length": 6, "rule": "factor=1.5"}),
    ("plain", {"gen_length": 16, "steps": 16, "block_length": 8, "cfg_scale": 0.5}),
    ("holes", {"gen_length": 16, "steps": 8, "block_length": 8}),
    ("holes", {"gen_length": 12, "steps": 12, "block_length": 4}),
]
DREAM_SETTINGS = [
    ("plain", {"gen_length": 24, "steps": 24, "rule": "maskgit"}),
    ("plain", {"gen_length": 24, "steps": 18, "block_length": 8, "rule": "maskgit"}),
    ("plain", {"gen_length": 20, "steps": 20, "block_length": 10, "rule": "margin"}),
    ("plain", {"gen_length": 20, "steps": 16, "rule": "entropy"}),
    ("plain", {"gen_length": 24, "block_length": 12, "rule": "threshold=0.4"}),
    ("plain", {"gen_length": 24, "block_length": 6, "rule": "factor=1.5"}),
    ("holes", {"gen_length": 16, "steps": 12, "block_length": 8, "rule": "maskgit"}),
    ("holes", {"gen_length": 12, "steps": 12, "rule": "entropy"}),
]

CACHE_METHODS = [
    ("plain", {"cache": "prefix"}), ("plain", {"cache": "prefix", "refresh": 3}),
    ("plain", {"cache": "dual"}), ("plain", {"cache": "dual", "refresh": 2}),
    ("plain", {"cache": "free"}), ("plain", {"cache": "free", "cache_block": 5}),
    ("plain", {"cache": "free", "cache_block": 4, "refresh": 4}),
    ("plain", {"cache": "free-literal"}), ("plain", {"cache": "free-literal", "cache_block": 3}),
    ("plain", {"cache": "dkv"}), ("plain", {"cache": "dkv", "refresh": 5}),
    ("plain", {"cache": "sparse-dllm"}), ("plain", {"cache": "sparse-dllm=0.25,pool=1"}),
    ("plain", {"cache": "sparse-dllm=0.7,pool=5", "refresh": 4}), ("masks", {"cache": "sparse-dllm=0.1"}),
    ("plain", {"cache": "dllm-cache"}), ("plain", {"cache": "dllm-cache=0.5,answer=3", "refresh": 4}),
    ("masks", {"cache": "dllm-cache=0.1,answer=4", "refresh": 5}), ("plain", {"cache": "dllm-cache,answer=2", "refresh": 1}),
    ("plain", {"prompt_block": 4}), ("plain", {"prompt_block": 3, "cache": "dkv"}),
    ("plain", {"prompt_block": 2, "cache": "prefix", "refresh": 2}), ("plain", {"prompt_block": 5, "cache": "free"}),
    ("plain", {"prompt_block": 4, "cache": "sparse-dllm", "refresh": 3}), ("masks", {"prompt_block": 4, "cache": "dual"}),
    ("masks", {"cache": "dual"}), ("masks", {"cache": "free"}), ("masks", {"cache": "dkv"}),
]
# eps "50%" stands for the middle of the D values of rows that pass the gate in the same run without locks.
LOCK_METHODS = [
    ("plain", {}, Lock(eps="10%")), ("plain", {}, Lock(eps="90%")), ("plain", {}, Lock(eps="50%", gate=None)),
    ("steady", {}, Lock(eps="30%")), ("steady", {}, Lock(eps="80%", gate=50)),
    ("steadier", {}, Lock()), ("steadier", {}, Lock(eps="60%", gate=35)),
    ("steady", {}, Lock(eps="60%", gate=40, min_age=0)), ("steady", {}, Lock(eps="60%", gate=40, min_age=3)),
    ("steady", {}, Lock(eps="50%", gate=30, population="unlocked")),
    ("steady", {}, Lock(eps="60%", gate=30, prompt="eager")),
    ("steady", {}, Lock(eps="60%", gate=30, prompt="eager", population="unlocked")),
    ("masks", {}, Lock(eps="80%", gate=60)),
    ("steady", {"cache": "prefix", "refresh": 2}, Lock(eps="80%", gate=60)),
    ("steady", {"cache": "dual", "refresh": 3}, Lock(eps="80%", gate=60)),
    ("steady", {"cache": "free"}, Lock(eps="60%", gate=50)),
    ("steady", {"cache": "free-literal", "cache_block": 5}, Lock(eps="60%", gate=50)),
    ("steady", {"cache": "dkv", "refresh": 3}, Lock(eps="80%", gate=60)),
]
UNLOCK_METHODS = [
    ("plain", {}, Lock(eps="70%", gate=60, unlock_every=2, unlock_eps=0.05, interval=1, cooldown=1)),
    ("plain", {}, Lock(eps="70%", gate=None, unlock_every=1, unlock_eps=0.01, interval=0, cooldown=0, budget=3)),
    ("steady", {}, Lock(eps="80%", gate=50, unlock_every=3, unlock_eps=0.001, budget=5, cooldown=2, strictness=1.0)),
    ("plain", {}, Lock(eps="50%", gate=40, unlock_every=3)),
    ("steady", {"cache": "free"}, Lock(eps="80%", gate=60, unlock_every=2, unlock_eps=0.001, interval=2)),
    ("plain", {"cache": "dkv", "refresh": 2}, Lock(eps="80%", gate=60, unlock_every=2, unlock_eps=0.01, interval=1)),
    ("plain", {"cache": "dual", "refresh": 2}, Lock(eps="80%", gate=60, unlock_every=2, unlock_eps=0.01, interval=1)),
]
DELTA_METHODS = [
    ("steady", {}, Lock(eps=None, gate=None, delta=0.5)), ("plain", {}, Lock(eps="50%", gate=60, delta=1.0)),
    ("steadier", {}, Lock(eps=None, gate=50, delta=2.0)),
]
GUIDE_SETTINGS = [{"gen_length": 24}, {"gen_length": 24, "block_length": 8}, {"gen_length": 40, "block_length": 20}]
GUIDE_METHODS = [
    ("plain", {}, Guide(None)), ("alike", {}, Guide(None)), ("same", {}, Guide(None)),
    ("same", {}, Guide(None, "exact", "dlm", 5)), ("alike", {}, Guide(None, "exact", "ar", 7)),
    ("plain", {}, Guide(None, "exact", "ar")), ("alike", {}, Guide(None, "top-k=1", "ar", 3)),
    ("alike", {}, Guide(None, "top-k=5", "dlm", 4)), ("plain", {}, Guide(None, "top-k=40", "ar", 6)),
    ("alike", {}, Guide(None, "relative=0.5", "ar")), ("same", {}, Guide(None, "relative=0.9", "dlm", 2)),
    ("plain", {}, Guide(None, "tau-literal=0.9", "dlm", 8)), ("plain", {}, Guide(None, "tau-literal=1.0", "ar")),
    ("alike", {"cache": "prefix"}, Guide(None)), ("alike", {"cache": "dual", "refresh": 3}, Guide(None, "top-k=5")),
    ("alike", {"cache": "free"}, Guide(None, "exact", "ar", 5)),
    ("alike", {"cache": "free-literal", "cache_block": 5}, Guide(None, "top-k=3")),
    ("alike", {"cache": "dkv"}, Guide(None, "relative=0.3")),
    ("alike", {"cache": "sparse-dllm=0.3"}, Guide(None, "top-k=3")),
    ("alike", {"cache": "dllm-cache=0.3,answer=3", "refresh": 4}, Guide(None, "top-k=3")),
    ("alike", {"lock": Lock(eps="60%", gate=40)}, Guide(None)),
    ("alike", {"cache": "free", "lock": Lock(eps="60%", gate=40)}, Guide(None, "exact", "ar")),
    ("plain", {"lock": Lock(eps="80%", gate=50, unlock_every=2, unlock_eps=0.01, interval=1)}, Guide(None)),
    ("ends", {}, Guide(None, "top-k=20")), ("ends", {}, Guide(None, "exact", "ar")),
]
EMBEDDING = ("wte.weight", "embed_tokens.weight")
HEAD = ("transformer.ff_out.weight", "lm_head.weight")
LAST_NORM = ("ln_f.weight", "model.norm.weight")
GROUPS = {"cache": CACHE_METHODS, "lock": LOCK_METHODS, "unlock": UNLOCK_METHODS, "delta": DELTA_METHODS,
          "guide": GUIDE_METHODS}


def named(tensors, *endings):
    """Names of the tensors with one of these endings."""
    return [name for name in tensors if name.endswith(endings)]


def make_models(root, family, seed, kind):
    """(folder, model) of a diffusion checkpoint and of a guide for it."""
    gains = {"mask_gain": 1.7} if kind == "masks" else {"end_gain": 2.0} if kind == "ends" else {}
    strength, factor = KINDS[kind]

    def calm(tensors):
        for name in named(tensors, "attn_out.weight", "blocks.0.ff_out.weight", "blocks.1.ff_out.weight",
                          "blocks.2.ff_out.weight", "o_proj.weight", "down_proj.weight"):
            tensors[name] = tensors[name] * factor

    def share(config, tensors):
        for name in named(tensors, *EMBEDDING):
            shared = np.random.default_rng([seed, 3]).standard_normal(tensors[name].shape[1])
            tensors[name] = tensors[name] + strength * shared
        calm(tensors)

    folder = root / f"{family}-{seed}-{kind}"
    model = make_checkpoint(folder, family, seed, edit=share, tied=False, **gains)

    def follow(config, tensors):
        for endings in (EMBEDDING, HEAD, LAST_NORM):
            tensors[named(tensors, *endings)[0]] = model.tensors[named(model.tensors, *endings)[0]]
        calm(tensors)
        # Every other guide ends with the end of a turn, and does not know the other end.
        for key in ("eos_token_id", "bos_token_id", "pad_token_id"):
            config[key] = end_of_turn if seed % 2 else model.shape.eos_id

    shape, guide_family = model.shape, ("qwen2", "qwen3")[seed // 2 % 2]
    end_of_turn = special_ids(family, shape.vocab)[END_OF_TURN[family]]
    size = {"vocab": shape.vocab, "hidden": shape.hidden, "tied": False}
    if guide_family == "qwen2":
        size |= {"heads": shape.heads, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim}
    guide_folder = root / f"{family}-{seed}-{kind}-guide"
    guide = make_checkpoint(guide_folder, guide_family, seed, tokenizer=None, edit=follow, **size)
    small_tokenizers.write(guide_folder, family, shape.vocab, "trio" if family == "dream" else "json", lists_mask=False)
    return folder, model, guide_folder, guide


def method_flags(method, guide_folder):
    out = []
    for name in ("cache", "refresh", "cache_block", "prompt_block"):
        if name in method:
            out += ["--" + name.replace("_", "-"), method[name]]
    if method.get("lock"):
        # eps and delta are named whenever they are set: delta alone must not bring the default eps with it.
        values = {name: value for name, value in vars(method["lock"]).items()
                  if value is not None and (value != getattr(LOCK_DEFAULTS, name) or name == "eps")}
        if method["lock"].gate is None:
            values["gate"] = "off"
        out += ["--lock", ",".join(f"{name.replace('_', '-')}={value}" for name, value in values.items())]
    if method.get("guide"):
        guide = method["guide"]
        out += ["--guide", guide_folder, "--guide-match", guide.match, "--guide-fallback", guide.fallback,
                "--guide-block", guide.block]
    return out


def settle_eps(model, prompt, setting, method, eot):
    """The method with eps='50%' replaced by that quantile of the D values of a run that locks nothing."""
    lock = method.get("lock")
    if not lock or not isinstance(lock.eps, str):
        return method
    _, network = accelerate(model, prompt, setting, method | {"lock": replace(lock, eps=0, delta=None)}, eot)
    values = [d for d in network.measured if np.isfinite(d)]
    eps = float(np.quantile(values, float(lock.eps[:-1]) / 100)) if values else 1e-3
    return method | {"lock": replace(lock, eps=float(f"{max(eps, 1e-6):.2g}"))}


def read_trace(path):
    """The passes of a trace file; its first line is the request."""
    return [line for line in map(json.loads, path.read_text().splitlines()) if "pass" in line]


def first_difference(trace, network):
    """None, or what differs first between the passes of the binary and of the reference."""
    halves = len(network.stores)
    for index, (got, want) in enumerate(zip(trace, network.trace)):
        copies = halves if want.kind != "verify" and len(got["rows"]) != len(want.rows) else 1
        pairs = {
            "kind": (got["kind"], want.kind),
            "rows": (sorted(got["rows"]), sorted(want.rows * copies)),
            "commits": (sorted((c["position"], c["token"]) for c in got["committed"]), want.committed),
            "locked": (sorted(got.get("locked", [])), sorted(want.locked)),
            "unlocked": (sorted(got.get("unlocked", [])), sorted(want.unlocked)),
        }
        for what, (mine, theirs) in pairs.items():
            if mine != theirs:
                return f"pass {index} ({want.kind}, block {want.block}) {what}: got {mine}, expected {theirs}"
    if len(trace) != len(network.trace):
        return f"{len(trace)} passes, expected {len(network.trace)}"
    return None


def differing_totals(stats, network, method):
    """None, or which total of the run differs. rho and G divide by D, which float32 knows to about 1e-7."""
    if not method.get("guide") and stats["rows"] != total_rows(network):
        return f"rows: got {stats['rows']}, expected {total_rows(network)}"
    estimate = network.estimate
    if estimate and estimate.smallest > 1e-5 and estimate.ratios:
        got = stats["lock"]
        if got["samples"] != len(estimate.ratios):
            return f"samples: got {got['samples']}, expected {len(estimate.ratios)}"
        for name, values in (("contraction", estimate.ratios), ("gain", estimate.slopes)):
            if not np.isclose(got[name], nearest_rank(values, 95), rtol=0.02):
                return f"{name}: got {got[name]}, expected {nearest_rank(values, 95)}"
    return None


def count(counts, network, method):
    """Adds up how often a method did something."""
    counts["runs"] += 1
    counts["rows left out"] += sum(network.size - len(record.rows) for record in network.trace
                                   if record.kind != "verify")
    for record in network.trace:
        counts["locks"] += len(record.locked)
        counts["probes"] += len(record.probed)
        counts["unlocks"] += len(record.unlocked)
    counts["choices of cells"] += network.choices
    counts["rows that layers reuse"] += sum(record.reused for record in network.trace)
    counts["runs with locks"] += any(record.locked for record in network.trace)
    counts["runs with unlocks"] += any(record.unlocked for record in network.trace)
    for asked, taken in network.rounds if method.get("guide") else []:
        counts["rounds " + ("all" if taken == asked else "some" if taken else "none") + " accepted"] += 1


def wanted(model, prompt, setting, method, eot, counts):
    """(what the reference decodes, its network, the method with its threshold, how close its routers were to a tie), or
    why it does not end"""
    try:
        method = settle_eps(model, prompt, setting, method, eot)
        model.router_gap = np.inf
        want, network = accelerate(model, prompt, setting, method, eot)
    except NoProgress as error:
        return error
    count(counts, network, method)
    return want, network, method, model.router_gap


def compare(engine, root, folder, expected, model, guide_folder, prompt, setting):
    if isinstance(expected, NoProgress):
        return None, f"ambiguous: {expected}"
    want, network, method, router_gap = expected
    arguments = flags(model.shape.family, setting)
    if method.get("guide"):
        at = arguments.index("--unmask")  # a guide leaves nothing to that rule
        del arguments[at:at + 2]
    arguments += method_flags(method, guide_folder)
    trace_file = root / "trace.jsonl"
    trace_file.unlink(missing_ok=True)
    answer = engine.run(folder, prompt, [*arguments, "--trace", trace_file])
    command = " ".join(map(str, arguments))
    difference = first_difference(read_trace(trace_file), network)
    if difference is None and answer["tokens"] != want.tokens:
        difference = f"tokens: got {answer['tokens']}, expected {want.tokens}"
    difference = difference or differing_totals(answer["stats"], network, method)
    if difference is None:
        return True, (f"{len(network.trace)} passes, {total_rows(network)} rows, "
                      f"{sum(len(record.locked) for record in network.trace)} locks; {command}")
    margins = want.margins
    tie = f"token gap {margins.token:.1e}, choice gap {margins.choice:.1e}, lock gap {margins.lock:.1e}"
    if margins.ambiguous() or router_gap < ROUTER_TOLERANCE:
        return None, f"ambiguous: {tie}, router gap {router_gap:.1e}; {command}"
    return False, f"{difference}; {tie}; prompt {prompt}, mask {model.shape.mask_id}, -m {folder}, {command}"


def check_family(engines, family, seed, root, report, groups, counts):
    rng = np.random.default_rng([seed, 11])
    made = {}
    settings = DREAM_SETTINGS if family == "dream" else LLADA_SETTINGS
    for group in groups:
        for number, entry in enumerate(GROUPS[group]):
            kind, method = entry[0], dict(entry[1])
            if kind not in made:
                made[kind] = make_models(root, family, seed, kind)
            folder, model, guide_folder, guide = made[kind]
            eot = special_ids(family, model.shape.vocab)[END_OF_TURN[family]]
            if group == "guide":
                ends = tuple(dict.fromkeys([guide.shape.eos_id, eot]))  # the engine finds the end of a turn by its name
                method["guide"] = replace(entry[2], model=guide, ends=ends)
                chosen = [("plain", GUIDE_SETTINGS[int(rng.integers(len(GUIDE_SETTINGS)))])]
            else:
                if len(entry) > 2:
                    method["lock"] = entry[2]
                # The binary never commits a mask under threshold and factor, which would not end; the reference may.
                fit = [entry for entry in settings if kind != "masks" or "=" not in entry[1].get("rule", "")]
                fit = [entry for entry in fit if not ("prompt_block" in method and "cfg_scale" in entry[1])]
                chosen = [fit[int(place)] for place in rng.choice(len(fit), size=2, replace=False)]
            for prompt_kind, setting in chosen:
                prompt = make_prompt(model, prompt_kind, rng)
                what = " ".join(f"{key}={value}" for key, value in setting.items())
                report.on_each(
                    engines, f"{family} seed {seed} {group} {number} {kind}/{prompt_kind} {what}",
                    lambda engine, want: compare(engine, root, folder, want, model, guide_folder, prompt, setting),
                    lambda: wanted(model, prompt, setting, method, eot, counts[group]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seeds", type=int, default=4, help="random checkpoints per family (default 4)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--only", default=",".join(GROUPS), help="comma-separated groups of " + ", ".join(GROUPS))
    add_backend_arguments(parser)
    parser.add_argument("--keep", help="write the checkpoints here and keep them")
    parser.add_argument("--quiet", action="store_true", help="print only what did not pass")
    args = parser.parse_args()
    families, groups = args.families.split(","), args.only.split(",")
    if unknown := (set(families) - set(FAMILIES)) | (set(groups) - set(GROUPS)):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is not an executable file")
    report = Report(not args.quiet)
    counts = {group: collections.Counter() for group in groups}
    engines = engines_of(args)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        root.mkdir(parents=True, exist_ok=True)
        for family in families:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                check_family(engines, family, seed, root, report, groups, counts)
    for group, counter in counts.items():
        print(f"{group}: " + ", ".join(f"{counter[name]} {name}" for name in counter if counter[name]))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
