"""Writes tests/golden/quantized: one small matrix in each published quantized format, by the program that publishes it.

    python make_golden_quantized.py OUT [--auto-gptq FOLDER] [--auto-awq FOLDER]

Each folder gets model.safetensors with the tensors of the module "m", config.json with what its program writes there about
quantization, and weights.npy, the float32 weights. Needs mlx, torch, bitsandbytes, compressed-tensors and transformers; the
two last programs are unpacked sources (auto-gptq 0.7.1, autoawq 0.2.9), of which only the file that packs matrices is loaded.
Formats without a program to install (ModelOpt, DeepSeek's FP8, GPTQ's version 2) come from quantized_formats.py.
"""
import argparse
import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch

import quantized_formats as formats
import safetensors_io

ROWS, INPUTS, GROUP = 32, 64, 32
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32", torch.int64: "I64",
         torch.int8: "I8", torch.uint8: "U8", torch.float8_e4m3fn: "F8_E4M3"}


def stored(tensor):
    tensor = tensor.detach().contiguous()
    kind = TYPES[tensor.dtype]
    if kind == "BF16":
        return kind, tensor.view(torch.int16).numpy().view(np.uint16)
    return kind, (tensor.view(torch.uint8) if kind == "F8_E4M3" else tensor).numpy()


def write(out, name, config, tensors, weights):
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    key = "quantization" if "quant_method" not in config else "quantization_config"
    (folder / "config.json").write_text(json.dumps({key: config}, indent=2) + "\n")
    safetensors_io.write_typed(folder / "model.safetensors", {"m" + suffix: part for suffix, part in tensors.items()})
    np.save(folder / "weights.npy", np.ascontiguousarray(weights, np.float32))


def on_grid(rng, bits, symmetric):
    """(weights, scales, zero codes) of groups, float32 and f16 numbers: weights that codes hold exactly."""
    codes = rng.integers(0, 1 << bits, (ROWS, INPUTS))
    zeros = np.full((ROWS, INPUTS // GROUP), 1 << (bits - 1))
    if not symmetric:
        zeros = rng.integers(1, 1 << bits, zeros.shape)
    scales = rng.uniform(0.5, 1.5, zeros.shape).astype(np.float16).astype(np.float32) / 64
    every = [np.repeat(values, GROUP, axis=1) for values in (scales, zeros)]
    return every[0] * (codes - every[1]).astype(np.float32), scales, zeros


def linear(weights):
    layer = torch.nn.Linear(INPUTS, ROWS, bias=False)
    layer.weight.data = torch.from_numpy(weights)
    return layer


def make_mlx(out, rng):
    import mlx.core as mx
    for bits, group in ((3, 64), (4, 32), (6, 32), (8, 64)):
        dense = mx.array(rng.standard_normal((ROWS, INPUTS)).astype(np.float32)).astype(mx.bfloat16)
        codes, scales, biases = mx.quantize(dense, group_size=group, bits=bits)
        numbers = [np.array(part.astype(mx.float32)) for part in (scales, biases)]
        weights = mx.dequantize(codes, *map(mx.array, numbers), group_size=group, bits=bits)
        parts = [("BF16", safetensors_io.bf16_bits(part)) for part in numbers]
        write(out, f"mlx-{bits}bit", {"group_size": group, "bits": bits, "mode": "affine"},
              {".weight": ("U32", np.array(codes)), ".scales": parts[0], ".biases": parts[1]}, np.array(weights))


def make_bitsandbytes(out, rng):
    from bitsandbytes import functional
    for kind in ("nf4", "fp4"):
        dense = torch.from_numpy(rng.standard_normal((ROWS, INPUTS)).astype(np.float32))
        codes, state = functional.quantize_4bit(dense, quant_type=kind, compress_statistics=kind == "nf4")
        weights = functional.dequantize_4bit(codes, state)
        tensors = {".weight": stored(codes)}
        tensors |= {".weight." + key: stored(value) for key, value in state.as_dict(packed=True).items()}
        config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind,
                  "bnb_4bit_use_double_quant": kind == "nf4", "bnb_4bit_compute_dtype": "float32"}
        write(out, f"bitsandbytes-{kind}", config, tensors, weights.numpy())
    dense = torch.from_numpy(rng.standard_normal((ROWS, INPUTS)).astype(np.float16))
    codes, scales, _ = functional.int8_vectorwise_quant(dense)
    tensors = {".weight": stored(codes), ".SCB": stored(scales), ".weight_format": ("U8", np.array(0, np.uint8))}
    write(out, "bitsandbytes-int8", {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0},
          tensors, functional.int8_vectorwise_dequant(codes, scales).numpy())


def make_compressed_tensors(out, rng):
    from compressed_tensors import compressors
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    def one(name, quant_format, compressor, weights, scale, zero=None, global_scale=None, **arguments):
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments))
        state = {"weight": torch.from_numpy(weights), "weight_scale": scale}
        if zero is not None:
            state["weight_zero_point"] = zero
        if global_scale is not None:
            state["weight_global_scale"] = global_scale
        made = compressor.compress(state, scheme)
        wide = dict(made)
        if wide["weight_scale"].dtype == torch.bfloat16:
            wide["weight_scale"] = wide["weight_scale"].float()
        if global_scale is None:
            dense = compressor.decompress(wide, scheme)["weight"].float().numpy()
        else:  # which the library does in bf16
            values = compressors.unpack_fp4_from_uint8(made["weight_packed"], ROWS, INPUTS).float()
            scales = made["weight_scale"].float() / global_scale
            dense = (values * scales.repeat_interleave(16, dim=1)).numpy()
        config = {"quant_method": "compressed-tensors", "format": quant_format, "quantization_status": "compressed",
                  "ignore": ["lm_head"],
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": arguments}}}
        write(out, name, config, {"." + key: stored(value) for key, value in made.items()}, dense)

    for symmetric in (True, False):
        weights, scales, zeros = on_grid(rng, 4, symmetric)
        one("compressed-tensors-int4" + ("" if symmetric else "-asymmetric"), "pack-quantized",
            compressors.PackedQuantizationCompressor, weights, torch.from_numpy(scales).bfloat16(),
            torch.from_numpy(zeros - 8).to(torch.int8), num_bits=4, type="int", strategy="group", group_size=GROUP,
            symmetric=symmetric)
    weights = rng.standard_normal((ROWS, INPUTS)).astype(np.float32)
    largest = torch.from_numpy(np.abs(weights).max(axis=1, keepdims=True))
    one("compressed-tensors-int8", "int-quantized", compressors.IntQuantizationCompressor, weights,
        (largest / 127).bfloat16(), num_bits=8, type="int", strategy="channel", symmetric=True)
    one("compressed-tensors-fp8", "float-quantized", compressors.FloatQuantizationCompressor, weights,
        (largest / 448).bfloat16(), num_bits=8, type="float", strategy="channel", symmetric=True)
    global_scale = torch.tensor([6.0 * 448 / np.abs(weights).max()], dtype=torch.float32)
    by_block = np.abs(weights).reshape(ROWS, -1, 16).max(axis=2) / 6 * global_scale.item()
    one("compressed-tensors-nvfp4", "nvfp4-pack-quantized", compressors.NVFP4PackedCompressor, weights,
        torch.from_numpy(by_block).to(torch.float8_e4m3fn).float(), global_scale=global_scale, num_bits=4, type="float",
        strategy="tensor_group", group_size=16, symmetric=True, scale_dtype="torch.float8_e4m3fn")


def load_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def make_gptq(out, rng, sources):
    layers = load_file("qlinear_cuda", sources / "auto_gptq/nn_modules/qlinear/qlinear_cuda.py")
    for name, bits, symmetric, is_ordered in (("gptq-4bit", 4, True, True), ("gptq-3bit", 3, False, True),
                                              ("gptq-act-order", 4, False, False)):
        weights, scales, zeros = on_grid(rng, bits, symmetric)
        g_idx = np.arange(INPUTS) // GROUP
        if not is_ordered:
            order = rng.permutation(INPUTS)
            weights, g_idx = weights[:, order], g_idx[order]
        layer = layers.QuantLinear(bits, GROUP, INPUTS, ROWS, bias=False, kernel_switch_threshold=128)
        dense = linear(weights)
        layer.pack(dense, torch.from_numpy(scales), torch.from_numpy(zeros.astype(np.float32)),
                   torch.from_numpy(g_idx.astype(np.int32)))
        tensors = {"." + key: stored(value) for key, value in layer.state_dict().items()}
        tensors[".scales"] = stored(layer.scales.half())
        write(out, name, {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": not is_ordered,
                          "sym": symmetric, "damp_percent": 0.01}, tensors, weights)


def make_awq(out, rng, sources):
    for name in ("awq", "awq.utils"):
        sys.modules[name] = types.ModuleType(name)
    helpers = types.ModuleType("awq.utils.module")
    helpers.try_import = lambda name: (None, "")
    device = types.ModuleType("awq.utils.utils")
    device.get_best_device = lambda: "cpu"
    sys.modules |= {"awq.utils.module": helpers, "awq.utils.utils": device}
    load_file("awq.utils.packing_utils", sources / "awq/utils/packing_utils.py")
    layers = load_file("awq_gemm", sources / "awq/modules/linear/gemm.py")
    weights, scales, zeros = on_grid(rng, 4, False)
    layer = layers.WQLinear_GEMM.from_linear(linear(weights), 4, GROUP, scales=torch.from_numpy(scales.T.copy()),
                                             zeros=torch.from_numpy(zeros.T.copy()))
    write(out, "awq", {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True},
          {"." + key: stored(value) for key, value in layer.state_dict().items()}, weights)


def make_ours(out, rng):
    """By formats.py, where no program is at hand."""
    cases = {
        "gptq-v2": ({"quant_method": "gptq", "bits": 4, "group_size": GROUP, "checkpoint_format": "gptq_v2"},
                    formats.gptq, {"bits": 4, "group": GROUP, "version": 2}),
        "fp8-block": ({"quant_method": "fp8", "weight_block_size": [16, 32]}, formats.float8, {"block": (16, 32)}),
        "modelopt-nvfp4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, formats.nvfp4, {"divides": False}),
        "modelopt-fp8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, formats.float8, {"suffix": ".weight_scale"}),
    }
    for name, (config, make, arguments) in cases.items():
        tensors, weights = make(ROWS, INPUTS, 0.1, rng, **arguments)
        write(out, name, config, tensors, weights)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--auto-gptq", type=Path)
    parser.add_argument("--auto-awq", type=Path)
    arguments = parser.parse_args()
    out = arguments.out / "quantized"
    rng = np.random.default_rng(73)
    make_ours(out, rng)
    make_mlx(out, rng)
    make_bitsandbytes(out, rng)
    make_compressed_tensors(out, rng)
    if arguments.auto_gptq:
        make_gptq(out, rng, arguments.auto_gptq)
    if arguments.auto_awq:
        make_awq(out, rng, arguments.auto_awq)


if __name__ == "__main__":
    main()
