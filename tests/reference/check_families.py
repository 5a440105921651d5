"""Checks that a `lacuna` binary knows the config.json of every family, and refuses by name what it does not compute.

    python check_families.py LACUNA_BINARY [--families coda,idlm] [--quiet]

For every family it writes a small random checkpoint with the keys of the published files. `inspect` and `run` must take it
without a word on the standard error stream, and with one key changed that stands for another computation both must fail with
exit code 2 and name the key. Exit status 0 when nothing failed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import random_borrowed
import random_checkpoints
import random_diffusion_gemma
import random_lfm2
from check_blocks import make_block_checkpoint
from check_engine import Report, parse_arguments
from models import BLOCK_FAMILIES, FAMILIES
from random_checkpoints import make_checkpoint

# Families of docs/methods/README.md, with those that have checkpoints of their own making. Dream-Coder and DiffuCoder have
# Dream's files, TraDo SDAR's.
MAKERS = {
    **{family: lambda folder, family=family: make_checkpoint(folder, family, 1, tokenizer="auto")
       for family in FAMILIES},
    **{family: lambda folder, family=family: make_checkpoint(folder, family, 1, tokenizer=None)
       for family in BLOCK_FAMILIES},
    "sdar": lambda folder: make_block_checkpoint(folder, "sdar", 1),
    "refusion": lambda folder: random_checkpoints.make_refusion_checkpoint(folder, 1),
    "llada2.2": lambda folder: random_checkpoints.make_editing_checkpoint(folder, 1),
    "dreamon": lambda folder: random_checkpoints.make_growing_checkpoint(folder, 1),
    "gidd": lambda folder: random_checkpoints.make_gidd_checkpoint(folder, 1),
    "sumi": lambda folder: random_checkpoints.make_sumi_checkpoint(folder, 1),
    "nemotron_labs": lambda folder: random_checkpoints.make_nemotron_checkpoint(folder, 1),
    "idlm": lambda folder: random_borrowed.make_idlm_checkpoint(folder, 1),
    "diffusion_gemma": lambda folder: random_diffusion_gemma.make_checkpoint(folder, 1),
    "lfm2": lambda folder: random_lfm2.make_checkpoint(folder, 1),
}
# Keys of mechanisms that no family has, and names that contradict the rest of a file.
EVERYWHERE = {"attn_temperature_tuning": True, "model_type": "mamba2", "architectures": ["MysteryForCausalLM"],
              "rope_scaling": {"rope_type": "longrope", "factor": 4.0}, "alibi": True, "logit_scale": 0.5,
              "router_num_group": 3, "use_loss_free_routing": True, "moe_dropout_scale": 0.5}
OWN = {
    "llada": {"activation_type": "gelu", "block_type": "sequential", "clip_qkv": 8.0, "include_bias": True},
    "llada_moe": {"hidden_act": "gelu", "moe_router_score_function": "sigmoid", "partial_rotary_factor": 0.5},
    "llada2": {"hidden_act": "gelu", "score_function": "softmax", "using_split_qkv_in_self_attention": True},
    "llada2.2": {"hidden_act": "gelu", "split_token_id": None, "use_qk_norm": False, "expert_capacity": None},
    "gidd": {"is_causal": True, "final_logit_softcapping": 30.0},
    "nemotron_labs": {"hidden_act": "gelu", "mlp_bias": True, "dlm_paradigm": "mystery"},
    "nemotron": {"hidden_act": "silu", "rms_norm": True, "rope_percent": 0.75, "layer_norm_eps": 0.1, "mask_token_id": 5},
    "sumi": {"hidden_act": "gelu", "mlp_bias": True},
    "diffusion_gemma": {"text_config.hidden_activation": "relu", "text_config.mystery_norm": True},
    "lfm2": {"conv_bias": True, "use_pos_enc": False, "adaln_conditioning": False, "conv_dim": 8, "mystery_norm": True},
}
QWENS = {"hidden_act": "gelu", "use_sliding_window": True, "final_logit_softcapping": 30.0}


def run(binary, *arguments):
    return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def commands(folder):
    """Arguments of the commands that have to agree."""
    yield "inspect", "-m", folder
    yield ("run", "-m", folder, "--prompt-tokens", "5,6,7,8", "--gen-length", 4, "--json", "--no-live", "--threads", 1)


def is_silent(binary, folder):
    for arguments in commands(folder):
        done = run(binary, *arguments)
        if done.returncode or done.stderr:
            return False, f"{arguments[0]}: exit code {done.returncode}, {done.stderr.strip()}"
    return True, "no word"


def is_refused(binary, folder, key, value):
    file = folder / "config.json"
    text = file.read_text()
    config = json.loads(text)
    *parents, name = key.split(".")
    place = config
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[name]
    else:
        place[name] = value
    file.write_text(json.dumps(config))
    try:
        for arguments in commands(folder):
            done = run(binary, *arguments)
            if done.returncode != 2 or name not in done.stderr:
                return False, f"{arguments[0]}: exit code {done.returncode}, {done.stderr.strip()}"
        return True, done.stderr.strip()
    finally:
        file.write_text(text)


def main():
    args = parse_arguments(__doc__, 1, 1, families=",".join(MAKERS), keeps=False)
    report, binary = Report(not args.quiet), str(Path(args.binary).resolve())
    with tempfile.TemporaryDirectory(prefix="lacuna-check-") as scratch:
        for family in args.families.split(","):
            # A name that says nothing about LLaDA2.2, which its config has to say.
            folder = Path(scratch) / family.replace("_", "-").replace("llada2.2", "edits")
            MAKERS[family](folder)
            report.run(f"{family} loads", lambda: is_silent(binary, folder))
            for key, value in (EVERYWHERE | OWN.get(family, QWENS)).items():
                report.run(f"{family} {key} {json.dumps(value)}", lambda: is_refused(binary, folder, key, value))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
