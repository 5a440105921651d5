"""Small random DiffusionGemma checkpoints in the published layout.

    python random_diffusion_gemma.py DIR [--seed N]     # writes one and prints its shape

With random weights alone a step predicts from the random ids of its canvas, and canvases never converge. Here all
embeddings share a coordinate that the final norm drops: the larger it is, the less these ids matter relative to the
positions and the prefix, and the sooner a canvas converges.
"""
import argparse
import copy
import json
from pathlib import Path

import numpy as np

import safetensors_io
from diffusion_gemma import ARCHITECTURE, DECODER, ENCODER, FULL, SLIDING, Model, read_shape
from random_checkpoints import write_weights

SHARED = (4.0, 20.0, 60.0, 200.0)  # the shared coordinate of seeds 0, 1, 2, 3, 4, ...


def random_layer_types(rng):
    """Two to five layers with at least one of each kind; the last one is full, as published."""
    while True:
        kinds = [str(kind) for kind in rng.choice([SLIDING, FULL], int(rng.integers(1, 5)), p=[0.65, 0.35])]
        if SLIDING in kinds:
            return kinds + [FULL]


def short(value):
    return float(f"{value:.3g}")


def make_config(rng):
    layer_types = random_layer_types(rng)
    kv_heads, global_kv_heads, group = ((1, 1, 2), (2, 1, 2), (4, 2, 1), (2, 2, 3), (4, 1, 1))[int(rng.integers(5))]
    heads = max(kv_heads, global_kv_heads) * group
    experts = int(rng.choice([4, 6, 8]))
    rope = {
        SLIDING: {"rope_type": "default", "rope_theta": float(rng.choice([1e4, 5e3, 100.0]))},
        FULL: {"rope_type": "proportional", "rope_theta": float(rng.choice([1e6, 1e5, 1e3])),
               "partial_rotary_factor": float(rng.choice([0.25, 0.25, 0.5, 0.75, 1.0]))},
    }
    text = {
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 2,
        "dtype": "bfloat16", "eos_token_id": 1, "final_logit_softcapping": float(rng.choice([30.0, 30.0, 20.0, 50.0])),
        "global_head_dim": int(rng.choice([16, 32])), "head_dim": int(rng.choice([16, 32])),
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": int(rng.choice([32, 48, 64, 80])),
        "initializer_range": 0.02, "intermediate_size": int(rng.choice([40, 64, 72])), "layer_types": layer_types,
        "max_position_embeddings": 4096, "model_type": "diffusion_gemma_text",
        "moe_intermediate_size": int(rng.choice([16, 24, 40])), "num_attention_heads": heads, "num_experts": experts,
        "num_global_key_value_heads": global_kv_heads, "num_hidden_layers": len(layer_types),
        "num_key_value_heads": kv_heads, "pad_token_id": 0, "rms_norm_eps": 1e-6, "rope_parameters": rope,
        "sliding_window": int(rng.integers(5, 25)), "top_k_experts": int(rng.integers(1, experts // 2 + 1)),
        "use_bidirectional_attention": "vision", "vocab_size": int(rng.choice([288, 300, 307])),
    }
    if rng.random() < 0.25:  # as newer versions of transformers write these two
        own = {"head_dim": text.pop("global_head_dim"), "num_key_value_heads": text.pop("num_global_key_value_heads")}
        digits = int(rng.integers(1, 3))  # two in models of more than ten layers
        text["per_layer_config"] = {f"{i:0{digits}}": own for i, kind in enumerate(layer_types) if kind == FULL}
    return {
        "architectures": [ARCHITECTURE], "boi_token_id": 280, "canvas_length": int(rng.choice([32, 32, 64])),
        "dtype": "bfloat16", "eoi_token_id": 282, "eos_token_id": [1, 106], "image_token_id": 281,
        "initializer_range": 0.02, "model_type": "diffusion_gemma", "text_config": text, "tie_word_embeddings": True,
        "vision_config": {"model_type": "gemma4_vision", "hidden_size": 16, "num_hidden_layers": 1},
        "vision_soft_tokens_per_image": 280,
    }


def make_generation_config(config, rng):
    """Half of them with the published numbers and fewer steps."""
    value = {
        "bos_token_id": 2, "confidence_threshold": 0.005, "eos_token_id": [1, 106, 50],
        "max_denoising_steps": int(rng.choice([1, 4, 8, 12])),
        "max_new_tokens": int(rng.integers(1, 2 * config["canvas_length"] + 1)), "pad_token_id": 0,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1},
        "stability_threshold": 1, "t_max": 0.8, "t_min": 0.4,
    }
    if rng.random() < 0.5:
        t_min = short(rng.uniform(0.2, 1.2))
        value |= {"t_min": t_min, "t_max": short(t_min + rng.uniform(0.05, 0.6)),
                  "confidence_threshold": short(rng.choice([0.02, 0.2, 1.0])),
                  "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig",
                                     "entropy_bound": short(rng.choice([0.02, 0.5, 2.0]))}}
        value["stability_threshold"] = int(rng.choice([1, 1, 2]))
    if rng.random() < 0.2:  # a key that is left out has the published value
        del value[str(rng.choice(["confidence_threshold", "sampler_config", "stability_threshold"]))]
    return value


def make_tensors(config, shared, rng):
    """{published name: float array}"""
    text, shape = config["text_config"], read_shape(config)
    hidden, ffn, inner = text["hidden_size"], text["intermediate_size"], text["moe_intermediate_size"]
    experts, vocab = text["num_experts"], text["vocab_size"]

    def linear(rows, columns, gain=1.0):
        return rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)

    def norm(size, gain=1.0):
        return rng.uniform(0.7, 1.3, size) * gain

    embedding = linear(vocab, hidden, 7.0)
    embedding[[1, 50, 106]] *= rng.choice([0.5, 4.0])  # whether answers end
    embedding[:, 0] = shared * 7.0 / np.sqrt(hidden)
    tensors = {DECODER + "embed_tokens.weight": embedding}
    for i, kind in enumerate(text["layer_types"]):
        layer, attn = f"{DECODER}layers.{i}.", f"{DECODER}layers.{i}.self_attn."
        d = shape.head_dim[kind]
        kv = d * shape.kv_heads[kind]
        tensors |= {
            attn + "q_proj.weight": linear(text["num_attention_heads"] * d, hidden),
            attn + "k_proj.weight": linear(kv, hidden),
            attn + "q_norm.weight": norm(d, 0.6), attn + "k_norm.weight": norm(d, 0.6),
            attn + "o_proj.weight": linear(hidden, text["num_attention_heads"] * d),
            layer + "mlp.gate_proj.weight": linear(ffn, hidden, 1.5),
            layer + "mlp.up_proj.weight": linear(ffn, hidden, 1.5),
            layer + "mlp.down_proj.weight": linear(hidden, ffn),
            layer + "router.proj.weight": linear(experts, hidden, 2.0),
            layer + "router.scale": norm(hidden) * np.sqrt(hidden) * 0.5,
            layer + "router.per_expert_scale": norm(experts),
            layer + "experts.gate_up_proj": rng.standard_normal((experts, 2 * inner, hidden)) * 1.5 / np.sqrt(hidden),
            layer + "experts.down_proj": rng.standard_normal((experts, hidden, inner)) / np.sqrt(inner),
            layer + "layer_scalar": rng.uniform(0.5, 1.0, 1),
        }
        if kind == SLIDING:
            tensors[attn + "v_proj.weight"] = linear(kv, hidden)
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_1",
                     "post_feedforward_layernorm_2"):
            tensors[f"{layer}{name}.weight"] = norm(hidden, 2.0 if name == "post_attention_layernorm" else 1.0)
        own = tensors[layer + "layer_scalar"] if rng.random() < 0.5 else rng.uniform(0.5, 1.0, 1)
        tensors[f"{ENCODER}layers.{i}.layer_scalar"] = own
    part = DECODER + "self_conditioning."
    tensors |= {
        part + "pre_norm.weight": norm(hidden), part + "gate_proj.weight": linear(ffn, hidden, 1.5),
        part + "up_proj.weight": linear(ffn, hidden, 1.5),
        part + "down_proj.weight": linear(hidden, ffn, rng.uniform(0.6, 3.0)),
        DECODER + "norm.weight": norm(hidden) * (np.arange(hidden) > 0),
    }
    if rng.random() < 0.5:  # what a reader of text skips
        tensors["model.encoder.embed_vision.embedding_projection.weight"] = linear(hidden, 16)
        tensors["model.encoder.vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight"] = linear(16, 16)
    if rng.random() < 0.3:
        tensors["lm_head.weight"] = embedding
    return tensors


def sharpen(config, tensors, rng):
    """Scales the final norm so that logits spread over a good part of what the soft cap allows."""
    uncapped = copy.deepcopy(config)
    uncapped["text_config"]["final_logit_softcapping"] = 1e6
    tokens = rng.integers(0, config["text_config"]["vocab_size"], 20 + config["canvas_length"])
    spread = np.std(Model(uncapped, tensors).logits(tokens, 20)[20:])
    cap = config["text_config"]["final_logit_softcapping"]
    tensors[DECODER + "norm.weight"] *= min(cap, 30) * rng.uniform(0.2, 0.35) / spread


def make_checkpoint(folder, seed, dtype=None, shards=None):
    """Writes a checkpoint without a tokenizer and returns its Model. The same arguments write the same bytes."""
    folder, rng = Path(folder), np.random.default_rng([seed, 61])
    folder.mkdir(parents=True, exist_ok=True)
    config = make_config(rng)
    dtype, shards = dtype or ("f32", "bf16", "f16")[seed % 3], shards or (1, 3)[seed % 2]
    tensors = make_tensors(config, SHARED[seed % len(SHARED)], rng)
    sharpen(config, tensors, rng)
    tensors = {name: safetensors_io.round_to(values, dtype) for name, values in tensors.items()}
    for name, value in (("config", config), ("generation_config", make_generation_config(config, rng))):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n")
    write_weights(folder, tensors, dtype, shards)
    return Model(config, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(make_checkpoint(args.folder, args.seed).shape)


if __name__ == "__main__":
    main()
