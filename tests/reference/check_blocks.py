"""Checks block diffusion and sparse attention of a `lacuna` binary against blocks.py.

    python check_blocks.py LACUNA_BINARY [--seeds N] [--first-seed K] [--families sdar,...] [--sparse losa,...] [--plain]
                                  [--soft] [--focus] [--quiet]

For every seed it writes a random checkpoint and decodes random prompts with random options. Tokens must agree, and pass
by pass its kind, the positions of its rows in feed order and the tokens that it wrote to positions to generate. A run
that differs is skipped as too close when the reference nearly tied in that pass or before. The last lines say how many runs took each rare path, so that a check which tests nothing is visible.
Exit status 0 when nothing failed.
"""
import argparse
import collections
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from acceleration import Lock
from blocks import DENSE_LAYERS, Network, Options, Sparse, decode
from check_acceleration import method_flags, read_trace
from check_engine import ROUTER_TOLERANCE, Report, add_backend_arguments, count_paths, engines_of
from random_checkpoints import MASK, make_checkpoint, special_ids

FAMILIES = ("sdar", "fast_dllm", "llada2", "diffcoder")
SHIFTED = ("fast_dllm",)
DEFAULT_RULE = {"sdar": "low-confidence", "fast_dllm": "dynamic=0.9", "llada2": "dynamic=0.95",
                "diffcoder": "low-confidence"}
PATHS = ("prompt fused", "prefill in parts", "commit fused", "more than the quota", "stopped by an end", "edit",
         "edited after the last mask", "edits came to rest", "sub-block alone", "remembered", "late memory",
         "sparse step", "kept", "reused", "written since", "exact again", "sparse commit", "locked", "locked at a guessed eps",
         "saved rows", "changed", "all sure", "came to rest", "no step left",
         "draft accepted", "draft rejected", "tokens left out", "masks evicted", "more masks stayed than wanted")
METHODS = ("mage", "quest", "sparsed", "flashblock", "losa")
VOCAB = 112
EMBEDDINGS = {"llada": "model.transformer.wte", "llada2": "model.word_embeddings"}


def make_block_checkpoint(folder, family, seed):
    """Writes a small checkpoint without a tokenizer and returns (its reference Model, its end tokens).

    Four layers on average, as sparse attention leaves the first two alone. In every other checkpoint the mask token
    may win, in three of four an end token.
    """
    rng = np.random.default_rng([seed, 51])
    kv_heads, group = ((2, 2), (1, 4), (2, 1), (4, 1), (1, 3), (3, 2))[int(rng.integers(6))]
    sharpness, strength = float(rng.choice([0.3, 0.5, 0.8])), float(rng.choice([0.0, 1.0, 2.0]))
    base = "qwen3" if family == "sdar" else family
    ids = special_ids(base, VOCAB)
    mask = ids[MASK.get(base, "<|mdm_mask|>")]
    ends = [ids[text] for text in ids if text in ("<|im_end|>", "<|endoftext|>", "<|role_end|>")]
    wanted = {mask: seed % 2, ends[0]: seed % 4 > 1, ends[-1]: seed % 4 == 3}

    def edit(config, tensors):
        config["mask_token_id"], config["eos_token_id"] = mask, ends
        if family in ("sdar", "diffcoder"):
            config["block_size"] = int(rng.choice([2, 4, 8]))
        name = EMBEDDINGS.get(family, "model.embed_tokens") + ".weight"
        head_name = "model.transformer.ff_out.weight" if family == "llada" else "lm_head.weight"
        embedding, head = tensors[name], tensors[head_name]
        # All embeddings share a vector, so that positions resemble each other more or less.
        tensors[name] = embedding + strength * rng.standard_normal(embedding.shape[1])
        for token, wins in wanted.items():
            row = rng.standard_normal(embedding.shape[1]) * 4 / np.sqrt(embedding.shape[1])
            head[token] = row * rng.uniform(1.2, 2.2) * bool(wins)
        tensors[head_name] = head * sharpness

    size = {"vocab": VOCAB, "hidden": int(rng.choice([32, 48, 64])), "layers": int(rng.integers(3, 6)),
            "kv_heads": kv_heads, "heads": kv_heads * group, "head_dim": int(rng.choice([8, 16, 24])), "tied": False}
    if family in ("fast_dllm", "a2d_qwen2", "diffcoder", "dream", "llada"):  # no width of heads of their own
        size["hidden"] = size["heads"] * size["head_dim"]
    model = make_checkpoint(folder, base, seed, tokenizer=None, edit=edit, dtype="f32", **size)
    if family == "sdar":  # Qwen3 with another mask
        file = Path(folder) / "config.json"
        config = json.loads(file.read_text()) | {"architectures": ["SDARForCausalLM"], "model_type": "sdar"}
        file.write_text(json.dumps(config, indent=2) + "\n")
    assert model.shape.mask_id == mask
    return model, frozenset(ends)


def short(value):
    """Rounds to three digits, as on the command line."""
    return float(f"{value:.3g}")


def random_rule(rng):
    plain = ("low-confidence", "margin", "entropy", "sequential", "random")
    return str(rng.choice([None, *plain, f"dynamic={short(rng.uniform(0.05, 0.9))}", "dynamic", "dynamic=1",
                           f"threshold={short(rng.uniform(0.05, 0.9))}", f"factor={short(rng.uniform(0.3, 6))}",
                           f"entropy-bounded={short(rng.uniform(0.1, 6))}", "entropy-bounded"]))


def random_sparse(length, rng, methods):
    sparse = random_policy(length, rng, methods)
    if rng.random() < 0.5:  # of three to five layers
        sparse.dense_layers = int(rng.integers(0, 3))
    return sparse


def random_policy(length, rng, methods):
    budget = int(rng.integers(8, max(9, min(41, length))))
    method = str(rng.choice(methods))
    if method == "flashblock":
        return Sparse(method, int(rng.integers(1, 6)), dense_layers=0)
    if method in ("quest", "losa"):
        page = int(rng.choice([2, 3, 4, 8, 16]))
        return Sparse(method, max(budget, page), page=page, active=float(rng.choice([0.01, 0.25, 0.3125, 0.5, 1.0])))
    return Sparse(method, budget, exact=float(rng.choice([0.0, 0.1, 0.2, 0.25, 0.5])))


def random_lock(rng):
    lock = Lock(eps=short(10 ** rng.uniform(-4, 1)), gate=rng.choice([None, 20, 50, 80]),
                min_age=int(rng.choice([0, 1, 1, 2])))
    if lock.gate is not None:
        lock.population = str(rng.choice(["candidates", "unlocked"]))
        lock.prompt = str(rng.choice(["paper", "eager"]))
    if rng.random() < 0.1:
        lock.eps, lock.delta = rng.choice([None, lock.eps]), short(rng.uniform(0.1, 10))
    return lock


def soften(options, rng):
    """Chooses the rule soft; returns it as the command line gets it."""
    if rng.random() < 0.2:
        options.unmask, options.accept = "soft=0.5", 0.9
        return "soft"
    tau = short(rng.choice([0.0, rng.uniform(0.02, 0.1), rng.uniform(0.05, 0.6)]))
    options.unmask, options.accept = f"soft={tau}", short(rng.uniform(0.02, 0.6))
    return f"soft={tau},accept={options.accept}"


def random_options(family, length, rng, plain, soft, methods=METHODS, focus=False):
    """(options, the rule as the command line gets it, or None)"""
    size = int(rng.choice([2, 4, 8, 16]))
    options = Options(gen_length=int(rng.integers(1, 41)), block_length=size, seed=int(rng.integers(0, 1000)))
    rule = random_rule(rng)
    rule = None if rule == "None" else rule
    options.unmask = rule or DEFAULT_RULE[family]
    if soft or (not focus and family not in SHIFTED and rng.random() < 0.1):
        rule = soften(options, rng)
    if options.unmask.split("=")[0] not in ("threshold", "factor", "entropy-bounded", "soft") and rng.random() < 0.6:
        options.steps = int(rng.integers(1, size + 1))
    if rng.random() < 0.3:
        options.temperature = short(rng.uniform(0.2, 1.3))
        options.top_k = int(rng.choice([0, rng.integers(1, 20)]))
        options.top_p = short(rng.choice([1.0, rng.uniform(0.5, 0.99)]))
    if plain:
        return options, rule
    options.commit = str(rng.choice(["fused", "apart"]))
    if focus:
        options.steps, options.focus = None, short(rng.choice([1.0, 1.5, rng.uniform(1, 4)]))
        return options, rule
    if not options.unmask.startswith("soft") and rng.random() < 0.25:
        options.drafts = int(rng.integers(1, 9))
        if family in SHIFTED:
            options.commit, options.sub_block_length = None, size
        return options, rule
    if family in SHIFTED:
        options.commit = "apart" if rng.random() < 0.5 else None
        options.sub_block_length = int(rng.choice([b for b in (1, 2, 4, 8, 16) if b <= size]))
        if options.steps:
            count = size // options.sub_block_length
            options.steps = count * int(rng.integers(1, options.sub_block_length + 1))
        options.cache = str(rng.choice(["none", "block"]))
    elif rng.random() < 0.25 and options.unmask.split("=")[0] not in ("margin", "entropy", "entropy-bounded", "soft"):
        options.edit = (short(rng.uniform(0.02, 0.6)), int(rng.choice([0, 1, 3, 16])))
    if rng.random() < (0.8 if methods == METHODS else 1):
        options.sparse = random_sparse(length, rng, methods)
        if rng.random() < 0.4 and options.sparse.method not in ("flashblock", "losa"):
            options.sparse_commit, options.commit = "sparse", rng.choice([None, "apart"])
        if rng.random() < 0.25:
            options.sparse_after = int(rng.integers(1, size + 1))
    if options.edit is None and not options.unmask.startswith("soft") and rng.random() < 0.5:
        options.lock = random_lock(rng)
    if rng.random() < 0.2:
        options.rope_scale = short(rng.uniform(1, 8))
    return options, rule


def random_prompt(model, family, rng):
    length = int(rng.integers(40, 121)) if rng.random() < 0.75 else int(rng.integers(family in SHIFTED, 20))
    if rng.random() < 0.02:
        length = int(rng.integers(1000, 1100))  # more than one prefill pass
    prompt = rng.integers(0, model.shape.vocab, length)
    usual = rng.integers(0, VOCAB - 20, length)
    return np.where(rng.random(length) < 0.95, usual, prompt).tolist()  # mask and end tokens now and then


def flags(options, rule):
    out = ["--gen-length", options.gen_length, "--block-length", options.block_length,
           "--temperature", options.temperature, "--seed", options.seed]
    for name, value, default in (("unmask", rule, None), ("steps", options.steps, None), ("drafts", options.drafts, 0), ("focus", options.focus, None),
                                 ("top-k", options.top_k, 0),
                                 ("top-p", options.top_p, 1), ("commit", options.commit, None),
                                 ("sub-block-length", options.sub_block_length, None),
                                 ("cache", options.cache, "none"), ("sparse-commit", options.sparse_commit, "exact"),
                                 ("sparse-after", options.sparse_after, None), ("rope-scale", options.rope_scale, 1)):
        if value != default:
            out += [f"--{name}", value]
    if options.lock:
        out += method_flags({"lock": options.lock}, None)
    if options.edit:
        out += ["--edit", "tau={},most={}".format(*options.edit)]
    if options.sparse:
        sparse = options.sparse
        more = {"quest": f",page={sparse.page}", "sparsed": f",exact={sparse.exact}",
                "losa": f",page={sparse.page},active={sparse.active}"}.get(sparse.method, "")
        if sparse.dense_layers != (0 if sparse.method == "flashblock" else DENSE_LAYERS):
            more += f",dense-layers={sparse.dense_layers}"
        out += ["--sparse", f"{sparse.method}={sparse.budget}{more}"]
    return out


def first_difference(trace, want, options):
    """(None, 0), or what differs first and in which pass."""
    for index, (got, record) in enumerate(zip(trace, want.passes)):
        last = index + 1 == len(want.passes)
        end = want.limit - options.gen_length + len(want.tokens) if last else want.limit
        commits = sorted((c["position"], c["token"]) for c in got["committed"])
        pairs = {
            "kind": (got["kind"], record.kind),
            "rows": (got["rows"], record.rows),
            "locks": (got["locked"], record.locked),
            # A trace leaves out what is cut from the answer.
            "commits": ([c for c in commits if c[0] < end], [c for c in record.committed if c[0] < end]),
        }
        for what, (mine, theirs) in pairs.items():
            if mine != theirs:
                return f"pass {index} ({record.kind}) {what}: got {mine}, expected {theirs}", index
    if len(trace) != len(want.passes):
        return f"{len(trace)} passes, expected {len(want.passes)}", min(len(trace), len(want.passes))
    return None, 0


def wanted(family, model, ends, prompt, options, counts):
    """(what the reference decodes, how close its routers were to a tie)"""
    model.router_gap = np.inf
    want = decode(Network(model, options.rope_scale, family in SHIFTED), prompt, ends, options)
    count_paths(counts, want, PATHS)
    return want, model.router_gap


def compare(engine, root, folder, expected, model, ends, prompt, options, rule):
    want, router_gap = expected
    arguments, trace_file = flags(options, rule), root / "trace.jsonl"
    trace_file.unlink(missing_ok=True)
    command = " ".join(map(str, arguments)) + f" -m {folder} --prompt-tokens {','.join(map(str, prompt))}"
    answer = json.loads(engine.call(
        ["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), *arguments, "--dtype", "f32", "--json",
         "--trace", trace_file, "--no-live", *engine.common()]))
    difference, at = first_difference(read_trace(trace_file), want, options)
    if difference is None and answer["tokens"] != want.tokens:
        difference, at = f"tokens: got {answer['tokens']}, expected {want.tokens}", len(want.passes)
    if difference is None:
        return True, f"{len(want.passes)} passes, {len(want.tokens)} tokens; {' '.join(map(str, arguments))}"
    if want.close is not None and want.close <= at:
        return None, f"too close to call in pass {want.close}: {difference}; {command}"
    if router_gap < ROUTER_TOLERANCE:
        return None, f"router gap {router_gap:.1e}: {difference}; {command}"
    return False, f"{difference}; ends {sorted(ends)}, mask {model.shape.mask_id}; {command}"


def block_checkpoints(args, families, order, salt):
    """For each seed and family: the family, its name in reports, the checkpoint's folder, model and end tokens, and a checker's random
    numbers, which depend on the seed, the family's place in `order` and `salt`."""
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for family in families:
                folder = Path(args.keep or scratch) / f"{family}-{seed}"
                yield (family, f"{family} seed {seed}", folder, *make_block_checkpoint(folder, family, seed),
                       np.random.default_rng([seed, order.index(family), salt]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seeds", type=int, default=10, help="random checkpoints per family (default 10)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=12, help="runs per checkpoint (default 12)")
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated")
    parser.add_argument("--sparse", default=",".join(METHODS), help="methods of sparse attention, comma-separated")
    parser.add_argument("--plain", action="store_true", help="rules and drawing alone")
    parser.add_argument("--soft", action="store_true", help="the rule soft alone")
    parser.add_argument("--focus", action="store_true", help="passes that drop masks alone")
    add_backend_arguments(parser)
    parser.add_argument("--keep", help="write the checkpoints here and keep them")
    parser.add_argument("--quiet", action="store_true", help="print only what did not pass")
    args = parser.parse_args()
    families = args.families.split(",")
    if unknown := set(families) - set(FAMILIES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is not an executable file")
    if args.soft or args.focus:  # a shifted model draws no token from its own row
        families = [family for family in families if family not in SHIFTED]
    report, counts = Report(not args.quiet), {family: collections.Counter() for family in families}
    engines = engines_of(args)
    for family, name, folder, model, ends, rng in block_checkpoints(args, families, FAMILIES, 53):
        for case in range(args.cases):
            prompt = random_prompt(model, family, rng)
            options, rule = random_options(family, len(prompt), rng, args.plain, args.soft,
                                           tuple(args.sparse.split(",")), args.focus)
            report.on_each(
                engines, f"{name} case {case}",
                lambda engine, want: compare(engine, folder.parent, folder, want, model, ends, prompt, options, rule),
                lambda: wanted(family, model, ends, prompt, options, counts[family]))
    for family, counter in counts.items():
        print(f"{family}: {counter['runs']} runs; " + ", ".join(f"{counter[path]} {path}" for path in PATHS))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
