"""Writes models that ship as GGUF files, with llama.cpp's own Python package, and holds a binary against them.

    python check_gguf.py LACUNA_BINARY [--models FOLDER]

Names of tensors come from the package's maps, names of keys from its writer, so that neither is what src/ believes they are. Matrices
stay bf16: the logits of a file have to be those of its folder, bit for bit. Exit status 0 when nothing failed.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import safetensors_io
from check_server import Report

ARCHITECTURES = {
    "mini-dream": ("dream", gguf.MODEL_ARCH.DREAM),
    "mini-qwen": ("qwen2", gguf.MODEL_ARCH.QWEN2),
    "mini-qwen3": ("qwen3", gguf.MODEL_ARCH.QWEN3),
    "mini-llada2": ("llada2", gguf.MODEL_ARCH.BAILINGMOE2),  # which has Ling 2.0's layout
}
TOKENS = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26]


def add_sizes(writer, config):
    heads = config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config.get("head_dim", config["hidden_size"] // heads))
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def add_experts(writer, config):
    width = config["moe_intermediate_size"]
    writer.add_rope_dimension_count(int(config["head_dim"] * config["partial_rotary_factor"]))
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(width)
    writer.add_expert_shared_count(config["num_shared_experts"])
    writer.add_expert_shared_feed_forward_length(width * config["num_shared_experts"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_group_count(config["n_group"])
    writer.add_expert_group_used_count(config["topk_group"])
    writer.add_uint32("diffusion.block_length", config["block_length"])


def stacked(tensors):
    """One tensor for all experts of a layer, and the bias of their choice under the name that the maps know."""
    result, experts = {}, {}
    for name, values in tensors.items():
        found = re.fullmatch(r"(.*\.mlp\.experts)\.(\d+)\.(.*)", name)
        if found:
            experts.setdefault(f"{found[1]}.{found[3]}", {})[int(found[2])] = values
        else:
            result[re.sub(r"\.expert_bias$", ".expert_bias.bias", name)] = values
    for name, parts in experts.items():
        result[name] = np.stack([parts[index] for index in range(len(parts))])
    return result


def add_tensors(writer, folder, names):
    for name, values in stacked(safetensors_io.read(folder / "model.safetensors")).items():
        to = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if to is None:
            raise SystemExit(f"{folder}: gguf has no name for {name}")
        if values.ndim == 1 or "ffn_gate_inp" in to:
            writer.add_tensor(to, values.astype(np.float32))
        else:
            bits = gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(to, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)


def write(folder, path):
    architecture, arch = ARCHITECTURES[folder.name]
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, architecture)
    add_sizes(writer, config)
    if "num_experts" in config:
        add_experts(writer, config)
    if not architecture.startswith("qwen"):
        writer.add_causal_attention(False)
        writer.add_mask_token_id(config["mask_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_string("tokenizer.huggingface.json", (folder / "tokenizer.json").read_text())
    add_tensors(writer, folder, gguf.get_tensor_name_map(arch, config["num_hidden_layers"]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(binary, model, folder):
    request, out = folder / "request.json", folder / "out.npy"
    request.write_text(json.dumps({"tokens": TOKENS}))
    command = [binary, "logits", "-m", model, "--request", request, "--out", out, "--threads", "1"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return np.load(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--models", type=Path, default=Path(__file__).parents[2] / "models")
    arguments = parser.parse_args()
    report = Report()
    for name in ARCHITECTURES:
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / f"{name}.gguf"
            write(arguments.models / name, path)
            of_file = logits(arguments.binary, path, Path(temporary))
            of_folder = logits(arguments.binary, arguments.models / name, Path(temporary))
            difference = np.abs(of_file - of_folder).max()
            report.check(f"{name} as a GGUF file", np.array_equal(of_file, of_folder), f"differs by {difference}")
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
