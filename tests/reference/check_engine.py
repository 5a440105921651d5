"""Checks a `lacuna` binary from outside: logits, greedy decodes and tokenizers against the references here.

    python check_engine.py LACUNA_BINARY [--seeds N] [--families llada,dream] [--backends scalar,packed] [--keep DIR]

For every family and seed it writes random checkpoints (random_checkpoints.py), compares `lacuna logits` within 2e-3
at logits of scale 10, and `lacuna run` at temperature 0 token for token (of block diffusion: check_blocks.py). A comparison that hangs on a near-tie in
the reference is skipped as ambiguous; a setting that the engine refuses fails. Exit status 0 when nothing failed.
"""
import argparse
import collections
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

import sample_text
import small_tokenizers
from models import BLOCK_FAMILIES, FAMILIES, LLADA_FAMILIES, SHIFTED_FAMILIES
from random_checkpoints import END_OF_TURN, make_checkpoint, special_ids
from samplers import NoProgress, decode

LOGITS_TOLERANCE = 2e-3
ROUTER_TOLERANCE = 5e-6  # an expert chosen by less than this in probability may be another one in float32

# Backends: the instruction set that the program chooses; a given one; a packed copy of the model; three threads; two ranks
# with --shard layers or rows; CUDA's kernels on simulated threads.
INSTRUCTION_SETS = ("scalar", "avx2", "avx512-fma", "avx512", "amx")
BACKEND_FLAGS = {"threads": ["--threads", 3], "layers": ["--shard", "layers", "--ranks", 2],
                 "rows": ["--shard", "rows", "--ranks", 2], "simulator": ["--device", "simulator"]}
BACKENDS = ("auto", *INSTRUCTION_SETS, "packed", *BACKEND_FLAGS)
PARTIAL = ("layers", "rows", "simulator")  # these refuse some models and settings, with exit code 2


def repeating(name, argv):
    """The command that makes the comparisons of one seed again, whose number is in the name of a comparison; empty where
    none is. Cases of a seed are drawn one after the other, so that one of them alone would be another."""
    seed = re.search(r"\bseed (\d+)\b", name)
    if not seed:
        return ""
    kept, skips = [], False
    for word in argv:
        takes_next = word in ("--seeds", "--first-seed")
        if not (skips or takes_next or word.startswith(("--seeds=", "--first-seed="))):
            kept.append(word)
        skips = takes_next
    return shlex.join(["python3", *kept, "--first-seed", seed[1], "--seeds", "1"])


class Refused(RuntimeError):
    """A partial backend refused this model or setting with exit code 2."""


class Report:
    def __init__(self, verbose):
        self.verbose = verbose
        self.passed = self.failed = self.skipped = self.refused = 0
        self.by_backend = collections.Counter()

    def line(self, word, name, detail):
        if self.verbose or word in ("FAIL", "skip"):
            print(f"{word:4} {name}: {detail}", flush=True)

    def ok(self, name, detail=""):
        self.passed += 1
        self.line("pass", name, detail)

    def bad(self, name, detail):
        self.failed += 1
        self.line("FAIL", name, detail)
        command = repeating(name, sys.argv)
        if command:
            print(f"     again: {command}", flush=True)

    def skip(self, name, detail):
        self.skipped += 1
        self.line("skip", name, detail)

    def run(self, name, check, engine=None):
        """Runs check() -> (state, detail), counted for the engine's backend; an exception fails that check alone."""
        try:
            state, detail = check()
            {True: self.ok, False: self.bad, None: self.skip}[state](name, detail)
            if state and engine is not None:
                self.by_backend[engine.backend] += 1
        except Refused as error:
            self.refused += 1
            self.line("none", name, str(error))
        except Exception as error:  # one broken check must not hide the others
            trace = traceback.format_exc() if not isinstance(error, (RuntimeError, subprocess.TimeoutExpired)) else ""
            self.bad(name, f"{type(error).__name__}: {error}\n{trace}".strip())

    def on_each(self, engines, name, check, wanted=lambda: None):
        """Runs check(engine, expected) -> (state, detail) for every engine; expected is the result of one call of wanted()."""
        once = functools.cache(wanted)
        for engine in engines:
            self.run(f"{engine.label}{name}", lambda: check(engine, once()), engine)

    def finish(self):
        """Prints the counts and returns the exit status."""
        if len(self.by_backend) > 1:
            print("passed by backend: " + ", ".join(f"{name} {count}" for name, count in self.by_backend.items()))
        refused = f", {self.refused} not computed by that backend" if self.refused else ""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped{refused}")
        return 1 if self.failed or not self.passed else 0


class Engine:
    """A binary and the backend with which it runs the model."""

    def __init__(self, binary, backend="auto", threads=0):
        self.binary, self.backend = str(Path(binary).resolve()), backend
        self.label = "" if backend == "auto" else f"{backend} "
        self.flags = BACKEND_FLAGS.get(backend, []) + (["--threads", threads] if threads else [])
        self.env = os.environ | ({"LACUNA_ISA": backend} if backend in INSTRUCTION_SETS else {}) | {"NO_COLOR": "1"}

    def call(self, arguments, text=b""):
        arguments = list(map(str, arguments))
        if "-m" in arguments:
            model = arguments.index("-m") + 1
            arguments[model] = self.place(arguments[model])
        return self._execute(arguments, text)

    def place(self, folder):
        """Where this backend's copy of a model is."""
        return self._packed(folder) if self.backend == "packed" else folder

    def _execute(self, arguments, text=b""):
        done = subprocess.run([self.binary, *arguments], input=text, capture_output=True, env=self.env, timeout=300)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            refused = done.returncode == 2 and self.backend in PARTIAL
            raise (Refused if refused else RuntimeError)(
                f"exit code {done.returncode}: {said} [lacuna {shlex.join(arguments)}]")
        return done.stdout

    def _packed(self, folder):
        copy = f"{folder}-packed"
        if not os.path.exists(copy):
            self._execute(["pack", "-m", folder, "-o", copy, "--dtype", "f32"])
        return copy

    def common(self):
        return self.flags

    def logits(self, folder, request):
        """Logits of a request, a dictionary whose fields may be None."""
        path, out = folder / "request.json", folder / "logits.npy"
        path.write_text(json.dumps({key: value for key, value in request.items() if value is not None}))
        out.unlink(missing_ok=True)
        self.call(["logits", "-m", folder, "--request", path, "--out", out, "--dtype", "f32", *self.common()])
        return np.load(out)

    def run(self, folder, prompt, arguments):
        out = self.call(["run", "-m", folder, "--prompt-tokens", ",".join(map(str, prompt)), *arguments,
                         "--temperature", "0", "--dtype", "f32", "--json", *self.common()])
        return json.loads(out)

    def encode(self, folder, text):
        value = json.loads(self.call(["tokenize", "-m", folder], text.encode()))
        if isinstance(value, dict):
            value = value.get("tokens", value.get("ids"))
        return value

    def decode(self, folder, ids):
        return self.call(["tokenize", "-m", folder, "--decode"], json.dumps(ids).encode())


def engines_of(args):
    """One engine for each name of --backends."""
    return [Engine(args.binary, backend, args.threads) for backend in args.backends.split(",")]


def flags(family, setting):
    """Command-line flags of one setting."""
    if family not in (*LLADA_FAMILIES, *SHIFTED_FAMILIES):
        return ["--gen-length", setting["gen_length"], "--ignore-eos"]
    default = "maskgit" if family in SHIFTED_FAMILIES else "low-confidence"
    out = ["--gen-length", setting["gen_length"], "--unmask", setting.get("rule", default)]
    for name in ("steps", "block_length", "cfg_scale", "top_p", "top_k", "eps"):
        if name in setting:
            out += ["--" + name.replace("_", "-"), setting[name]]
    for name in ("logits_eos_inf", "confidence_eos_eot_inf"):
        if setting.get(name):
            out.append("--" + name.replace("_", "-"))
    return out


# Each entry: (kind of checkpoint, kind of prompt, setting). Kinds of checkpoint: plain; ends, whose end tokens win
# often; masks, whose mask token wins often. Kinds of prompt: plain; holes, which contains mask tokens.
LLADA_SETTINGS = [
    ("plain", "plain", {"gen_length": 24, "steps": 24, "block_length": 24}),
    ("plain", "plain", {"gen_length": 24, "steps": 12, "block_length": 8}),
    ("plain", "plain", {"gen_length": 20, "steps": 8, "block_length": 10}),
    ("plain", "plain", {"gen_length": 12, "steps": 18, "block_length": 4}),
    ("plain", "plain", {"gen_length": 1, "steps": 1, "block_length": 1}),
    ("plain", "plain", {"gen_length": 16, "steps": 8, "block_length": 8, "cfg_scale": 0.5}),
    ("plain", "plain", {"gen_length": 16, "steps": 4, "block_length": 16, "cfg_scale": 2.0}),
    ("plain", "plain", {"gen_length": 24, "block_length": 12, "rule": "threshold=0.9"}),
    ("plain", "plain", {"gen_length": 24, "block_length": 8, "rule": "threshold=0.3"}),
    ("plain", "plain", {"gen_length": 24, "block_length": 12, "rule": "factor=1.0"}),
    ("plain", "plain", {"gen_length": 24, "block_length": 24, "rule": "factor=2.5"}),
    ("plain", "holes", {"gen_length": 16, "steps": 8, "block_length": 8}),
    ("plain", "holes", {"gen_length": 12, "steps": 6, "block_length": 6, "cfg_scale": 1.0}),
    ("ends", "plain", {"gen_length": 16, "steps": 8, "block_length": 16, "logits_eos_inf": True}),
    ("ends", "plain", {"gen_length": 16, "steps": 16, "block_length": 16, "confidence_eos_eot_inf": True}),
    ("ends", "plain", {"gen_length": 16, "steps": 8, "block_length": 16, "logits_eos_inf": True,
                       "confidence_eos_eot_inf": True}),
    ("masks", "plain", {"gen_length": 16, "steps": 8, "block_length": 8}),
    ("masks", "holes", {"gen_length": 12, "steps": 12, "block_length": 4}),
]
DREAM_SETTINGS = [
    ("plain", "plain", {"gen_length": 8, "steps": 8, "rule": "maskgit"}),
    ("plain", "plain", {"gen_length": 24, "steps": 9, "rule": "maskgit"}),
    ("plain", "plain", {"gen_length": 20, "steps": 12, "rule": "margin"}),
    ("plain", "plain", {"gen_length": 20, "steps": 20, "rule": "entropy"}),
    ("plain", "plain", {"gen_length": 12, "steps": 30, "rule": "entropy", "eps": 0.02}),
    ("plain", "plain", {"gen_length": 1, "steps": 1, "rule": "maskgit"}),
    ("plain", "plain", {"gen_length": 16, "steps": 10, "rule": "maskgit", "top_p": 0.8}),
    ("plain", "plain", {"gen_length": 16, "steps": 10, "rule": "entropy", "top_p": 0.9, "top_k": 20}),
    ("plain", "plain", {"gen_length": 16, "steps": 8, "rule": "margin", "top_k": 5}),
    ("plain", "plain", {"gen_length": 24, "rule": "threshold=0.9"}),
    ("plain", "plain", {"gen_length": 24, "rule": "threshold=0.3"}),
    ("plain", "plain", {"gen_length": 24, "rule": "factor=1.0"}),
    ("plain", "plain", {"gen_length": 16, "steps": 16, "rule": "p2"}),
    ("plain", "plain", {"gen_length": 20, "steps": 8, "rule": "p2", "top_p": 0.9}),
    ("plain", "holes", {"gen_length": 24, "steps": 12, "block_length": 8, "rule": "p2"}),
    ("plain", "holes", {"gen_length": 16, "steps": 8, "rule": "maskgit"}),
    ("plain", "holes", {"gen_length": 10, "steps": 10, "rule": "entropy"}),
    ("masks", "plain", {"gen_length": 16, "steps": 8, "rule": "maskgit"}),
    ("masks", "holes", {"gen_length": 12, "steps": 12, "rule": "margin"}),
]
# The schedule is the model's; the rules that know no schedule are Dream's.
RND1_SETTINGS = [
    ("plain", "plain", {"gen_length": 8, "steps": 8, "rule": "entropy"}),
    ("plain", "plain", {"gen_length": 24, "steps": 9, "rule": "entropy"}),
    ("plain", "plain", {"gen_length": 20, "rule": "entropy"}),
    ("plain", "plain", {"gen_length": 22, "steps": 22, "rule": "entropy"}),  # 22 * (13 / 22) is below 13 in f32
    ("plain", "plain", {"gen_length": 12, "steps": 30, "rule": "entropy"}),
    ("plain", "plain", {"gen_length": 16, "steps": 3, "rule": "margin"}),
    ("plain", "plain", {"gen_length": 24, "steps": 6, "block_length": 12, "rule": "entropy"}),
    ("plain", "plain", {"gen_length": 1, "steps": 1, "rule": "maskgit"}),
    ("plain", "plain", {"gen_length": 24, "steps": 5, "rule": "entropy", "top_p": 0.9, "top_k": 20}),
    ("plain", "plain", {"gen_length": 24, "rule": "threshold=0.3"}),
    ("plain", "plain", {"gen_length": 16, "steps": 16, "rule": "p2"}),
    ("plain", "holes", {"gen_length": 16, "steps": 8, "rule": "entropy"}),
    ("masks", "plain", {"gen_length": 16, "steps": 8, "rule": "entropy"}),
    ("masks", "holes", {"gen_length": 12, "steps": 12, "rule": "maskgit"}),
]
CAUSAL_SETTINGS = [("plain", "plain", {"gen_length": 24}), ("plain", "plain", {"gen_length": 1}),
                   ("plain", "plain", {"gen_length": 40})]


def settings_of(family):
    if family in BLOCK_FAMILIES:
        return []
    if family == "rnd1":
        return RND1_SETTINGS
    return LLADA_SETTINGS if family in LLADA_FAMILIES else DREAM_SETTINGS if family in SHIFTED_FAMILIES else CAUSAL_SETTINGS


def make_prompt(model, kind, rng):
    """3 to 20 random ids; 'holes' puts masks at places other than the first."""
    length = int(rng.integers(3, 21))
    first_special = min(special_ids(model.shape.family, model.shape.vocab).values())
    prompt = [int(t) for t in rng.integers(0, first_special, length)]
    if kind == "holes":
        for place in rng.choice(np.arange(1, length), size=min(2, length - 1), replace=False):
            prompt[place] = model.shape.mask_id
    return prompt


def wanted_logits(model, *inputs, **options):
    """(logits of the reference, how close its routers were to a tie)"""
    model.router_gap = np.inf
    want = model.logits(*inputs, **options)
    return want, model.router_gap


def count_paths(counts, want, paths):
    """Counts a run of the reference, and which of the rare paths it took."""
    counts["runs"] += 1
    for path in paths:
        counts[path] += want.met[path] > 0


def compare_logits(engine, folder, wanted, tokens, **fields):
    """Logits of these tokens and other fields of the request, compared with wanted_logits()."""
    want, router_gap = wanted
    got = engine.logits(folder, {"tokens": tokens} | fields)
    if got.dtype != np.float32 or got.shape != want.shape:
        return False, f"expected float32 {want.shape}, got {got.dtype} {got.shape}"
    if not np.all(np.isfinite(got)):
        return False, f"{np.sum(~np.isfinite(got))} values are not finite"
    difference = np.abs(got - want)
    row, token = np.unravel_index(np.argmax(difference), difference.shape)
    detail = (f"max diff {difference[row, token]:.1e} at row {row} token {token}, rows over tolerance "
              f"{int(np.sum(np.max(difference, axis=-1) > LOGITS_TOLERANCE))}/{len(tokens)}, scale {np.max(want):.1f}")
    if difference[row, token] <= LOGITS_TOLERANCE:
        return True, detail
    if router_gap < ROUTER_TOLERANCE:
        return None, f"ambiguous: router gap {router_gap:.1e}, {detail}"
    return False, detail


def wanted_decode(model, prompt, setting):
    """(what the reference decodes or why it does not end, how close its routers were to a tie)"""
    family, model.router_gap = model.shape.family, np.inf
    try:
        want = decode(model, prompt, setting, special_ids(family, model.shape.vocab)[END_OF_TURN[family]])
    except NoProgress as error:
        want = error
    return want, model.router_gap


def compare_decode(engine, folder, wanted, model, prompt, setting):
    family, (want, router_gap) = model.shape.family, wanted
    if isinstance(want, NoProgress):
        return None, f"ambiguous: {want}"
    got = engine.run(folder, prompt, flags(family, setting))["tokens"]
    if got == want.tokens:
        return True, f"{len(got)} tokens, {want.forward_passes} passes, margins {want.margins.token:.0e} " \
                     f"{want.margins.choice:.0e}"
    if want.margins.ambiguous() or router_gap < ROUTER_TOLERANCE:
        return None, f"ambiguous: token gap {want.margins.token:.1e}, choice gap {want.margins.choice:.1e}, " \
                     f"router gap {router_gap:.1e}"
    first = next((i for i, (a, b) in enumerate(zip(got, want.tokens)) if a != b), min(len(got), len(want.tokens)))
    command = " ".join(map(str, flags(family, setting)))
    return False, (f"differs at {first}: got {got}, expected {want.tokens}; mask {model.shape.mask_id}, end "
                   f"{model.shape.eos_id}, prompt {prompt}, {command}, margins {want.margins.token:.1e} "
                   f"{want.margins.choice:.1e}, first commits {want.commits[:4]}")


def check_family(engines, family, seed, root, report):
    gains = {"plain": {}, "ends": {"end_gain": 2.0}, "masks": {"mask_gain": 1.7}}
    kinds = {"plain"} | {kind for kind, _, _ in settings_of(family)}
    made = {}
    for kind in sorted(kinds):
        folder = root / f"{family}-{seed}-{kind}"
        tokenizer = None if family in BLOCK_FAMILIES else "auto"
        made[kind] = (folder, make_checkpoint(folder, family, seed, tokenizer, **gains[kind]))
    folder, model = made["plain"]
    rng = np.random.default_rng([seed, 7])
    vocab, mask = model.shape.vocab, model.shape.mask_id
    mixed = [int(t) for t in rng.integers(0, vocab, 33)]
    if mask >= 0:
        for place in rng.choice(33, size=15, replace=False):
            mixed[place] = mask
    gaps = np.sort(rng.choice(900, size=17, replace=False))
    if not model.shape.causal:
        gaps = rng.permutation(gaps)
    long = [int(t) for t in rng.integers(0, vocab, 130)]
    requests = {"33 rows": (mixed, None), "1 row": ([int(vocab - 1)], None), "130 rows": (long, None),
                "17 rows at given positions": (mixed[:17], [int(p) for p in gaps])}
    name = f"{family} seed {seed}"
    for what, (tokens, positions) in requests.items():
        report.on_each(engines, f"{name} logits {what}",
                       lambda engine, want: compare_logits(engine, folder, want, tokens, positions=positions),
                       lambda: wanted_logits(model, tokens, positions))
    for length in (1, 7, 16, 200) if family in BLOCK_FAMILIES else ():
        report.on_each(engines, f"{name} logits in blocks of {length}",
                       lambda engine, want: compare_logits(engine, folder, want, long, block_length=length),
                       lambda: wanted_logits(model, long, block_length=length))
    for kind, prompt_kind, setting in settings_of(family):
        at, of = made[kind]
        prompt = make_prompt(of, prompt_kind, rng)
        what = " ".join(f"{key}={value}" for key, value in setting.items())
        report.on_each(engines, f"{name} run {kind}/{prompt_kind} {what}",
                       lambda engine, want: compare_decode(engine, at, want, of, prompt, setting),
                       lambda: wanted_decode(of, prompt, setting))


def compare_encoding(engine, folder, tokenizer, text):
    """Added tokens in the text may be their ids or plain text, whichever the command line stands for."""
    got, wants = engine.encode(folder, text), []
    for as_text in (False, True):
        tokenizer.encode_special_tokens = as_text
        wants.append(tokenizer.encode(text, add_special_tokens=False).ids)
    tokenizer.encode_special_tokens = False
    if got not in wants:
        return False, f"got {got}, expected {wants[0]}" + (f" or {wants[1]}" if wants[0] != wants[1] else "")
    return True, "" if wants[0] == wants[1] else "added tokens are " + ("ids" if got == wants[0] else "text")


def compare_decoding(engine, folder, tokenizer, ids):
    want, got = tokenizer.decode(ids).encode(), engine.decode(folder, ids)
    # Bytes that are not UTF-8 may come out raw or as U+FFFD; a closing newline may be added.
    shown = got.decode(errors="replace").encode()
    good = shown in (want, want + b"\n")
    return good, "" if good else f"got {got!r}, expected {want!r}"


def check_tokenizers(engine, root, report):
    variants = [("llada", "json", False, 811), ("llada", "json", True, 811), ("dream", "trio", False, 811),
                ("qwen3", "trio", False, 811), ("qwen3", "json", False, 701), ("llada", "json", False, 151)]
    rng = np.random.default_rng(5)
    for family, kind, string_merges, vocab in variants:
        folder = root / f"tokenizer-{family}-{kind}-{vocab}{'-strings' if string_merges else ''}"
        make_checkpoint(folder, family, 0, tokenizer=None, vocab=vocab, layers=1)
        small_tokenizers.write(folder, family, vocab, kind, string_merges)
        tokenizer = small_tokenizers.build(family, vocab)
        name = f"tokenizer {folder.name.removeprefix('tokenizer-')}"
        everything = small_tokenizers.has_all_bytes(family, vocab)
        cases = sample_text.CASES + (sample_text.UNICODE_CASES + [sample_text.CORPUS, sample_text.FOREIGN]
                                     if everything else [])
        if not everything:  # a vocabulary without the bytes of the text is not a case that is published
            known = set(map(chr, range(32, 127))) | {"\n"}
            cases = [case for case in cases if set(case) <= known]
        ends = list(special_ids(family, vocab))
        cases += [f"{ends[0]}user text{ends[1]}\n more {ends[-1]}"]
        for case in cases:
            report.run(f"{name} encode {case[:40]!r}", lambda: compare_encoding(engine, folder, tokenizer, case))
        for case in cases[:-1]:
            ids = tokenizer.encode(case, add_special_tokens=False).ids
            report.run(f"{name} decode {case[:40]!r}", lambda: compare_decoding(engine, folder, tokenizer, ids))
        first_special = min(special_ids(family, vocab).values())
        for _ in range(4):
            ids = [int(t) for t in rng.integers(0, first_special, 25)]
            report.run(f"{name} decode random ids", lambda: compare_decoding(engine, folder, tokenizer, ids))


def add_backend_arguments(parser, default="auto"):
    parser.add_argument("--backends", type=backends, default=default,
                        help=f"comma-separated names of {', '.join(BACKENDS)} (default {default})")
    parser.add_argument("--threads", type=int, default=0)


def backends(text):
    if unknown := set(text.split(",")) - set(BACKENDS):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(BACKENDS)}")
    return text


def parse_arguments(doc, seeds, cases, families=None, keeps=True):
    """Command line of a checker that makes `cases` runs of each of `seeds` random checkpoints, the defaults of its flags.
    families: names that --families chooses from; None: the checker has no such flag. keeps: whether it has --keep."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seeds", type=int, default=seeds, help=f"random checkpoints (default {seeds})")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=cases, help=f"runs per checkpoint (default {cases})")
    if families:
        parser.add_argument("--families", default=families, help=f"comma-separated (default {families})")
    add_backend_arguments(parser)
    if keeps:
        parser.add_argument("--keep", help="write the checkpoints here and keep them")
    parser.add_argument("--quiet", action="store_true", help="print only what did not pass")
    args = parser.parse_args()
    if not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is not an executable file")
    return args


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seeds", type=int, default=4, help="random checkpoints per family (default 4)")
    parser.add_argument("--first-seed", type=int, default=0)
    everything = FAMILIES + BLOCK_FAMILIES
    parser.add_argument("--families", default=",".join(everything),
                        help="comma-separated; 'tokenizers' alone is allowed")
    add_backend_arguments(parser)
    parser.add_argument("--keep", help="write the checkpoints here and keep them")
    parser.add_argument("--quiet", action="store_true", help="print only what did not pass")
    args = parser.parse_args()
    families = args.families.split(",")
    if unknown := set(families) - set(everything) - {"tokenizers"}:
        parser.error(f"unknown family {', '.join(sorted(unknown))}")
    if not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is not an executable file")
    report = Report(not args.quiet)
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        root = Path(args.keep or scratch)
        root.mkdir(parents=True, exist_ok=True)
        engines = engines_of(args)
        for family in families:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                if family != "tokenizers":
                    check_family(engines, family, seed, root, report)
        if "tokenizers" in families or families == list(everything):
            check_tokenizers(Engine(args.binary), root, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
