"""Small random checkpoints in the published layouts, for running an engine against the references.

    python random_checkpoints.py DIR FAMILY [--seed N]     # writes one and prints its shape

The weights are random but not featureless: logits have a spread of about 4 and a maximum of about 10, attention is
peaked enough for positions to differ, and mask and end tokens never win unless asked for, so that greedy decodes
compare token for token.
"""
import argparse
import json
from pathlib import Path

import numpy as np

import safetensors_io
from models import BLOCK_FAMILIES, EXPERT_FAMILIES, FAMILIES, NAMELESS_MASKS, QK_NORM_FAMILIES, SEEDED, Model, read_shape

# Added tokens in the order of the published vocabularies; they take the last ids before the dead rows.
SPECIALS = {
    "llada": ["<|startoftext|>", "<|endoftext|>", "<|mdm_mask|>", "<|start_header_id|>", "<|end_header_id|>",
              "<|eot_id|>"],
    "llada_moe": ["<|startoftext|>", "<|endoftext|>", "<role>", "</role>", "<|role_end|>", "<|mask|>"],
    "dream": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"],
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mdm_mask|>"],
    "fast_dllm": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "|<MASK>|"],
    "llada2": ["<|startoftext|>", "<|endoftext|>", "<role>", "</role>", "<|role_end|>", "<|mask|>"],
    "qwen3_moe": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "sdar_moe": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>"],
    "rnd1": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"],
    "coda": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"],
    "a2d_qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"],
    "a2d_qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"],
    "a2d_llama": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"],
    "open_dcoder": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<M>"],
    "llama": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "diffcoder": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"],
    "nemotron": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "gemma": ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"],
}
MASK = {"llada": "<|mdm_mask|>", "llada_moe": "<|mask|>", "dream": "<|mask|>", "fast_dllm": "|<MASK>|",
        "llada2": "<|mask|>", "sdar_moe": "<|MASK|>", "rnd1": "<|mask|>", "coda": "<|mask|>",
        "a2d_qwen3": "<|mask|>", "a2d_qwen2": "<|mask|>", "diffcoder": "<|mask|>",
        "a2d_llama": "<|mask|>", "open_dcoder": "<M>"}
END_OF_TURN = {"llada": "<|eot_id|>", "llada_moe": "<|role_end|>", "dream": "<|im_end|>", "qwen2": "<|im_end|>",
               "qwen3": "<|im_end|>", "fast_dllm": "<|im_end|>", "llada2": "<|role_end|>", "qwen3_moe": "<|im_end|>",
               "sdar_moe": "<|im_end|>", "rnd1": "<|im_end|>", "coda": "<|im_end|>", "a2d_qwen3": "<|im_end|>",
               "a2d_qwen2": "<|im_end|>", "llama": "<|im_end|>", "diffcoder": "<|im_end|>",
               "a2d_llama": "<|im_end|>", "open_dcoder": "<|im_end|>", "nemotron": "<|im_end|>", "gemma": "<turn|>"}
DEAD_ROWS = 3


def special_ids(family, vocab):
    """{text: id} of the added tokens of a vocabulary with `vocab` rows."""
    first = vocab - DEAD_ROWS - len(SPECIALS[family])
    return {text: first + i for i, text in enumerate(SPECIALS[family])}


def random_dims(family, rng):
    """Dimensions with as many odd corners as the published key set can express."""
    head_dim = int(rng.choice([16, 32, 48, 64]))
    kv_heads = int(rng.choice([1, 2, 3, 4]))
    group = int(rng.choice([1, 2, 3]))
    if family == "llada_moe" or (family == "llada" and rng.random() < 0.7):
        group = 1
    while kv_heads * group * head_dim > 192:
        kv_heads, group = max(1, kv_heads - 1), max(1, group - 1) if kv_heads == 1 else group
    heads = kv_heads * group
    hidden = heads * head_dim
    if family in ("llada2", "nemotron") or (family in QK_NORM_FAMILIES and family != "llada_moe"):
        hidden = int(rng.choice([40, 64, 72, 96, 136]))
    dims = {
        "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
        "layers": int(rng.integers(1, 4)), "ffn": int(rng.choice([37, 45, 77, 101, 128])),
        "vocab": int(rng.choice([151, 257, 331, 517])),
        "theta": {"llada": 5e5, "llada_moe": 5e4}.get(family, 1e6) if rng.random() < 0.7 else 1e4,
        "eps": 1e-5 if family in ("llada", "llada_moe") else 1e-6,
        "tied": bool(family in ("llada", "qwen2", "qwen3", "qwen3_moe", "a2d_qwen3", "a2d_qwen2", "a2d_llama",
                                "open_dcoder") and rng.random() < 0.4),
    }
    if family in EXPERT_FAMILIES:
        dims["experts"] = int(rng.choice([4, 7, 8]))
        dims["experts_per_token"] = int(rng.choice([1, 2, 3]))
    if family in EXPERT_FAMILIES and family != "llada_moe":
        dims["rescaled"] = bool(rng.random() < 0.7)
    if family == "nemotron":
        dims |= {"rotary": float(rng.choice([0.5, 0.5, 0.25, 1.0])), "attention_bias": bool(rng.random() < 0.3),
                 "mlp_bias": bool(rng.random() < 0.3)}
    if family == "llada2":
        groups, size = int(rng.choice([1, 2, 3, 4])), int(rng.choice([2, 3, 4]))
        kept = int(rng.integers(1, groups + 1))
        dims |= {
            "groups": groups, "groups_per_token": kept, "experts": groups * size,
            "experts_per_token": int(rng.integers(1, min(kept * size, 5) + 1)), "shared": int(rng.integers(0, 3)),
            "first_dense": int(rng.integers(0, 2)), "layers": int(rng.integers(2, 4)), "dense_ffn": 53,
            "rotary": float(rng.choice([0.5, 0.5, 0.75, 1.0])), "routed_scale": float(rng.choice([1.0, 2.5])),
            "qkv_bias": bool(rng.random() < 0.3), "dense_bias": bool(rng.random() < 0.3),
        }
    return dims


def make_config(family, dims):
    """config.json with the keys of the published file of the family."""
    ids = special_ids(family, dims["vocab"])
    end = ids["<|endoftext|>"]
    if family == "llada":
        return {
            "activation_type": "silu", "alibi": False, "alibi_bias_max": 8.0, "architectures": ["LLaDAModelLM"],
            "attention_dropout": 0.0, "attention_layer_norm": False, "attention_layer_norm_with_affine": True,
            "auto_map": {"AutoConfig": "configuration_llada.LLaDAConfig",
                         "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
                         "AutoModel": "modeling_llada.LLaDAModelLM"},
            "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": dims["hidden"],
            "embedding_dropout": 0.0, "embedding_size": dims["vocab"], "eos_token_id": end,
            "flash_attention": False, "include_bias": False, "include_qkv_bias": False, "init_cutoff_factor": None,
            "init_device": "meta", "init_fn": "mitchell", "init_std": 0.02, "input_emb_norm": False,
            "layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": ids[MASK[family]],
            "max_sequence_length": 4096, "mlp_hidden_size": dims["ffn"], "mlp_ratio": 4, "model_type": "llada",
            "multi_query_attention": None, "n_heads": dims["heads"], "n_kv_heads": dims["kv_heads"],
            "n_layers": dims["layers"], "pad_token_id": end, "precision": "amp_bf16", "residual_dropout": 0.0,
            "rms_norm_eps": dims["eps"], "rope": True, "rope_full_precision": True, "rope_theta": dims["theta"],
            "scale_logits": False, "transformers_version": "4.46.3", "use_cache": False,
            "vocab_size": dims["vocab"], "weight_tying": dims["tied"],
        }
    config = {
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": dims["hidden"], "initializer_range": 0.02,
        "max_position_embeddings": 8192, "num_attention_heads": dims["heads"],
        "num_hidden_layers": dims["layers"], "num_key_value_heads": dims["kv_heads"],
        "rms_norm_eps": dims["eps"], "rope_scaling": None, "rope_theta": dims["theta"],
        "tie_word_embeddings": dims["tied"], "torch_dtype": "bfloat16", "use_cache": True,
        "vocab_size": dims["vocab"], "eos_token_id": end, "pad_token_id": end,
    }
    if family == "llada_moe":
        config |= {
            "architectures": ["LLaDAMoEModelLM"], "model_type": "llada", "attention_bias": False, "clip_qkv": None,
            "auto_map": {"AutoConfig": "configuration_lladamoe.LLaDAConfig",
                         "AutoModel": "modeling_lladamoe.LLaDAMoEModelLM",
                         "AutoModelForCausalLM": "modeling_lladamoe.LLaDAMoEModelLM"},
            "dense_intermediate_size": 4 * dims["ffn"], "expert_intermediate_size": dims["ffn"],
            "shared_expert_intermediate_size": None, "partial_rotary_factor": 1, "num_experts": dims["experts"],
            "num_experts_per_tok": dims["experts_per_token"], "norm_topk_prob": False, "qk_layernorm": True,
            "moe_layer_freq": [1] * dims["layers"], "moe_router_enable_expert_bias": False,
            "moe_router_score_function": "softmax", "routed_scaling_factor": 1, "router_num_group": None,
            "router_topk_group": None, "mask_token_id": ids[MASK[family]],
        }
        return config
    if family == "llada2":
        config |= {
            "architectures": ["LLaDA2MoeModelLM"], "model_type": "llada2_moe",
            "auto_map": {"AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig",
                         "AutoModel": "modeling_llada2_moe.LLaDA2MoeModel",
                         "AutoModelForCausalLM": "modeling_llada2_moe.LLaDA2MoeModelLM"},
            "intermediate_size": dims["dense_ffn"], "first_k_dense_replace": dims["first_dense"],
            "moe_intermediate_size": dims["ffn"], "norm_topk_prob": True, "norm_head": False, "norm_softmax": False,
            "num_experts": dims["experts"], "num_experts_per_tok": dims["experts_per_token"],
            "num_shared_experts": dims["shared"], "n_group": dims["groups"], "topk_group": dims["groups_per_token"],
            "head_dim": dims["head_dim"], "use_bias": dims["dense_bias"], "use_qkv_bias": dims["qkv_bias"],
            "use_rmsnorm": True, "rotary_dim": int(dims["head_dim"] * dims["rotary"]),
            "partial_rotary_factor": dims["rotary"], "using_split_qkv_in_self_attention": False,
            "router_dtype": "fp32", "moe_router_enable_expert_bias": True, "score_function": "sigmoid",
            "routed_scaling_factor": dims["routed_scale"], "embedding_dropout": 0.0, "output_dropout": 0.0,
            "max_window_layers": 28, "output_router_logits": False, "use_sliding_window": False,
        }
        return config | capacity_keys(config, dims) if dims.get("capacity") else config
    if family == "nemotron":
        config["norm_eps"] = config.pop("rms_norm_eps")
        return config | {
            "architectures": ["NemotronForCausalLM"], "model_type": "nemotron", "attention_bias": dims["attention_bias"],
            "bos_token_id": end, "head_dim": dims["head_dim"], "hidden_act": "relu2", "intermediate_size": dims["ffn"],
            "mlp_bias": dims["mlp_bias"], "partial_rotary_factor": dims["rotary"],
        }
    config |= {"intermediate_size": dims["ffn"], "max_window_layers": dims["layers"], "sliding_window": None,
               "use_sliding_window": False, "bos_token_id": end}
    if family in EXPERT_FAMILIES:
        config |= {
            "attention_bias": False, "decoder_sparse_step": 1, "head_dim": dims["head_dim"],
            "intermediate_size": 3 * dims["ffn"], "mlp_only_layers": [], "moe_intermediate_size": dims["ffn"],
            "norm_topk_prob": dims["rescaled"], "num_experts": dims["experts"],
            "num_experts_per_tok": dims["experts_per_token"], "output_router_logits": False,
            "router_aux_loss_coef": 0.001,
        }
    if family == "qwen3_moe":
        return config | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"}
    if family == "sdar_moe":
        return config | {"architectures": ["SDARMoeForCausalLM"], "model_type": "sdar_moe", "block_size": 32,
                         "debug": False, "ep_size": 1, "micro_forward": False, "skip_checkpoint": False}
    if family == "rnd1":
        return config | {"architectures": ["RND1LM"], "model_type": "rnd1", "mask_token_id": ids[MASK[family]],
                         "moe_backend": "hf", "num_diffusion_steps": 256, "rope_scaling": False,
                         "sliding_window": False}
    if family == "a2d_qwen3":
        return config | {"architectures": ["A2DQwen3LMHeadModel"], "model_type": "a2d-qwen3", "attention_bias": False,
                         "head_dim": dims["head_dim"], "layer_types": ["full_attention"] * dims["layers"],
                         "mask_token_id": ids[MASK[family]], "lacuna": {"paradigm": "masked"}}
    if family == "a2d_qwen2":
        return config | {"architectures": ["A2DQwen2LMHeadModel"], "model_type": "a2d-qwen2",
                         "_name_or_path": "Qwen2.5-Coder-0.5B-Instruct-diffusion-bd3lm-v0.1"}
    if family in ("llama", "diffcoder", "a2d_llama"):  # Llama's files know no sliding window
        for key in ("max_window_layers", "sliding_window", "use_sliding_window"):
            del config[key]
        config |= {"attention_bias": False, "mlp_bias": False, "model_type": "llama", "pretraining_tp": 1}
        if family == "llama":
            return config | {"architectures": ["LlamaForCausalLM"]}
        if family == "a2d_llama":
            return config | {"architectures": ["A2DLlamaLMHeadModel"], "model_type": "a2d-llama",
                             "_name_or_path": "Llama-diffusion-mdlm"}
        return config | {"architectures": ["StableDiffcoderForCausalLM"], "mask_token_id": ids[MASK[family]]}
    if family == "coda":  # the file names no ends; the tokenizer does
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            del config[key]
        config |= {"mask_block_sizes": [2, 4, 8], "block_masking_probability": 0.2, "prefix_probability": 0.1,
                   "truncate_probability": 0.1, "sampling_eps": 0.001,
                   "masking_scheduler": {"schedule_type": "constant", "max_schedule_steps": None}}
        return config | {"architectures": ["CoDALanguageModel"], "model_type": "CoDA", "attention_bias": False,
                         "head_dim": dims["head_dim"], "mask_token_id": ids[MASK[family]]}
    if family == "dream":
        return config | {
            "architectures": ["DreamModel"], "model_type": "Dream", "mask_token_id": ids[MASK[family]],
            "auto_map": {"AutoConfig": "configuration_dream.DreamConfig", "AutoModel": "modeling_dream.DreamModel"},
            "transformers_version": "4.46.2", "use_mrope": False,
        }
    if family == "fast_dllm":
        return config | {
            "architectures": ["Fast_dLLM_QwenForCausalLM"], "model_type": "Fast_dLLM_Qwen", "bd_size": 32,
            "conplemenrary_mask": True, "layer_types": ["full_attention"] * dims["layers"],
            "eos_token_id": ids["<|im_end|>"],
        }
    if family in ("qwen2", "open_dcoder"):
        names = {"_name_or_path": "fredzzp/open-dcoder-0.5B"} if family == "open_dcoder" else {}
        return config | names | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_mrope": False}
    return config | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False,
                     "head_dim": dims["head_dim"]}


def capacity_keys(config, dims):
    """Keys that LLaDA2.2 adds to the config.json of LLaDA2: block routing, and the ids of the edits among the dead rows.

    window None: the key is left out. rope_object: theta and the rotated part are in `rope_parameters`, and taken out of
    `config`.
    """
    keys = {"expert_capacity": dims["capacity"], "delete_token_id": dims["vocab"] - DEAD_ROWS,
            "split_token_id": dims["vocab"] - DEAD_ROWS + 1, "use_qk_norm": True, "max_position_embeddings": 131072}
    if dims.get("window"):
        keys["block_size"] = dims["window"]
    if dims.get("rope_object"):
        config.pop("rope_scaling")
        keys["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta"),
                                   "partial_rotary_factor": config.pop("partial_rotary_factor")}
    return keys


def make_tensors(family, dims, rng, mask_gain=0.0, end_gain=0.0, dtype="f32"):
    """{published name: float32 array}, already rounded to `dtype`.

    mask_gain and end_gain scale the head rows of the mask and of the end tokens: 0 keeps them from ever winning,
    2 makes them win often.
    """
    hidden, ffn, vocab = dims["hidden"], dims["ffn"], dims["vocab"]
    q, kv = dims["heads"] * dims["head_dim"], dims["kv_heads"] * dims["head_dim"]
    ids = special_ids(family, vocab)

    def linear(rows, columns, gain=1.0):
        return rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)

    def norm(size):
        return rng.uniform(0.7, 1.3, size)

    # A tied matrix is also the head, so it must be small for logits of the right size; the layers then have to
    # outweigh it, or each token would predict itself.
    embedding = rng.standard_normal((vocab, hidden)) * (4.0 / np.sqrt(hidden) if dims["tied"] else 1.0)
    head = embedding if dims["tied"] else linear(vocab, hidden, 4.0)
    for text, token in ids.items():
        gain = end_gain if text in ("<|endoftext|>", END_OF_TURN[family]) else 0.0
        if text == MASK.get(family):
            gain = mask_gain
        head[token] *= max(gain, 0.1) if dims["tied"] else gain  # a tied row must stay an embedding
    attention_gain = 1.0 if family in (*QK_NORM_FAMILIES, "llada2") else 2.5  # those norm q and k afterwards
    tensors = {}

    def mlp(name, inner, gain):
        tensors[name + "gate_proj.weight"] = linear(inner, hidden, 1.5)
        tensors[name + "up_proj.weight"] = linear(inner, hidden, 1.5)
        tensors[name + "down_proj.weight"] = linear(hidden, inner, gain)

    if family == "llada":
        root = "model.transformer."
        tensors[root + "wte.weight"] = embedding
        for i in range(dims["layers"]):
            block = f"{root}blocks.{i}."
            tensors[block + "attn_norm.weight"] = norm(hidden)
            tensors[block + "q_proj.weight"] = linear(q, hidden, attention_gain)
            tensors[block + "k_proj.weight"] = linear(kv, hidden)
            tensors[block + "v_proj.weight"] = linear(kv, hidden, 2.0)
            tensors[block + "attn_out.weight"] = linear(hidden, q, 2.0)
            tensors[block + "ff_norm.weight"] = norm(hidden)
            tensors[block + "ff_proj.weight"] = linear(ffn, hidden, 1.5)
            tensors[block + "up_proj.weight"] = linear(ffn, hidden, 1.5)
            tensors[block + "ff_out.weight"] = linear(hidden, ffn, 1.5)
        tensors[root + "ln_f.weight"] = norm(hidden)
        if not dims["tied"]:
            tensors[root + "ff_out.weight"] = head
    elif family == "llada2":
        tensors["model.word_embeddings.weight"] = embedding
        for i in range(dims["layers"]):
            layer = f"model.layers.{i}."
            attn = layer + "attention."
            tensors[layer + "input_layernorm.weight"] = norm(hidden)
            rows = np.repeat([1.0, 1.0, 2.0], [q, kv, kv])  # gains of q, k and v
            tensors[attn + "query_key_value.weight"] = linear(q + 2 * kv, hidden) * rows[:, None]
            if dims["qkv_bias"]:
                tensors[attn + "query_key_value.bias"] = rng.standard_normal(q + 2 * kv) * 0.5
            tensors[attn + "query_layernorm.weight"] = norm(dims["head_dim"]) * 1.6
            tensors[attn + "key_layernorm.weight"] = norm(dims["head_dim"]) * 1.6
            tensors[attn + "dense.weight"] = linear(hidden, q, 2.0)
            if dims["dense_bias"]:
                tensors[attn + "dense.bias"] = rng.standard_normal(hidden) * 0.5
            tensors[layer + "post_attention_layernorm.weight"] = norm(hidden)
            if i < dims["first_dense"]:
                mlp(layer + "mlp.", dims["dense_ffn"], 1.5)
                continue
            tensors[layer + "mlp.gate.weight"] = linear(dims["experts"], hidden, 1.5)
            tensors[layer + "mlp.gate.expert_bias"] = rng.standard_normal(dims["experts"]) * 0.3
            for e in range(dims["experts"]):
                mlp(f"{layer}mlp.experts.{e}.", ffn, 1.0)
            if dims["shared"]:
                mlp(layer + "mlp.shared_experts.", ffn * dims["shared"], 1.0)
        tensors["model.norm.weight"] = norm(hidden)
        if not dims["tied"]:
            tensors["lm_head.weight"] = head
    elif family == "nemotron":
        def norms(name):
            tensors[name + ".weight"] = norm(hidden) - 1
            tensors[name + ".bias"] = rng.standard_normal(hidden) * 0.3

        tensors["model.embed_tokens.weight"] = embedding + 0.5  # rows with a mean
        for i in range(dims["layers"]):
            layer = f"model.layers.{i}."
            norms(layer + "input_layernorm")
            norms(layer + "post_attention_layernorm")
            for name, rows, columns, gain, has_bias in (
                    ("self_attn.q", q, hidden, attention_gain, "attention_bias"), ("self_attn.k", kv, hidden, 1.0, "attention_bias"),
                    ("self_attn.v", kv, hidden, 2.0, "attention_bias"), ("self_attn.o", hidden, q, 2.0, "attention_bias"),
                    ("mlp.up", ffn, hidden, 1.5, "mlp_bias"), ("mlp.down", hidden, ffn, 1.0, "mlp_bias")):
                tensors[f"{layer}{name}_proj.weight"] = linear(rows, columns, gain)
                if dims[has_bias]:
                    tensors[f"{layer}{name}_proj.bias"] = rng.standard_normal(rows) * 0.5
        norms("model.norm")
        if not dims["tied"]:
            tensors["lm_head.weight"] = head
    else:
        tensors["model.embed_tokens.weight"] = embedding
        for i in range(dims["layers"]):
            layer = f"model.layers.{i}."
            attn = layer + "self_attn."
            tensors[layer + "input_layernorm.weight"] = norm(hidden)
            for name, rows, gain in (("q", q, attention_gain), ("k", kv, 1.0), ("v", kv, 2.0)):
                tensors[f"{attn}{name}_proj.weight"] = linear(rows, hidden, gain)
                if family in ("dream", "qwen2", "fast_dllm", "a2d_qwen2", "open_dcoder"):
                    tensors[f"{attn}{name}_proj.bias"] = rng.standard_normal(rows) * 0.5
            tensors[attn + "o_proj.weight"] = linear(hidden, q, 2.0)
            if family in QK_NORM_FAMILIES:
                tensors[attn + "q_norm.weight"] = norm(dims["head_dim"]) * 1.6
                tensors[attn + "k_norm.weight"] = norm(dims["head_dim"]) * 1.6
            tensors[layer + "post_attention_layernorm.weight"] = norm(hidden)
            if family in EXPERT_FAMILIES:
                tensors[layer + "mlp.gate.weight"] = linear(dims["experts"], hidden, 1.5)
                mlps = [f"{layer}mlp.experts.{e}." for e in range(dims["experts"])]
            else:
                mlps = [layer + "mlp."]
            for name in mlps:
                mlp(name, ffn, 3.0 if family in EXPERT_FAMILIES and not dims.get("rescaled") else 1.5)
        tensors["model.norm.weight"] = norm(hidden)
        if not dims["tied"]:
            tensors["lm_head.weight"] = head
    return {name: safetensors_io.round_to(values, dtype) for name, values in tensors.items()}


def write_weights(folder, tensors, dtype, shards=1):
    """model.safetensors, or `shards` files split by tensor kind, as LLaDA's are, with their index."""
    if shards == 1:
        safetensors_io.write(folder / "model.safetensors", tensors, dtype)
        return
    kinds = sorted({name.rsplit(".", 2)[-2] for name in tensors})
    shard_of = {name: kinds.index(name.rsplit(".", 2)[-2]) % shards for name in tensors}
    total, weight_map = 0, {}
    for shard in range(shards):
        part = {name: values for name, values in tensors.items() if shard_of[name] == shard}
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        total += safetensors_io.write(folder / file, part, dtype)
        weight_map |= {name: file for name in part}
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def make_checkpoint(folder, family, seed, tokenizer="auto", dtype=None, shards=None, mask_gain=0.0, end_gain=0.0,
                    edit=None, **overrides):
    """Writes a checkpoint and returns its reference Model.

    tokenizer: 'json' (tokenizer.json), 'trio' (vocab.json, merges.txt, added_tokens.json), 'auto' (what the family
    publishes) or None. edit(config, tensors) may change both before they are written. The same arguments always write
    the same bytes. The block families get a tokenizer_config.json in any case, as nothing else names their mask.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([SEEDED.index(family), seed])
    dims = random_dims(family, rng) | overrides
    dtype = dtype or ("f32", "bf16", "f16")[seed % 3]
    shards = shards or (1, 3)[seed % 2]
    config = make_config(family, dims)
    tensors = make_tensors(family, dims, rng, mask_gain, end_gain, dtype)
    if edit:
        edit(config, tensors)
        tensors = {name: safetensors_io.round_to(values, dtype) for name, values in tensors.items()}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_weights(folder, tensors, dtype, shards)
    if family in BLOCK_FAMILIES:
        added = {str(token): {"content": text, "special": True}
                 for text, token in special_ids(family, dims["vocab"]).items()}
        if dims.get("capacity"):
            added |= {str(config[f"{name}_token_id"]): {"content": f"<|{name}|>", "special": True}
                      for name in ("delete", "split")}
        (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}, indent=2) + "\n")
    if tokenizer:
        import small_tokenizers  # needs the tokenizers package
        kind = {"dream": "trio"}.get(family, "json") if tokenizer == "auto" else tokenizer
        small_tokenizers.write(folder, family, dims["vocab"], kind, string_merges=bool(seed % 2))
    model = Model(config, tensors)
    if family in NAMELESS_MASKS:
        model.shape.mask_id = special_ids(family, dims["vocab"])[MASK[family]]
    return model


def share_embeddings(tensors, strength, factor, rng):
    """Adds one random vector to all embeddings and scales what layers add to them, so that rows predict alike. Returns the
    vector."""
    embedding = tensors["model.embed_tokens.weight"]
    shared = rng.standard_normal(embedding.shape[1])
    tensors["model.embed_tokens.weight"] = embedding + strength * shared
    for name in tensors:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensors[name] = tensors[name] * factor
    return shared


def make_refusion_checkpoint(folder, seed):
    """Writes a small Qwen3 with a mask token, as ReFusion is published, and returns its reference Model.

    All embeddings share a vector, so that a draft from a mask row and the judge's row on its left often agree, with
    probabilities anywhere between 0 and 1. Three checkpoints of four can end, and in every other one the mask token may
    win.
    """
    rng = np.random.default_rng([seed, 21])
    kv_heads, group = ((2, 2), (1, 4), (2, 1), (4, 1))[int(rng.integers(4))]
    strength, factor = rng.choice([0.3, 0.6, 1.0, 1.5]), rng.choice([0.5, 1.0, 2.0])
    sharpness = rng.choice([0.6, 0.8, 1.1])
    ids = special_ids("qwen3", 112)

    def edit(config, tensors):
        config["mask_token_id"] = ids["<|mdm_mask|>"]
        config["auto_map"] = {"AutoModelForCausalLM": "modeling_qwen3_refusion.Qwen3ForCausalLM"}
        embedding, head = tensors["model.embed_tokens.weight"], tensors["lm_head.weight"]
        shared = share_embeddings(tensors, strength, factor, rng)
        lean = np.sqrt(strength ** 2 + factor ** 2 + 1) / strength * 4 * shared / embedding.shape[1]
        for text, wanted in (("<|mdm_mask|>", seed % 2), ("<|im_end|>", seed % 4), ("<|endoftext|>", seed % 4 == 2)):
            row = rng.standard_normal(embedding.shape[1]) * 4 / np.sqrt(embedding.shape[1])
            head[ids[text]] = (row + rng.uniform(0.3, 1.7) * lean) * bool(wanted)  # they win now and then
        tensors["lm_head.weight"] = head * sharpness

    size = {"vocab": 112, "hidden": int(rng.choice([32, 48, 64])), "layers": 2, "kv_heads": kv_heads,
            "heads": kv_heads * group, "head_dim": int(rng.choice([8, 16])), "tied": False}
    return make_checkpoint(folder, "qwen3", seed, edit=edit, dtype="f32", **size)


def make_editing_checkpoint(folder, seed):
    """Writes a small LLaDA2.2 without a tokenizer and returns (its reference Model, its end tokens).

    The head leans towards the embedding: a token mostly predicts itself, so that blocks converge. Some pairs of tokens
    predict each other, so that states repeat; other tokens predict DELETE or SPLIT. Masks predict one of a few common
    tokens; the edits are among these (SPLIT above all in one checkpoint of four), in three of four also end tokens, and
    in every other one the mask token may have the largest logit. Two or three experts have equal router rows: ties that float32 keeps.
    """
    rng = np.random.default_rng([seed, 71])
    vocab, hidden = 112, int(rng.choice([32, 48, 64]))
    ids = special_ids("llada2", vocab)
    mask, ends = ids[MASK["llada2"]], [ids["<|endoftext|>"], ids["<|role_end|>"]]
    experts, top = int(rng.choice([8, 12, 16])), int(rng.choice([2, 3]))
    lean, mask_lean = float(rng.uniform(5, 9)), float(rng.uniform(3, 6))
    strength = float(rng.choice([0.2, 0.4, 0.7]))  # of the layers against the embedding
    window = (8, 16, 4, 32, None, 8, 12, 16)[seed % 8]

    def edit(config, tensors):
        config["mask_token_id"], config["eos_token_id"] = mask, ends
        delete, split = config["delete_token_id"], config["split_token_id"]
        embedding, head = tensors["model.word_embeddings.weight"], tensors["lm_head.weight"]
        for name in tensors:
            if name.endswith(("dense.weight", "down_proj.weight")):
                tensors[name] = tensors[name] * strength
            if name.endswith("expert_bias"):  # at what sigmoid says nothing, the largest of many rows
                equal = rng.choice(experts, int(rng.integers(2, 4)), replace=False)
                tensors[name.replace("expert_bias", "weight")][equal] = 0
                tensors[name][equal] = rng.uniform(0, 0.6)
        head *= 0.7
        ordinary = [token for token in range(vocab - DEAD_ROWS) if token != mask]
        shuffled = rng.permutation(ordinary)
        pairs = shuffled[:2 * int(rng.choice([3, 8, 12]))].reshape(-1, 2)
        deleted, splitting = shuffled[24:29], shuffled[29:36]
        target = np.arange(vocab)
        target[pairs[:, 0]], target[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
        head[delete] = head[split] = head[mask] = 0
        for token in ordinary:
            head[target[token]] += lean * embedding[token] / hidden
        head[pairs] += rng.uniform(0.5, 1.0) * lean * embedding[pairs] / hidden  # the second best is the token itself
        for tokens, goal in ((deleted, delete), (splitting, split)):  # as strong as the token itself
            head[goal] += lean * rng.uniform(0.8, 1.1) * embedding[tokens].sum(axis=0) / hidden
        common = [*rng.choice(ordinary, 12, replace=False), delete, split, *ends[:(0, 1, 2, 2)[seed % 4]]]
        for token in common:
            head[token] += mask_lean * embedding[mask] / hidden + rng.standard_normal(hidden) * 3 / np.sqrt(hidden)
        row = rng.standard_normal(hidden) * 3 / np.sqrt(hidden)
        head[split] += (seed % 4 == 2) * rng.uniform(0.5, 1) * mask_lean * embedding[mask] / hidden
        head[mask] = (seed % 2) * (row + rng.uniform(1, 1.5) * mask_lean * embedding[mask] / hidden)

    size = {"vocab": vocab, "hidden": hidden, "layers": int(rng.integers(2, 4)), "experts": experts,
            "experts_per_token": top, "groups": 4, "groups_per_token": int(rng.integers(1, 3)),
            "capacity": int(rng.integers(top, min(experts, top + 5) + 1)), "window": window,
            "rope_object": bool(seed // 2 % 2), "head_dim": int(rng.choice([8, 16])),
            "theta": float(rng.choice([1e4, 3e6])), "tied": False}
    kv_heads = int(rng.choice([1, 2]))
    size |= {"kv_heads": kv_heads, "heads": kv_heads * int(rng.choice([1, 2, 3])), "ffn": int(rng.choice([21, 32]))}
    model = make_checkpoint(folder, "llada2", seed, tokenizer=None, edit=edit, dtype="f32", **size)
    assert model.shape.mask_id == mask
    return model, frozenset(ends)


def favour_at_masks(tensors, mask, tokens, lean, rng):
    """Makes masks predict one of these tokens: the head leans towards the mask's embedding, and layers weigh less."""
    llada = "model.transformer.wte.weight" in tensors
    embedding = tensors["model.transformer.wte.weight" if llada else "model.embed_tokens.weight"]
    head = tensors["model.transformer.ff_out.weight" if llada else "lm_head.weight"]
    hidden, strength = embedding.shape[1], float(rng.choice([0.2, 0.4, 0.7]))
    for name in tensors:
        if name.endswith(("attn_out.weight", "o_proj.weight", "down_proj.weight")) or ("blocks" in name and "ff_out" in name):
            tensors[name] = tensors[name] * strength
    head *= 0.7
    head[mask] = 0
    for token in tokens:
        head[token] += lean * embedding[mask] / hidden + rng.standard_normal(hidden) * 3 / np.sqrt(hidden)


def make_ending_checkpoint(folder, family, seed):
    """Writes a small masked model without a tokenizer, whose masks often predict the end of the text."""
    rng = np.random.default_rng([seed, 77])

    def edit(config, tensors):
        ordinary = rng.choice(np.arange(40, config["vocab_size"] - DEAD_ROWS - 8), 8, replace=False)
        ends = [config["eos_token_id"]] * int(rng.integers(1, 3))
        favour_at_masks(tensors, config["mask_token_id"], [*ordinary, *ends], float(rng.uniform(18, 28)), rng)

    return make_checkpoint(folder, family, seed, tokenizer=None, edit=edit, dtype="f32", tied=False)


def make_growing_checkpoint(folder, seed):
    """Writes a small DreamOn with a tokenizer and returns (its reference Model, expand, delete).

    Masks predict one of a few common tokens, the one that expands and the one that deletes among them. Every other
    config.json names no token that expands: tokenizer_config.json does. What deletes is the end-of-text token, or in one
    checkpoint of three what generation_config.json says.
    """
    rng = np.random.default_rng([seed, 75])
    vocab, named = 331, bool(seed % 2)
    ids = special_ids("dream", vocab)
    mask = ids[MASK["dream"]]
    ordinary = np.arange(40, vocab - DEAD_ROWS - len(SPECIALS["dream"]))
    expand = int(rng.choice(ordinary)) if named else vocab - DEAD_ROWS  # a name needs an id of its own
    delete = ids["<|endoftext|>"] if seed % 3 else int(rng.choice(ordinary[ordinary != expand]))
    lean = float(rng.uniform(24, 34))

    def edit(config, tensors):
        if named:
            config["expand_token_id"] = expand
        favour_at_masks(tensors, mask, [*rng.choice(ordinary, 2, replace=False), expand, delete], lean, rng)

    model = make_checkpoint(folder, "dream", seed, edit=edit, dtype="f32", vocab=vocab)
    if not named:
        added = {str(expand): {"content": "<|expand|>", "special": True}}
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}) + "\n")
    if seed % 3 == 0:
        (Path(folder) / "generation_config.json").write_text(json.dumps({"delete_token_id": delete}) + "\n")
    return model, expand, delete


def make_gidd_checkpoint(folder, seed):
    """Writes a small GIDD model without a tokenizer and returns its reference Model.

    Noise is uniform, of masks, or a mixture in turn. Some checkpoints depend on their context so little that a block
    comes to rest, others never do.
    """
    rng = np.random.default_rng([seed, 41])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    heads, head_dim = ((2, 8), (2, 16), (4, 4), (4, 8), (3, 8), (2, 24), (4, 12))[int(rng.integers(7))]
    hidden, layers, vocab = heads * head_dim, int(rng.integers(2, 4)), int(rng.integers(40, 121))
    ffn = 4 * hidden if rng.random() < 0.7 else int(rng.integers(17, 90))
    ids = [0, 1, 2, 3] if rng.random() < 0.5 else rng.choice(vocab, 4, replace=False).tolist()
    bos, eos, pad, mask = ids
    if rng.random() < 0.3:
        bos = -1
    ends = eos if rng.random() < 0.7 else [eos, int(rng.choice([i for i in range(vocab) if i not in ids]))]
    head_scaling = min(512 / hidden, 8.0)
    config = {
        "architectures": ["GiddForDiffusionLM"], "model_type": "gidd", "vocab_size": vocab, "hidden_size": hidden,
        "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads, "head_dim": head_dim,
        "is_causal": False, "attn_soft_cap": float(rng.choice([30.0, 5.0])), "tie_word_embeddings": False,
        "max_position_embeddings": int(rng.integers(32, 65)), "resid_scale": 4.0, "rms_norm_eps": 1e-6,
        "use_qk_norm": True, "init_scale": 0.4 / np.sqrt(hidden), "emb_init_scale": 0.1, "head_init_scale": 0.0,
        "weight_scaling": 1.0, "head_scaling": head_scaling, "bos_token_id": bos, "eos_token_id": ends,
        "pad_token_id": pad, "mask_token_id": mask, "rope_theta": 10000.0, "rope_scaling": None,
        "attention_bias": True, "mlp_bias": True, "noise_type": (1000.0, 0.0, 2.0, -1000.0)[seed % 4],
        "min_log_snr": -9.0, "max_log_snr": 9.0, "torch_dtype": "float32",
    }
    strength = float(rng.choice([0.1, 0.3, 1.0]))  # of the layers against the embedding

    # The class's default of weight_scaling multiplies every product of a layer by columns^-0.5.
    scaling = ("fan_in", 1.0, None)[seed % 3]
    config["weight_scaling"] = scaling
    if scaling is None:
        del config["weight_scaling"]

    def linear(rows, columns, gain=1.0):
        return rng.standard_normal((rows, columns)) * gain / (np.sqrt(columns) if scaling == 1.0 else 1)

    def norm(size):
        return rng.uniform(-0.3, 0.3, size)

    tensors = {"model.embed_tokens.weight": rng.standard_normal((vocab, hidden))}
    for i in range(layers):
        layer = f"model.layers.{i}."
        attn, mlp = layer + "self_attn.", layer + "mlp."
        tensors |= {layer + "attn_layernorm.weight": norm(hidden), layer + "mlp_layernorm.weight": norm(hidden)}
        tensors |= {f"{attn}{name}_proj.weight": linear(hidden, hidden) for name in "qkv"}
        tensors |= {
            attn + "o_proj.weight": linear(hidden, hidden, strength * 2),
            attn + "q_norm.weight": norm(hidden) + 1, attn + "k_norm.weight": norm(hidden),
            attn + "k_bias": rng.standard_normal((heads, head_dim)),
            attn + "v_bias": rng.standard_normal((heads, head_dim)),
            mlp + "up_proj.weight": linear(ffn, hidden), mlp + "up_proj.bias": rng.standard_normal(ffn) * 0.3,
            mlp + "down_proj.weight": linear(hidden, ffn, strength),
            mlp + "down_proj.bias": rng.standard_normal(hidden) * 0.3 * strength,
        }
    tensors["model.norm.weight"] = norm(hidden)
    # The head leans towards the embedding where blocks are to come to rest.
    lean = float(rng.choice([0.0, 1.0]))
    head = rng.standard_normal((vocab, hidden)) * 3.0 / np.sqrt(hidden) + lean * 2.0 * tensors["model.embed_tokens.weight"] / np.sqrt(hidden)
    head[ends] *= 1.7 if rng.random() < 0.5 else 0.5  # whether answers end
    tensors["lm_head.weight"] = head / head_scaling
    tensors = {name: safetensors_io.round_to(values, "f32") for name, values in tensors.items()}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_weights(folder, tensors, "f32")
    return Model(config, tensors)


def llama_tensors(rng, root, head, vocab, hidden, ffn, layers, heads, kv_heads, head_dim, strength, qkv_bias=False):
    """Tensors of Llama's block, below the module `root`."""
    def linear(rows, columns, gain=1.0):
        return rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)

    tensors = {f"{root}.embed_tokens.weight": rng.standard_normal((vocab, hidden))}
    for i in range(layers):
        layer = f"{root}.layers.{i}."
        attn, mlp = layer + "self_attn.", layer + "mlp."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}{norm}.weight"] = rng.uniform(0.7, 1.3, hidden)
        for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            tensors[f"{attn}{name}_proj.weight"] = linear(count * head_dim, hidden)
            if qkv_bias:
                tensors[f"{attn}{name}_proj.bias"] = rng.standard_normal(count * head_dim) * 0.3
        tensors |= {attn + "o_proj.weight": linear(hidden, heads * head_dim, strength * 2),
                    mlp + "gate_proj.weight": linear(ffn, hidden), mlp + "up_proj.weight": linear(ffn, hidden),
                    mlp + "down_proj.weight": linear(hidden, ffn, strength)}
    tensors[f"{root}.norm.weight"] = rng.uniform(0.7, 1.3, hidden)
    tensors[f"{head}.weight"] = linear(vocab, hidden, 3.0)
    return tensors


def write_plain(folder, config, tensors):
    tensors = {name: safetensors_io.round_to(values, "f32") for name, values in tensors.items()}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_weights(folder, tensors, "f32")
    return tensors


def make_nemotron_checkpoint(folder, seed):
    """Writes a small Nemotron-Labs-Diffusion model without a tokenizer; returns config and tensors."""
    rng = np.random.default_rng([seed, 59])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    heads, kv_heads, head_dim = ((4, 2, 16), (4, 4, 8), (2, 1, 24), (6, 2, 8))[int(rng.integers(4))]
    hidden, layers, vocab = int(rng.choice([32, 40, 64])), int(rng.integers(1, 4)), int(rng.integers(40, 121))
    ffn = int(rng.choice([37, 96]))
    bos, eos, mask, other = rng.choice(vocab, 4, replace=False).tolist()
    config = {
        "architectures": ["NemotronLabsDiffusionModel"], "model_type": "nemotron_labs_diffusion", "vocab_size": vocab,
        "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "hidden_act": "silu", "attention_bias": False,
        "attention_dropout": 0.0, "mlp_bias": False, "initializer_range": 0.02, "sliding_window": None,
        "max_position_embeddings": int(rng.integers(60, 131)), "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": float(rng.choice([1e6, 1e4])), "factor": float(rng.choice([0.25, 4, 16])),
            "original_max_position_embeddings": int(rng.choice([16, 24])), "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": float(rng.choice([1.0, 1.0, 0.5])),
            "llama_4_scaling_beta": float(rng.choice([0.1, 0.4]))},
        "dlm_paradigm": "bidirectional", "block_size": int(rng.choice([4, 8, 32])), "dlm_loss_weight": None,
        "ar_loss_weight": 1.0, "dp_varying_mask_ratio": False, "mask_token_id": mask, "bos_token_id": bos,
        "eos_token_id": eos if rng.random() < 0.6 else [eos, other], "use_cache": False, "dtype": "float32",
    }
    strength = float(rng.choice([0.02, 0.1, 0.5]))  # of the layers: drafts agree with their judge where it is small
    tensors = llama_tensors(rng, "encoder", "diffusion_head", vocab, hidden, ffn, layers, heads, kv_heads, head_dim,
                            strength)
    if rng.random() < 0.7:  # all rows share what two tokens are predicted from, so that drafts and judges often agree
        common = rng.standard_normal(hidden)
        tensors["encoder.embed_tokens.weight"] += common
        favourites = rng.choice(vocab, 2, replace=False)
        tensors["diffusion_head.weight"][favourites] += common * rng.uniform(1.5, 2.5) / np.sqrt(hidden)
    return config, write_plain(folder, config, tensors)


def make_sumi_checkpoint(folder, seed):
    """Writes a small Sumi model without a tokenizer; returns its reference Model and its generation_config.json."""
    rng = np.random.default_rng([seed, 53])
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    heads, kv_heads, head_dim = ((4, 2, 16), (4, 4, 8), (2, 1, 24), (6, 2, 8))[int(rng.integers(4))]
    hidden, layers, vocab = int(rng.choice([32, 40, 64])), int(rng.integers(1, 4)), int(rng.integers(40, 121))
    ffn, positions = int(rng.choice([37, 96])), int(rng.integers(24, 65))
    bos, eos, pad = rng.choice(vocab, 3, replace=False).tolist()
    has_bias = bool(rng.random() < 0.4)
    config = {
        "architectures": ["SumiForMaskGeneration"], "model_type": "sumi", "vocab_size": vocab, "hidden_size": hidden,
        "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "hidden_act": "silu", "attention_bias": False,
        "attention_dropout": 0.0, "add_qkv_bias": has_bias, "mlp_bias": False, "initializer_range": 0.02,
        "max_position_embeddings": positions, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "use_cache": True,
        "rope_parameters": {"rope_theta": float(rng.choice([5e5, 1e4])), "rope_type": "default"},
        "bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad, "dtype": "float32",
    }
    generation = {"bos_token_id": bos, "eos_token_id": eos, "sampler": "ancestral", "schedule": "linear"}
    if rng.random() < 0.7:
        generation |= {"num_denoising_steps": int(rng.integers(2, 16)), "tokens_per_step": int(rng.integers(1, 4)),
                       "canvas_length": int(rng.integers(20, 80)), "anchor_eosbos": True}
    if rng.random() < 0.3:
        generation |= {"min_log_snr": -7.0, "max_log_snr": 5.5}
    strength = float(rng.choice([0.1, 0.3, 1.0]))  # of the layers against the embedding

    tensors = llama_tensors(rng, "model", "lm_head", vocab, hidden, ffn, layers, heads, kv_heads, head_dim, strength,
                            has_bias)
    # The head leans towards the embedding where a canvas is to come to rest.
    lean = float(rng.choice([0.0, 1.0]))
    head = tensors["lm_head.weight"] + lean * 2.0 * tensors["model.embed_tokens.weight"] / np.sqrt(hidden)
    head[eos] *= 1.7 if rng.random() < 0.5 else 0.5  # whether answers end
    tensors["lm_head.weight"] = head
    tensors = write_plain(folder, config, tensors)
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    return Model(config, tensors), generation


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("family", choices=FAMILIES + BLOCK_FAMILIES)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model = make_checkpoint(args.folder, args.family, args.seed,
                            tokenizer=None if args.family in BLOCK_FAMILIES else "auto")
    print(read_shape(model.config))


if __name__ == "__main__":
    main()
