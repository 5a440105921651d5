"""Holds a binary against quantized checkpoints in the formats that other programs publish.

    python check_quantized.py LACUNA_BINARY [--seeds N] [--only WORD] [--quiet]

Random checkpoints have their matrices in the formats of quantized_formats.py. `lacuna pack` writes what the binary makes of
each, once in f32, where every weight has to be the reference's bit for bit, and logits have to be those of models.py on the
reference's weights, in the format that the binary chooses itself as well as in f32. Exit status 0 when nothing failed.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import diffusion_gemma
import quantized_formats as formats
import random_diffusion_gemma
import safetensors_io
from models import Model
from random_checkpoints import make_config, make_tensors, random_dims, special_ids, MASK

TOLERANCE = 2e-5  # of the largest logit
ROUTER_TOLERANCE = 1e-5  # an expert chosen by less than this may be another one in float32
PANEL = 16  # outputs of a panel, as docs/reference/quantized.md says


class Refused(Exception):
    """The output of the program."""


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, holds, detail=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {name} {detail}", flush=True)


def compressed(quant_format, bits=None, **weights):
    group = {"targets": ["Linear"], "weights": {"num_bits": bits, "type": "int", "dynamic": False, **weights},
             "input_activations": None, "output_activations": None}
    return {"quant_method": "compressed-tensors", "format": quant_format, "quantization_status": "compressed",
            "ignore": ["lm_head"], "kv_cache_scheme": None, "global_compression_ratio": 1.5,
            "config_groups": {"group_0": group}}


def gptq(bits, group, version=1, **flags):
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": flags.get("act_order", False),
              "sym": flags.get("symmetric", False), "damp_percent": 0.01, "lm_head": False, "true_sequential": True,
              "model_name_or_path": "x", "meta": {"quantizer": ["a:1"]}}
    return config if version == 1 else config | {"checkpoint_format": "gptq_v2"}


BNB = {"quant_method": "bitsandbytes", "_load_in_4bit": True, "_load_in_8bit": False, "load_in_4bit": True,
       "load_in_8bit": False, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
       "bnb_4bit_use_double_quant": True, "llm_int8_enable_fp32_cpu_offload": False,
       "llm_int8_has_fp16_weight": False, "llm_int8_skip_modules": None, "llm_int8_threshold": 6.0}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "producer": {"name": "modelopt", "version": "0"},
            "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8, "type": "float"},
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 16, "type": "float"},
                                          "targets": ["Linear"]}}}

# name: (config of the method, writer of a matrix, its arguments); MLX is apart, as it quantizes embeddings.
CASES = {}
for bits, group in ((2, 128), (3, 32), (4, 128), (4, -1), (8, 64)):
    for version in (1, 2):
        for flags in ({"symmetric": True}, {}, {"act_order": True}):
            name = f"gptq v{version} {bits} bits, groups of {group} {' '.join(flags)}"
            CASES[name] = (gptq(bits, group, version, **flags), formats.gptq,
                           {"bits": bits, "group": 10**6 if group == -1 else group, "version": version, **flags})
for group in (32, 64, 128):
    CASES[f"awq, groups of {group}"] = (
        {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True,
         "modules_to_not_convert": None}, formats.awq, {"group": group})
for bits, group, scale_type in ((4, 32, "BF16"), (4, 128, "F16"), (4, 10**6, "BF16"), (8, 64, "F32"), (8, 10**6, "BF16")):
    for flags in ({}, {"symmetric": False}, {"act_order": True}):
        name = f"compressed-tensors packed, {bits} bits, groups of {group}, {scale_type} {' '.join(flags)}"
        said = {"group_size": group} if group < 10**6 else {"strategy": "channel", "group_size": None}
        CASES[name] = (compressed("pack-quantized", bits, **said), formats.compressed_packed,
                       {"bits": bits, "group": group, "scale_type": scale_type, **flags})
CASES["compressed-tensors packed, 4 bits, F32 zero points"] = (
    compressed("pack-quantized", 4, group_size=64), formats.compressed_packed,
    {"bits": 4, "group": 64, "scale_type": "F32", "symmetric": False})
for flags in ({}, {"groups": 2}, {"symmetric": False}, {"whole": True}, {"scale_type": "F32"}):
    CASES[f"compressed-tensors int8 {flags}"] = (compressed("int-quantized", 8), formats.compressed_int8, flags)
for method, config in (("fp8", {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}),
                       ("compressed", compressed("float-quantized", 8, type="float", strategy="block",
                                                 block_structure=[128, 128]))):
    suffix = ".weight_scale_inv" if method == "fp8" else ".weight_scale"
    CASES[f"fp8 by blocks, {method}"] = (config, formats.float8, {"block": (128, 128), "suffix": suffix})
CASES |= {
    "fp8 by other blocks": ({"quant_method": "fp8", "weight_block_size": [32, 64]}, formats.float8,
                            {"block": (32, 64), "scale_type": "BF16"}),
    "fp8 by channel": (compressed("float-quantized", 8, type="float"), formats.float8,
                       {"block": (1, 10**6), "suffix": ".weight_scale", "scale_type": "BF16"}),
    "fp8 of fbgemm": ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]},
                      formats.float8, {"block": (1, 10**6), "suffix": ".weight_scale"}),
    "fp8 by tensor": ({"quant_method": "fp8", "activation_scheme": "static"}, formats.float8, {}),
    "fp8 of ModelOpt": (MODELOPT | {"quant_algo": "FP8"}, formats.float8, {"suffix": ".weight_scale"}),
    "e5m2": ({"quant_method": "fp8"}, formats.float8, {"e5m2": True}),
    "nvfp4 of ModelOpt": (MODELOPT, formats.nvfp4, {"divides": False}),
    "nvfp4 of compressed-tensors": (compressed("nvfp4-pack-quantized", 4, type="float", group_size=16), formats.nvfp4,
                                    {"divides": True}),
    "nf4": (BNB, formats.bnb_table, {}),
    "nf4 without nesting": (BNB | {"bnb_4bit_use_double_quant": False}, formats.bnb_table,
                            {"nested": False, "block": 128}),
    "fp4": (BNB | {"bnb_4bit_quant_type": "fp4"}, formats.bnb_table, {"kind": "fp4"}),
    "LLM.int8()": (BNB | {"load_in_4bit": False, "load_in_8bit": True}, formats.bnb_int8, {}),
}
MLX_CASES = [(bits, group, scale_type) for bits, group, scale_type in
             ((2, 32, "BF16"), (3, 64, "F16"), (4, 64, "BF16"), (4, 32, "F16"), (4, 128, "F32"), (5, 64, "BF16"),
              (6, 64, "BF16"), (8, 32, "BF16"), (8, 64, "F16"))]


def sizes_of(family, rng):
    """Those of random_checkpoints.py, such as whole blocks fill."""
    head_dim = int(rng.choice([32, 64, 128]))
    group = int(rng.choice([1, 2])) if head_dim < 128 else 1
    heads = int(rng.choice([128, 256])) // head_dim
    sizes = random_dims(family, rng) | {
        "hidden": int(rng.choice([128, 256])), "head_dim": head_dim, "heads": heads, "kv_heads": max(1, heads // group),
        "ffn": int(rng.choice([128, 256, 384])), "dense_ffn": 128, "layers": 2 if family == "llada2" else 1}
    if family == "llada2":
        sizes |= {"groups": 1, "groups_per_token": 1, "experts": 3, "experts_per_token": 2, "shared": 1, "first_dense": 1}
    return sizes


def bits_of_bf16(values):
    return ("BF16", safetensors_io.bf16_bits(values))


def store(tensors, is_quantized, write):
    """({name: (type, array)}, {name: weights}) with each matrix that is quantized in the writer's format."""
    stored, weights = {}, {}
    for name, values in tensors.items():
        if is_quantized(name, values):
            parts, weights[name] = write(values)
            module = name.removesuffix(".weight")
            stored |= {module + suffix: part for suffix, part in parts.items()}
        else:
            stored[name] = bits_of_bf16(values)
            weights[name] = safetensors_io.round_to(values, "bf16")
    return stored, weights


def spread_of(values):
    return float(np.std(values))


def run(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr.strip())
    return done.stdout


def packed_weights(binary, folder):
    """{module: float32 weights} of a copy that `lacuna pack` writes in f32."""
    out = folder.with_name(folder.name + "-packed")
    run(binary, "pack", "-m", folder, "--out", out, "--dtype", "f32", "--weights", "f32", "--head-weights", "f32")
    weights = {}
    for file in out.glob("*.safetensors"):
        tensors = safetensors_io.read_typed(file)
        for name, (_, values) in tensors.items():
            if not name.endswith(".weight_panels"):
                continue
            module = name.removesuffix(".weight_panels")
            rows, inputs, bits = tensors[module + ".weight_format"][1][:3]
            assert bits == 32, name
            panels = values.view("<f4").reshape(-1, inputs, PANEL)
            weights[module] = panels.swapaxes(1, 2).reshape(-1, inputs)[:rows]
    return weights


def logits(binary, folder, request, *flags):
    path, out = folder / "request.json", folder / "out.npy"
    path.write_text(json.dumps(request))
    run(binary, "logits", "-m", folder, "--request", path, "--out", out, "--threads", "1", *flags)
    return np.load(out)


def compare(report, binary, name, folder, weights, request, expected):
    """Every weight, the logits of f32 weights and of the format that the binary chooses, and the memory it predicts."""
    made = packed_weights(binary, folder)
    for module, values in made.items():
        wanted = weights.get(module + ".weight", weights.get(module))
        report.check(f"{name}: weights of {module}", np.array_equal(values, wanted.reshape(values.shape)),
                     f"{np.sum(values != wanted.reshape(values.shape))} of {values.size} differ")
    for flags in ("--dtype f32", "--dtype f32 --weights f32 --head-weights f32"):
        found = logits(binary, folder, request, *flags.split())
        difference = np.abs(found - expected).max() / np.abs(expected).max()
        report.check(f"{name}: logits with {flags}", difference <= TOLERANCE, f"differ by {difference:.1e} of the largest")
    predicted = json.loads(run(binary, "inspect", "-m", folder, "--json"))["memory"]["run"]["weights_bytes"]
    loaded = json.loads(run(binary, "bench", "load", "-m", folder, "--json"))
    matrices = loaded["weight_bytes"] - 4 * sum(values.size for name, values in weights.items() if name.endswith(".bias"))
    report.check(f"{name}: memory is predicted", predicted == matrices, f"{predicted} bytes instead of {matrices}")


def tokens_of(model, vocab, rng):
    """(tokens, logits) with no expert chosen so narrowly that rounding decides."""
    while True:
        tokens = rng.integers(0, vocab, 12).tolist()
        model.router_gap = np.inf
        expected = model.logits(tokens)
        if model.router_gap > ROUTER_TOLERANCE:
            return tokens, expected


def check_case(report, binary, name, family, config_of_method, write, seed, quantizes_ends=False, stacks=False):
    rng = np.random.default_rng([seed, 71])
    sizes = sizes_of(family, rng)
    config = make_config(family, sizes)
    if family == "llada2":
        config["mask_token_id"] = special_ids(family, sizes["vocab"])[MASK[family]]
    config |= config_of_method
    tensors = make_tensors(family, sizes, rng)

    def is_quantized(tensor, values):
        ends = ("embed_tokens.weight", "word_embeddings.weight", "lm_head.weight", "mlp.gate.weight",
                "transformer.wte.weight", "transformer.ff_out.weight")
        return values.ndim == 2 and (quantizes_ends or not tensor.endswith(ends))

    stored, weights = store(tensors, is_quantized, lambda values: write(*values.shape, spread_of(values), rng))
    model = Model(config, {tensor: np.float64(values) for tensor, values in weights.items()})
    tokens, expected = tokens_of(model, sizes["vocab"], rng)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        safetensors_io.write_typed(folder / "model.safetensors", stack_experts(stored) if stacks else stored)
        compare(report, binary, name, folder, weights, {"tokens": tokens}, expected)


def stack_experts(stored):
    """MLX's tensors: the experts of a layer in one tensor of three dimensions, under another name."""
    result, stacks = {}, {}
    for name, (kind, values) in stored.items():
        before, dot, after = name.partition(".experts.")
        if not dot:
            result[name] = (kind, values)
            continue
        index, _, rest = after.partition(".")
        stacks.setdefault(f"{before}.switch_mlp.{rest}", {})[int(index)] = (kind, values)
    for name, parts in stacks.items():
        result[name] = (parts[0][0], np.stack([parts[index][1] for index in range(len(parts))]))
    return result


def gemma_config(rng):
    config = random_diffusion_gemma.make_config(rng)
    text = config["text_config"]
    text |= {"hidden_size": 64, "intermediate_size": 64, "moe_intermediate_size": int(rng.choice([32, 64])),
             "head_dim": 32}
    if "per_layer_config" in text:
        for own in text["per_layer_config"].values():
            own["head_dim"] = 32
    else:
        text["global_head_dim"] = 32
    return config


def check_gemma(report, binary, kind, seed):
    """The two copies of DiffusionGemma that are downloaded most: MLX's with 4 and 8 bits, and NVIDIA's, whose experts are
    tensors of their own."""
    rng = np.random.default_rng([seed, 72])
    config = gemma_config(rng)
    text = config["text_config"]
    tensors = random_diffusion_gemma.make_tensors(config, 20.0, rng)
    random_diffusion_gemma.sharpen(config, tensors, rng)
    tensors = {name: np.asarray(values) for name, values in tensors.items() if "vision" not in name}
    tensors.pop("lm_head.weight", None)
    stored, weights, sizes = {}, {}, {}
    for name, values in tensors.items():
        module = name.removesuffix(".weight")
        is_expert, is_matrix = ".experts." in name, values.ndim > 1
        if kind == "mlx" and is_matrix:
            bits = 4 if is_expert or "self_conditioning" in name else 8
            if bits == 8:
                sizes[module] = {"group_size": 32, "bits": 8}
            rows = values.reshape(-1, values.shape[-1])
            parts, made = formats.mlx(*rows.shape, spread_of(values), rng, bits, 32)
            for suffix, (stored_type, part) in parts.items():
                stored[module + suffix] = (stored_type, part.reshape(*values.shape[:-1], -1))
            weights[name] = made.reshape(values.shape)
        elif kind == "nvfp4" and is_expert:
            made = []
            for expert, rows in enumerate(values):
                halves = np.split(rows, 2) if "gate_up" in name else [rows]
                of_parts = []
                for part, half in zip(("gate_proj", "up_proj") if "gate_up" in name else ("down_proj",), halves):
                    parts, dense = formats.nvfp4(*half.shape, spread_of(values), rng, divides=False)
                    prefix = f"{name.rpartition('.')[0]}.{expert}.{part}"
                    stored |= {prefix + suffix: tensor for suffix, tensor in parts.items()}
                    weights[f"{prefix}.weight"] = dense
                    of_parts.append(dense)
                made.append(np.concatenate(of_parts))
            weights[name] = np.stack(made)
        else:
            stored[name] = bits_of_bf16(values)
            weights[name] = safetensors_io.round_to(values, "bf16")
    quantization = {"group_size": 32, "bits": 4, "mode": "affine", **sizes}
    if kind == "mlx":
        config |= {"quantization": quantization, "quantization_config": quantization}
    else:
        config["quantization_config"] = MODELOPT | {"ignore": ["lm_head", "*mlp*", "*router*", "*self_attn*"]}
    model = diffusion_gemma.Model(config, {name: np.float64(values) for name, values in weights.items()})
    while True:
        begin = int(rng.integers(5, 20))
        tokens = rng.integers(0, text["vocab_size"], begin + config["canvas_length"]).tolist()
        model.router_gap = np.inf
        expected = model.logits(tokens, begin)
        if model.router_gap > ROUTER_TOLERANCE:
            break
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        safetensors_io.write_typed(folder / "model.safetensors", stored)
        compare(report, binary, f"DiffusionGemma {kind} --seed {seed}", folder, weights,
                {"tokens": tokens, "canvas_begin": begin}, expected)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="names of cases that contain this")
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    report = Report()

    def case(name, check, *details, **more):
        if arguments.only not in name:
            return
        if not arguments.quiet:
            print(name, flush=True)
        try:
            check(report, arguments.binary, *details, **more)
        except Refused as refusal:
            report.check(name, False, f"is refused: {refusal}")

    for seed in range(arguments.seeds):
        for index, (name, (method, write, flags)) in enumerate(CASES.items()):
            family = ("qwen3", "llada", "dream", "llada2")[(index + seed) % 4]
            title = f"{name} in {family}"
            case(title, check_case, title, family, {"quantization_config": method},
                 lambda *matrix, w=write, f=flags: w(*matrix, **f), seed)
        for index, (bits, group, scale_type) in enumerate(MLX_CASES):
            family = ("qwen3", "llada2")[(index + seed) % 2]
            sizes = {"group_size": group, "bits": bits}
            title = f"mlx {bits} bits, groups of {group}, {scale_type} in {family}"
            case(title, check_case, title, family, {"quantization": sizes, "quantization_config": sizes},
                 lambda *matrix, b=bits, g=group, t=scale_type: formats.mlx(*matrix, b, g, t), seed,
                 quantizes_ends=True, stacks=family == "llada2")
        for kind in ("mlx", "nvfp4"):
            case(f"DiffusionGemma {kind}", check_gemma, kind, seed)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
