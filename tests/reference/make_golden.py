"""Writes the golden files of tests/golden: tiny checkpoints with the logits and greedy decodes of the references.

    python make_golden.py ../golden [--families qwen3_moe,rnd1]

Needs numpy only. Every decode was chosen so that no decision in it is close: the nearest second-best token is at least
0.02 in logits away and the nearest confidence 0.5 % away, far above float32 noise. tests/golden/README.md, which this
writes too, describes the files.
"""
import argparse
import json
from pathlib import Path

import numpy as np

from models import BLOCK_FAMILIES, LLADA_FAMILIES, SEEDED, SHIFTED_FAMILIES, Model
from random_checkpoints import END_OF_TURN, MASK, make_checkpoint, special_ids
from samplers import NoProgress, decode

TOKEN_MARGIN, CHOICE_MARGIN, ROUTER_MARGIN = 0.02, 0.005, 2e-5
BASE = {"hidden": 32, "heads": 2, "kv_heads": 2, "head_dim": 16, "layers": 2, "ffn": 45, "vocab": 97, "tied": False}
MODELS = {  # dimensions, storage
    "llada": ({"theta": 5e5, "eps": 1e-5}, "bf16"),
    "llada_moe": ({"theta": 5e4, "eps": 1e-5, "ffn": 21, "experts": 5, "experts_per_token": 2}, "f16"),
    "dream": ({"theta": 1e6, "eps": 1e-6, "kv_heads": 1}, "f32"),
    "qwen2": ({"theta": 1e6, "eps": 1e-6, "kv_heads": 1, "tied": True}, "bf16"),
    "qwen3": ({"theta": 1e6, "eps": 1e-6, "heads": 4}, "f32"),
    "fast_dllm": ({"theta": 1e6, "eps": 1e-6, "kv_heads": 1}, "bf16"),
    "llada2": ({"theta": 6e5, "eps": 1e-6, "kv_heads": 1, "ffn": 13, "dense_ffn": 45, "first_dense": 1, "experts": 8,
                "experts_per_token": 3, "groups": 4, "groups_per_token": 2, "shared": 2, "rotary": 0.5,
                "routed_scale": 2.5, "qkv_bias": False, "dense_bias": False}, "bf16"),
    "qwen3_moe": ({"theta": 1e6, "eps": 1e-6, "heads": 4, "ffn": 13, "experts": 6, "experts_per_token": 2,
                   "rescaled": True}, "bf16"),
    "sdar_moe": ({"theta": 1e6, "eps": 1e-6, "heads": 4, "ffn": 13, "experts": 6, "experts_per_token": 2,
                  "rescaled": True}, "bf16"),
    "rnd1": ({"theta": 1e6, "eps": 1e-6, "heads": 4, "ffn": 13, "experts": 6, "experts_per_token": 3,
              "rescaled": True}, "bf16"),
    "coda": ({"theta": 1e6, "eps": 1e-6, "heads": 4}, "bf16"),
    "a2d_qwen3": ({"theta": 1e6, "eps": 1e-6, "heads": 4, "tied": True}, "bf16"),
    "a2d_qwen2": ({"theta": 1e6, "eps": 1e-6, "kv_heads": 1, "tied": True}, "bf16"),
    "llama": ({"theta": 5e5, "eps": 1e-6, "kv_heads": 1}, "bf16"),
    "diffcoder": ({"theta": 5e5, "eps": 1e-6, "kv_heads": 1}, "bf16"),
    "nemotron": ({"theta": 1e4, "eps": 1e-5, "kv_heads": 1, "rotary": 0.5, "attention_bias": True, "mlp_bias": True}, "bf16"),
}
BLOCK_LENGTH = 7
# (what the run must show, setting). plain: no mask token is left; holes: masks in the prompt; ends: end tokens would
# be generated without the switches; masks: a mask token is committed as if it were text.
LLADA = [
    ("plain", {"rule": "low-confidence", "gen_length": 16, "steps": 16, "block_length": 16}),
    ("plain", {"rule": "low-confidence", "gen_length": 16, "steps": 8, "block_length": 8}),
    ("plain", {"rule": "low-confidence", "gen_length": 20, "steps": 8, "block_length": 10}),
    ("plain", {"rule": "low-confidence", "gen_length": 8, "steps": 12, "block_length": 4}),
    ("plain", {"rule": "low-confidence", "gen_length": 16, "steps": 8, "block_length": 8, "cfg_scale": 0.5}),
    ("plain", {"rule": "low-confidence", "gen_length": 8, "steps": 4, "block_length": 8, "cfg_scale": 2.0}),
    ("holes", {"rule": "low-confidence", "gen_length": 12, "steps": 6, "block_length": 6}),
    ("holes", {"rule": "low-confidence", "gen_length": 12, "steps": 6, "block_length": 6, "cfg_scale": 1.0}),
    ("masks", {"rule": "low-confidence", "gen_length": 12, "steps": 6, "block_length": 6}),
    ("ends", {"rule": "low-confidence", "gen_length": 12, "steps": 6, "block_length": 12, "logits_eos_inf": True}),
    ("ends", {"rule": "low-confidence", "gen_length": 12, "steps": 6, "block_length": 12,
              "confidence_eos_eot_inf": True}),
    ("plain", {"rule": "threshold=0.9", "gen_length": 16, "block_length": 8}),
    ("plain", {"rule": "threshold=0.3", "gen_length": 16, "block_length": 16}),
    ("plain", {"rule": "factor=1.0", "gen_length": 16, "block_length": 8}),
    ("plain", {"rule": "factor=2.5", "gen_length": 16, "block_length": 16}),
]
DREAM = [
    ("plain", {"rule": "maskgit", "gen_length": 8, "steps": 8}),
    ("plain", {"rule": "maskgit", "gen_length": 20, "steps": 7}),
    ("plain", {"rule": "margin", "gen_length": 16, "steps": 16}),
    ("plain", {"rule": "entropy", "gen_length": 16, "steps": 12}),
    ("plain", {"rule": "entropy", "gen_length": 10, "steps": 20, "eps": 0.02}),
    ("plain", {"rule": "maskgit", "gen_length": 12, "steps": 6, "top_p": 0.8}),
    ("plain", {"rule": "entropy", "gen_length": 12, "steps": 6, "top_p": 0.9, "top_k": 12}),
    ("plain", {"rule": "margin", "gen_length": 12, "steps": 6, "top_k": 4}),
    ("holes", {"rule": "maskgit", "gen_length": 12, "steps": 6}),
    ("masks", {"rule": "maskgit", "gen_length": 12, "steps": 6}),
    ("plain", {"rule": "threshold=0.9", "gen_length": 16}),
    ("plain", {"rule": "factor=1.0", "gen_length": 16}),
]
CAUSAL = [("plain", {"gen_length": 24}), ("plain", {"gen_length": 24}), ("plain", {"gen_length": 1})]

README = """\
# Golden files

One folder per model family, written from independent references (tests/reference). Four scripts write them:

    python3 tests/reference/make_golden.py tests/golden
    python3 tests/reference/make_golden_runs.py tests/golden
    python3 tests/reference/make_golden_diffusion_gemma.py tests/golden
    python3 tests/reference/make_golden_lfm2.py tests/golden

The second one writes gidd, sumi and nemotron_labs, the third one diffusion_gemma, the fourth one lfm2, and the first one all other folders and
this page. `config.json` has the published keys with tiny numbers, and `model.safetensors` random weights under the
published names.

## Folders of make_golden.py

| file | content |
|---|---|
| `model.safetensors` | stored as {storage} |
| `tokens.json` | `{{"tokens": [...]}}`, an input canvas in the form that `lacuna logits --request` takes; `block_length` for {blocks} |
| `logits.npy` | float32 `[rows, vocab]`: the raw output of every row of that canvas (of models that shift, unshifted), computed in float64 |
| `decodes.json` | a list of greedy decodes, see below; not for {blocks}, whose `tokenizer_config.json` names the mask |

An entry of `decodes.json` is one run at temperature 0 with `prompt` (ids; mask ids in it are ordinary masks):
`rule`, `gen_length`, `steps`, `block_length`, `cfg_scale`, `logits_eos_inf`, `confidence_eos_eot_inf` (with
`eot_token_id`), `top_p`, `top_k` and `eps` are what was set, with the names of the command line; what is absent was
not set (Dream and `threshold=`/`factor=` without `block_length`: one block of `gen_length`; `eps` 0.001). `tokens` are
the `gen_length` generated ids, never cut at an end token, `commits` the positions (counted from the start of the
prompt) committed by each pass that committed any, in ascending order. The Qwen families decode one token at a time and
continue past end tokens.

No decision in a decode is close: in logits the second-best token is at least {token} away, the next confidence at least
{choice:.1%}. So float32 arithmetic in any order must give the same tokens.

## Folders of make_golden_runs.py

Weights are stored as f32.

| file | content |
|---|---|
| `generation_config.json` | sumi: the published keys of its sampler, with other values than the defaults |
| `tokens.json` | `{{"tokens": [...]}}`; gidd: with `clean_prefix`, nemotron_labs: with `canvas_begin`, as `lacuna logits --request` takes them |
| `logits.npy` | float32 `[rows, vocab]` of these tokens |
| `decodes.json` | a list of runs, each with `prompt` (ids), `flags` by their names on the command line without the dashes, and `answer` (ids) |

Runs may sample: their `seed` is among the flags, and was chosen so that the run meets no decision that rounding could turn.

## Folder of make_golden_diffusion_gemma.py

Weights are stored as bf16.

| file | content |
|---|---|
| `generation_config.json` | the published keys of the sampler |
| `tokens.json` | `tokens`, a prompt that is longer than the sliding window and a canvas; `canvas_begin`, where the canvas begins |
| `conditioning.npy` | float32 `[canvas, vocab]`: the distributions of the previous step, which the canvas reads (self-conditioning) |
| `logits.npy` | float32 `[rows, vocab]` |

There are no decodes. The seed is the first one with which no expert is chosen by a small margin.

## Folder of make_golden_lfm2.py

The same files but `generation_config.json`; `tokens.json` has also the block's `noise_level`.

## Folder quantized

Written by `make_golden_quantized.py`: one matrix [32, 64], the module `m`, in each quantized format that other programs publish. `config.json` has
what the program writes there about quantization, and `weights.npy` the float32 weights. docs/reference/quantized.md says which program wrote which.
"""


def suits(model, kind, setting, prompt, result, eot_id):
    """Whether a decode shows what it is there for, with no decision close."""
    margins, mask = result.margins, model.shape.mask_id
    if margins.token < TOKEN_MARGIN or margins.choice < CHOICE_MARGIN or model.router_gap < ROUTER_MARGIN:
        return False
    if kind == "masks":
        return mask in result.tokens and result.tokens.count(mask) < len(result.tokens)
    if kind == "holes" and model.shape.family not in SHIFTED_FAMILIES:
        # The quota counts the block alone, so as many masks are left as there were holes: some hole must be filled.
        return result.canvas[:len(prompt)].count(mask) < prompt.count(mask) and len(set(result.tokens)) > 3
    if mask in result.canvas:
        return False
    if kind == "ends":
        without = {k: v for k, v in setting.items() if k not in ("logits_eos_inf", "confidence_eos_eot_inf")}
        plain = decode(model, prompt, without, eot_id)
        return model.shape.eos_id in plain.tokens and plain.tokens != result.tokens
    return kind != "plain" or len(set(result.tokens)) > min(3, len(result.tokens) - 1)


def find_decode(model, kind, setting, rng, eot_id):
    """The first random prompt whose decode suits."""
    first_special = min(special_ids(model.shape.family, model.shape.vocab).values())
    for tried in range(3000):
        prompt = [int(t) for t in rng.integers(0, first_special, rng.integers(4, 11))]
        if kind == "holes":
            for place in rng.choice(np.arange(1, len(prompt)), size=2, replace=False):
                prompt[place] = model.shape.mask_id
        model.router_gap = np.inf
        try:
            result = decode(model, prompt, setting, eot_id)
        except NoProgress:
            continue
        if suits(model, kind, setting, prompt, result, eot_id):
            print(f"{kind} {setting}: prompt {tried + 1}", flush=True)
            entry = dict(setting)
            if setting.get("confidence_eos_eot_inf"):
                entry["eot_token_id"] = eot_id
            entry |= {"prompt": prompt, "tokens": result.tokens}
            if result.commits:
                entry["commits"] = [positions for _, positions in result.commits]
            return entry
    raise RuntimeError(f"no prompt suits {kind} {setting}")


def make_family(folder, family):
    dims, dtype = MODELS[family]
    seed = SEEDED.index(family) + 100
    blocks = {"block_length": BLOCK_LENGTH} if family in BLOCK_FAMILIES else {}
    make_checkpoint(folder, family, seed, tokenizer=None, dtype=dtype, shards=1, mask_gain=1.0, end_gain=1.5,
                    **(BASE | dims))
    model = Model.load(folder)
    rng = np.random.default_rng(seed)
    vocab = model.shape.vocab
    mask = special_ids(family, vocab)[MASK[family]] if blocks else model.shape.mask_id
    while True:  # a canvas on which no expert is chosen by a hair
        tokens = [int(t) for t in rng.integers(0, vocab, 24)]
        if mask >= 0:
            tokens[10:18] = [mask] * 8
        model.router_gap = np.inf
        logits = model.logits(tokens, **blocks)
        if model.router_gap > ROUTER_MARGIN:
            break
    (folder / "tokens.json").write_text(json.dumps({"tokens": tokens} | blocks) + "\n")
    np.save(folder / "logits.npy", logits.astype(np.float32))
    if blocks:
        return
    eot_id = special_ids(family, vocab)[END_OF_TURN[family]]
    # Filtered entropies of normed q and k nearly always come close somewhere: no prompt suits those settings.
    settings = CAUSAL
    if family in LLADA_FAMILIES:
        settings = LLADA if family != "a2d_qwen3" else LLADA[:5] + LLADA[11:13]
    elif family in SHIFTED_FAMILIES:
        settings = DREAM if family == "dream" else DREAM[:5]
    if family == "rnd1":  # its schedule has no least time
        settings = [(kind, {key: value for key, value in each.items() if key != "eps"}) for kind, each in settings]
    entries = [find_decode(model, kind, setting, rng, eot_id) for kind, setting in settings]
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (folder / "decodes.json").write_text(f"[\n{lines}\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--families", default=",".join(MODELS), help="default: all")
    args = parser.parse_args()
    root = Path(args.folder)
    for family in args.families.split(","):
        make_family(root / family, family)
        size = sum(file.stat().st_size for file in (root / family).iterdir())
        print(f"{root / family}: {size} bytes")
    storage = ", ".join(f"{dtype} ({family})" for family, (_, dtype) in MODELS.items())
    (root / "README.md").write_text(README.format(storage=storage, blocks=", ".join(BLOCK_FAMILIES), token=TOKEN_MARGIN, choice=CHOICE_MARGIN))


if __name__ == "__main__":
    main()
