"""Small random LFM2.5-Diffusion checkpoints in the published layout.

    python random_lfm2.py DIR [--seed N]     # writes one and prints its config
"""
import argparse
import json
from pathlib import Path

import numpy as np

import safetensors_io
from lfm2 import ARCHITECTURE, Model
from random_checkpoints import write_weights


def make_config(rng):
    layers = int(rng.integers(2, 6))
    while True:
        kinds = [str(kind) for kind in rng.choice(["conv", "full_attention"], layers, p=[0.6, 0.4])]
        if len(set(kinds)) == 2:
            break
    kv_heads, group = ((1, 1), (1, 2), (2, 2), (2, 1), (1, 4))[int(rng.integers(5))]
    heads, head_dim = kv_heads * group, int(rng.choice([8, 16]))
    hidden = heads * head_dim if rng.random() < 0.5 else int(rng.choice([24, 40, 48, 64]))
    vocab, theta = int(rng.integers(70, 130)), float(rng.choice([1e6, 1e4, 100.0]))
    config = {
        "architectures": [ARCHITECTURE], "auto_map": {"AutoModelForCausalLM": f"modeling_lfm2_diffusion.{ARCHITECTURE}"},
        "model_type": "lfm2_diffusion", "adaln_conditioning": True, "block_dim": hidden, "block_ffn_dim_multiplier": 1.0,
        "block_mlp_init_scale": 1.0, "block_norm_eps": 1e-5, "block_out_init_scale": 1.0, "block_use_swiglu": True,
        "block_use_xavier_init": True, "bos_token_id": 1, "conv_L_cache": int(rng.choice([3, 3, 2, 4])), "conv_bias": False,
        "conv_dim": hidden, "conv_use_xavier_init": True, "diffusion_block_size": int(rng.choice([32, 8, 12])),
        "dtype": "bfloat16", "eos_token_id": 7, "hidden_size": hidden, "initializer_range": 0.02,
        "max_position_embeddings": 4096, "norm_eps": 1e-5, "num_attention_heads": heads, "num_heads": heads,
        "num_hidden_layers": layers, "num_key_value_heads": kv_heads, "pad_token_id": 0,
        "real_vocab_size": vocab - int(rng.integers(0, 20)), "self_conditioning": True,
        "selfcond_ffn_bias": bool(rng.random() < 0.7), "sigma_cond_dim": int(rng.choice([16, 24])),
        "sigma_freq_embedding_size": int(rng.choice([32, 20])), "tie_word_embeddings": bool(rng.random() < 0.8),
        "use_cache": True, "use_pos_enc": True, "vocab_size": vocab,
    }
    if hidden != heads * head_dim:
        config["head_dim"] = head_dim
    adjusts = bool(rng.random() < 0.6)
    config |= {"block_auto_adjust_ff_dim": adjusts, "block_multiple_of": int(rng.choice([16, 8]))}
    config["block_ff_dim" if rng.random() < 0.3 else "intermediate_size"] = int(rng.integers(30, 90))
    if rng.random() < 0.5:
        config["rope_parameters"] = {"rope_theta": theta, "rope_type": "default"}
    else:
        config["rope_theta"] = theta
    if rng.random() < 0.7:
        config |= {"layer_types": kinds, "full_attn_idxs": None}
    else:
        config["full_attn_idxs"] = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
    return {key: value for key, value in config.items() if value is not None}


def ffn_dim(config):
    dim = config.get("block_ff_dim", config.get("intermediate_size"))
    if not config["block_auto_adjust_ff_dim"]:
        return dim
    multiple = config["block_multiple_of"]
    return -(-int(2 * dim / 3) // multiple) * multiple


def make_tensors(config, rng):
    """{published name: float array}"""
    hidden, ffn, noise = config["hidden_size"], ffn_dim(config), config["sigma_cond_dim"]
    kinds = Model(config, {}).kinds
    head_dim = config.get("head_dim", hidden // config["num_attention_heads"])
    q_dim, kv_dim = head_dim * config["num_attention_heads"], head_dim * config["num_key_value_heads"]
    tensors = {}

    def linear(name, rows, columns, gain=1.0, bias=False):
        tensors[f"model.{name}.weight"] = rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)
        if bias:
            tensors[f"model.{name}.bias"] = rng.standard_normal(rows) * 0.3

    def norm(name, size):
        tensors[f"model.{name}.weight"] = rng.uniform(0.7, 1.3, size)

    linear("embed_tokens", config["vocab_size"], hidden, np.sqrt(hidden))
    for i, kind in enumerate(kinds):
        layer = f"layers.{i}."
        norm(layer + "operator_norm", hidden)
        norm(layer + "ffn_norm", hidden)
        if kind == "full_attention":
            for name, rows in (("q_proj", q_dim), ("k_proj", kv_dim), ("v_proj", kv_dim)):
                linear(layer + "self_attn." + name, rows, hidden)
            linear(layer + "self_attn.out_proj", hidden, q_dim)
            norm(layer + "self_attn.q_layernorm", head_dim)
            norm(layer + "self_attn.k_layernorm", head_dim)
        else:
            linear(layer + "conv.in_proj", 3 * hidden, hidden)
            linear(layer + "conv.out_proj", hidden, hidden)
            tensors[f"model.{layer}conv.conv.weight"] = rng.standard_normal((hidden, 1, config["conv_L_cache"])) * 0.8
        linear(layer + "feed_forward.w1", ffn, hidden, 1.5)
        linear(layer + "feed_forward.w3", ffn, hidden, 1.5)
        linear(layer + "feed_forward.w2", hidden, ffn)
    norm("embedding_norm", hidden)
    linear("sigma_embed.mlp.0", noise, config["sigma_freq_embedding_size"], bias=True)
    linear("sigma_embed.mlp.2", noise, noise, 2.0, bias=True)
    linear("adaln_proj.1", 3 * hidden, noise, 0.6, bias=True)
    tensors["model.adaln_block_emb"] = rng.standard_normal((len(kinds), 3 * hidden)) * 0.2
    norm("selfcond_norm", hidden)
    linear("selfcond_ffn.0", hidden, hidden, 1.5, bias=config["selfcond_ffn_bias"])
    linear("selfcond_ffn.2", hidden, hidden, float(rng.choice([0.25, 0.5])))
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = rng.standard_normal((config["vocab_size"], hidden)) / np.sqrt(hidden)
    return tensors


def sharpen(config, tensors, rng):
    """Scales the final norm so that predictions are between vague and certain."""
    spread = np.std(Model(config, tensors).logits(rng.integers(0, config["real_vocab_size"], 40).tolist(), 20, level=1.0)[20:])
    tensors["model.embedding_norm.weight"] *= rng.uniform(1.0, 3.0) / spread


def make_checkpoint(folder, seed, dtype=None, config=None):
    """Writes a checkpoint without a tokenizer and returns its Model. The same arguments write the same bytes."""
    folder, rng = Path(folder), np.random.default_rng([seed, 71])
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in (make_config(rng) | (config or {})).items() if value is not None}
    tensors = make_tensors(config, rng)
    sharpen(config, tensors, rng)
    dtype = dtype or ("f32", "bf16", "f16")[seed % 3]
    tensors = {name: safetensors_io.round_to(values, dtype) for name, values in tensors.items()}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_weights(folder, tensors, dtype, (1, 3)[seed % 2])
    return Model(config, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(json.dumps(make_checkpoint(args.folder, args.seed).config, indent=2))


if __name__ == "__main__":
    main()
