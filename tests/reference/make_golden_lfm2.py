"""Writes tests/golden/lfm2: a tiny LFM2.5-Diffusion with the logits of the reference.

    python make_golden_lfm2.py ../golden

`tokens.json` has the tokens, where the block among them begins, and its noise level; `conditioning.npy` is the distribution of
the previous step that the block reads, float32 [block, vocab]; `logits.npy` is float32 [rows, vocab].
"""
import argparse
import json
from pathlib import Path

import numpy as np

from models import softmax
from random_lfm2 import make_checkpoint

PROMPT, BLOCK, LEVEL = 9, 8, 1.25
SMALL = {
    "hidden_size": 24, "block_dim": 24, "conv_dim": 24, "vocab_size": 64, "real_vocab_size": 60, "num_attention_heads": 2,
    "num_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 48, "block_multiple_of": None,
    "block_ffn_dim_multiplier": None, "conv_L_cache": 3,
    "block_auto_adjust_ff_dim": False, "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"],
    "diffusion_block_size": BLOCK, "selfcond_ffn_bias": True, "sigma_cond_dim": 16, "sigma_freq_embedding_size": 20,
    "tie_word_embeddings": True,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder / "lfm2"
    model = make_checkpoint(folder, 4, "bf16", SMALL)
    rng = np.random.default_rng(74)
    tokens = rng.integers(0, model.written, PROMPT + BLOCK).tolist()
    conditioning = softmax(rng.uniform(0.1, 8, (BLOCK, 1)) * rng.standard_normal((BLOCK, model.vocab))).astype(np.float32)
    logits = model.logits(tokens, PROMPT, conditioning, LEVEL)
    request = {"tokens": tokens, "canvas_begin": PROMPT, "noise_level": LEVEL}
    (folder / "tokens.json").write_text(json.dumps(request) + "\n")
    np.save(folder / "conditioning.npy", conditioning)
    np.save(folder / "logits.npy", logits.astype(np.float32))


if __name__ == "__main__":
    main()
