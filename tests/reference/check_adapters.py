"""Checks the adapters (LoRA) of a `lacuna` binary against lora.py.

    python check_adapters.py LACUNA_BINARY [--seeds N] [--first-seed K] [--families llada,dream] [--quiet]

For every family and seed it writes a random checkpoint and one or two random adapters. With `--lora` the logits must be those
of the reference model whose tensors numpy merged; `lacuna merge` must write these tensors, and its copy must give the same
logits bit for bit. On a quantized copy, `--lora` and `merge` must agree. Exit status 0 when nothing failed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import safetensors_io
from check_engine import LOGITS_TOLERANCE, ROUTER_TOLERANCE, Report, engines_of, parse_arguments
from lora import add_replacements, merge, random_adapter, write
from models import Model
from random_checkpoints import make_checkpoint

FAMILIES = ("llada", "dream", "qwen2", "qwen3", "qwen3_moe", "llada2", "llada_moe", "rnd1", "fast_dllm", "diffcoder")
EMBEDDINGS = {"llada": "model.transformer.wte", "llada2": "model.word_embeddings"}
HEADS = {"llada": "model.transformer.ff_out"}
NORMS = {"llada": "model.transformer.ln_f"}


def untied(config, tensors, family):
    """Config and tensors of the same model with a head of its own."""
    key = "weight_tying" if family == "llada" else "tie_word_embeddings"
    if not config[key]:
        return config, tensors
    embedding = EMBEDDINGS.get(family, "model.embed_tokens") + ".weight"
    head = HEADS.get(family, "lm_head") + ".weight"
    return config | {key: False}, tensors | {head: tensors[embedding]}


class Case:
    """A checkpoint, its adapters and the reference model with these."""

    def __init__(self, root, family, seed):
        rng = np.random.default_rng([FAMILIES.index(family), seed, 91])
        self.folder = root / "model"
        model = make_checkpoint(self.folder, family, seed, tokenizer=None, dtype="f32")
        embedding = EMBEDDINGS.get(family, "model.embed_tokens")
        config, tensors = untied(model.config, model.tensors, family)
        linear = {name: values for name, values in tensors.items() if name != HEADS.get(family, "lm_head") + ".weight"}
        self.flags, self.kinds = [], []
        for number in range(int(rng.integers(1, 3))):
            adapter_config, adapter = random_adapter(linear, embedding, rng)
            scale = 1.0 if number == 0 else float(rng.choice([1.0, 0.5, -0.25]))
            if number == 0:  # what a later one replaces may be changed already
                add_replacements(adapter_config, adapter, tensors, rng,
                                 [NORMS.get(family, "model.norm"), HEADS.get(family, "lm_head")])
            stored = write(root / f"adapter{number}", adapter_config, adapter, str(rng.choice(["f32", "bf16", "f16"])))
            tensors = merge(tensors, adapter_config, stored, scale)
            self.flags += ["--lora", f"{root}/adapter{number}" + ("" if scale == 1 else f"={scale}")]
            self.kinds += [key for key in ("use_dora", "use_rslora", "modules_to_save") if adapter_config[key]]
        self.tensors = tensors
        self.model = Model(config, tensors)
        self.model.shape.mask_id = model.shape.mask_id
        self.tokens = rng.integers(0, model.shape.vocab, 13).tolist()


def run(engine, arguments):
    return engine._execute([str(argument) for argument in arguments])


def logits(engine, folder, tokens, flags):
    out = folder.parent / "logits.npy"
    request = folder.parent / "request.json"
    request.write_text(json.dumps({"tokens": tokens}))
    out.unlink(missing_ok=True)
    run(engine, ["logits", "-m", folder, "--request", request, "--out", out, "--dtype", "f32", *flags,
                     *engine.common()])
    return np.load(out)


def check_logits(engine, case):
    case.model.router_gap = np.inf
    want = case.model.logits(case.tokens)
    got = logits(engine, case.folder, case.tokens, case.flags)
    difference = float(np.max(np.abs(got - want))) if got.shape == want.shape else np.inf
    plain = float(np.max(np.abs(logits(engine, case.folder, case.tokens, []) - want)))
    detail = f"max diff {difference:.1e}, without adapters {plain:.1e}; {' '.join(case.kinds)}"
    if difference <= LOGITS_TOLERANCE * max(1.0, float(np.max(np.abs(want))) / 10):
        return plain > 10 * LOGITS_TOLERANCE, detail
    return (None if case.model.router_gap < ROUTER_TOLERANCE else False), f"{detail}; {' '.join(case.flags)}"


def check_merge(engine, case):
    copy = case.folder.parent / "merged"
    run(engine, ["merge", "-m", case.folder, "-o", copy, *case.flags])
    stored = safetensors_io.read_folder(copy)
    for name, values in stored.items():
        want = case.tensors[name]
        if values.shape != want.shape or not np.allclose(values, want, rtol=1e-5, atol=1e-6 * float(np.max(np.abs(want)))):
            return False, f"{name} differs by {np.max(np.abs(values - want)):.1e}"
    left_out = set(case.tensors) - set(stored)
    config = json.loads((copy / "config.json").read_text())
    if left_out and not (config.get("tie_word_embeddings") or config.get("weight_tying")):
        return False, f"not written: {sorted(left_out)}"
    same = np.array_equal(logits(engine, copy, case.tokens, []), logits(engine, case.folder, case.tokens, case.flags))
    return same, f"{len(stored)} tensors, logits of the copy are {'the same' if same else 'others'}"


def check_quantized(engine, case):
    """Adapters on a quantized checkpoint: the rows that it stands for, merged."""
    quantized, copy = case.folder.parent / "int8", case.folder.parent / "merged-int8"
    run(engine, ["quantize", "-m", case.folder, "--to", "int8", "-o", quantized, "--tokens", "4"])
    run(engine, ["merge", "-m", quantized, "-o", copy, "--dtype", "f32", *case.flags])
    got = logits(engine, quantized, case.tokens, ["--weights", "f32", *case.flags])
    same = np.array_equal(got, logits(engine, copy, case.tokens, []))
    return same, f"logits of the merged copy are {'the same' if same else 'others'}"


def is_refused(engine, arguments, *texts):
    done = subprocess.run([engine.binary, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    ok = done.returncode == 2 and done.stdout == "" and all(text in done.stderr for text in texts)
    return ok, f"exit code {done.returncode}: {done.stderr.strip()[:300]}"


def main():
    args = parse_arguments(__doc__, 3, 1, families=",".join(FAMILIES), keeps=False)
    report = Report(not args.quiet)
    for family in args.families.split(","):
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
                case = Case(Path(scratch), family, seed)
                for engine in engines_of(args):
                    label = f"{engine.label}{family} seed {seed}"
                    report.run(f"{label} logits", lambda: check_logits(engine, case), engine)
                    report.run(f"{label} merge", lambda: check_merge(engine, case), engine)
                    if seed % 3 == 0:
                        report.run(f"{label} quantized", lambda: check_quantized(engine, case), engine)
                    report.run(f"{label} without an adapter", lambda: is_refused(
                        engine, ["logits", "-m", case.folder, "--request", "x", "--out", "y", "--lora", case.folder],
                        "--lora", "adapter_config.json"), engine)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
