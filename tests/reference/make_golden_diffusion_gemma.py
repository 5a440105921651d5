"""Writes tests/golden/diffusion_gemma: a tiny DiffusionGemma with the logits of the reference.

    python make_golden_diffusion_gemma.py ../golden

`tokens.json` has the tokens and where the canvas among them begins, after a prompt that is longer than the window;
`conditioning.npy` is the distribution of the previous step that the canvas reads, float32 [canvas, vocab];
`logits.npy` is float32 [rows, vocab]. The seed is the first one with which no expert is chosen by a hair.
"""
import argparse
import itertools
import json
from pathlib import Path

import numpy as np

import safetensors_io
from diffusion_gemma import FULL, SLIDING, Model
from models import softmax
from random_checkpoints import write_weights
from random_diffusion_gemma import make_config, make_generation_config, make_tensors, sharpen

WINDOW, PROMPT, CANVAS = 7, 12, 32
ROUTER_GAP = 3e-3  # in probability
SMALL = {
    "hidden_size": 32, "vocab_size": 288, "head_dim": 16, "global_head_dim": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_global_key_value_heads": 1, "intermediate_size": 40, "moe_intermediate_size": 16,
    "num_experts": 4, "top_k_experts": 2, "sliding_window": WINDOW, "num_hidden_layers": 2,
    "layer_types": [SLIDING, FULL],
}


def make_model(rng):
    config = make_config(rng)
    config["canvas_length"] = CANVAS
    text = config["text_config"]
    text.pop("per_layer_config", None)
    text.update(SMALL)
    text["rope_parameters"][FULL]["partial_rotary_factor"] = 0.25
    tensors = make_tensors(config, 4.0, rng)
    sharpen(config, tensors, rng)
    tensors = {name: safetensors_io.round_to(values, "bf16") for name, values in tensors.items()
               if "vision" not in name and name != "lm_head.weight"}
    return Model(config, tensors), tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder / "diffusion_gemma"
    folder.mkdir(parents=True, exist_ok=True)
    for seed in itertools.count():
        rng = np.random.default_rng([seed, 62])
        model, tensors = make_model(rng)
        tokens = rng.integers(0, model.shape.vocab, PROMPT + CANVAS).tolist()
        sharpness = rng.uniform(0.1, 12, (CANVAS, 1))
        conditioning = softmax(sharpness * rng.standard_normal((CANVAS, model.shape.vocab))).astype(np.float32)
        model.router_gap = np.inf
        logits = model.logits(tokens, PROMPT, conditioning)
        if model.router_gap > ROUTER_GAP:
            break
    for name, value in (("config", model.config), ("generation_config", make_generation_config(model.config, rng))):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n")
    write_weights(folder, tensors, "bf16")
    (folder / "tokens.json").write_text(json.dumps({"tokens": tokens, "canvas_begin": PROMPT}) + "\n")
    np.save(folder / "conditioning.npy", conditioning)
    np.save(folder / "logits.npy", logits.astype(np.float32))


if __name__ == "__main__":
    main()
