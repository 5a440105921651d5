"""Random matrices in the quantized formats that other programs publish, and their weights.

Each function takes (rows, inputs, spread, rng), where `spread` is about the standard deviation of the weights, and returns
({suffix of the tensor's name: (type, array)}, weights): what a file stores for a module, and the float32 weights that the
format's own description makes of it. Codes are drawn, not fitted, so every corner of a format occurs. Written from the
descriptions in docs/reference/quantized.md, and never from src/.
"""
import json

import numpy as np

from safetensors_io import bf16_bits, bf16_values


def e4m3_values():
    """float32 values of the 256 codes: four bits of exponent with bias 7, three of mantissa, NaN at all ones."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    values = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0**(exponent - 7.0))
    values[(codes & 127) == 127] = np.nan
    return np.where(codes >= 128, -values, values).astype(np.float32)


def e5m2_values():
    """float32 values of the 256 codes: the upper byte of an f16."""
    return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
# "QLoRA" (arXiv 2305.14314), appendix E.
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                0.7229568362236023, 1.0], np.float32)
FP4 = np.array([0, 0.0052083333, 0.6666667, 1, 0.3333333, 0.5, 0.1666667, 0.25,
                0, -0.0052083333, -0.6666667, -1, -0.3333333, -0.5, -0.1666667, -0.25], np.float32)


def packed(codes, bits):
    """Rows of integers as rows of 32-bit words, each integer above the one before it, across words where they do not fit."""
    rows, count = codes.shape
    all_bits = (codes[:, :, None].astype(np.uint8) >> np.arange(bits, dtype=np.uint8)) & 1
    stream = np.zeros((rows, -(-count * bits // 32) * 32), np.uint8)
    stream[:, :count * bits] = all_bits.reshape(rows, -1)
    return np.packbits(stream, axis=1, bitorder="little").view("<u4")


def floats(stored_type, values):
    """((type, array as stored), values as stored, float32)"""
    if stored_type == "BF16":
        bits = bf16_bits(values)
        return ("BF16", bits), bf16_values(bits)
    stored = np.asarray(values).astype("<f2" if stored_type == "F16" else "<f4")
    return (stored_type, stored), stored.astype(np.float32)


def scales_around(shape, largest, spread, rng):
    """Positive scales with which codes up to `largest` from the zero code have about this spread."""
    return spread / (0.6 * largest) * rng.uniform(0.5, 1.5, shape)


def by_group(values, inputs):
    """[rows, groups] for every input: [rows, inputs]."""
    return np.repeat(values, -(-inputs // values.shape[1]), axis=1)[:, :inputs]


def mlx(rows, inputs, spread, rng, bits, group, scale_type="BF16"):
    codes = rng.integers(0, 1 << bits, (rows, inputs))
    middle = ((1 << bits) - 1) / 2
    stored_scales, scales = floats(scale_type, scales_around((rows, inputs // group), middle, spread, rng))
    stored_biases, biases = floats(scale_type, -middle * scales * rng.uniform(0.8, 1.2, scales.shape))
    # In float64 the product is exact, and the sum nearly, so that this is rounded once.
    weights = by_group(scales, inputs).astype(np.float64) * codes + by_group(biases, inputs)
    return {".weight": ("U32", packed(codes, bits)), ".scales": stored_scales,
            ".biases": stored_biases}, weights.astype(np.float32)


def gptq(rows, inputs, spread, rng, bits, group, version=1, symmetric=False, act_order=False):
    codes = rng.integers(0, 1 << bits, (rows, inputs))
    groups = -(-inputs // group)
    middle = 1 << (bits - 1)
    zeros = np.full((rows, groups), middle) if symmetric else rng.integers(1, 1 << bits, (rows, groups))
    stored_scales, scales = floats("F16", scales_around((rows, groups), middle, spread, rng))
    g_idx = np.arange(inputs) // group
    if act_order:
        g_idx = rng.permutation(g_idx)
    weights = scales[:, g_idx] * (codes - zeros[:, g_idx]).astype(np.float32)
    tensors = {".qweight": ("I32", packed(codes, bits).T), ".qzeros": ("I32", packed((zeros - (version == 1)).T, bits)),
               ".scales": ("F16", stored_scales[1].T), ".g_idx": ("I32", g_idx.astype("<i4"))}
    return tensors, weights


def awq_words(codes):
    """[inputs, outputs] with eight outputs to a word: in the nibbles from below, outputs 0, 2, 4, 6, 1, 3, 5, 7."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    ordered = codes.reshape(len(codes), -1, 8)[:, :, order].reshape(len(codes), -1)
    return packed(ordered, 4)


def awq(rows, inputs, spread, rng, group):
    codes = rng.integers(0, 16, (rows, inputs))
    zeros = rng.integers(0, 16, (rows, inputs // group))
    stored_scales, scales = floats("F16", scales_around(zeros.shape, 8, spread, rng))
    weights = by_group(scales, inputs) * (codes - by_group(zeros, inputs)).astype(np.float32)
    return {".qweight": ("I32", awq_words(codes.T)), ".qzeros": ("I32", awq_words(zeros.T)),
            ".scales": ("F16", stored_scales[1].T)}, weights


def compressed_packed(rows, inputs, spread, rng, bits, group, symmetric=True, act_order=False, scale_type="BF16"):
    """Integers around 0, stored with 2^(bits - 1) added, as are zero points."""
    middle = 1 << (bits - 1)
    codes = rng.integers(0, 1 << bits, (rows, inputs))
    groups = -(-inputs // group)
    zeros = np.full((rows, groups), middle) if symmetric else rng.integers(0, 1 << bits, (rows, groups))
    stored_scales, scales = floats(scale_type, scales_around(zeros.shape, middle, spread, rng))
    g_idx = np.arange(inputs) // group
    tensors = {".weight_packed": ("I32", packed(codes, bits)), ".weight_scale": stored_scales,
               ".weight_shape": ("I64", np.array([rows, inputs], "<i8"))}
    if act_order:
        g_idx = rng.permutation(g_idx)
        tensors[".weight_g_idx"] = ("I32", g_idx.astype("<i4"))
    if not symmetric:
        tensors[".weight_zero_point"] = ("I32", packed(zeros.T, bits).T)
    return tensors, scales[:, g_idx] * (codes - zeros[:, g_idx]).astype(np.float32)


def compressed_int8(rows, inputs, spread, rng, groups=1, symmetric=True, scale_type="BF16", whole=False):
    codes = rng.integers(-128, 128, (rows, inputs))
    shape = (1, 1) if whole else (rows, groups)
    zeros = np.zeros(shape) if symmetric else rng.integers(-128, 128, shape)
    stored_scales, scales = floats(scale_type, scales_around(shape, 128, spread, rng))
    tensors = {".weight": ("I8", codes.astype(np.int8)), ".weight_scale": stored_scales}
    if whole:
        tensors[".weight_scale"] = (stored_scales[0], stored_scales[1].reshape(1))
        scales, zeros = (np.broadcast_to(values, (rows, 1)) for values in (scales, zeros))
    if not symmetric:
        tensors[".weight_zero_point"] = ("I8", np.resize(zeros, shape).astype(np.int8))
    return tensors, by_group(scales, inputs) * (codes - by_group(zeros, inputs)).astype(np.float32)


def float8(rows, inputs, spread, rng, block=None, suffix=".weight_scale_inv", scale_type="F32", e5m2=False):
    """block: (outputs, inputs) that share a scale; None: all of them."""
    table = e5m2_values() if e5m2 else e4m3_values()
    usual = np.flatnonzero(np.isfinite(table) & (np.abs(table) < 4))
    codes = rng.choice(usual, (rows, inputs)).astype(np.uint8)
    height, width = block or (rows, inputs)
    shape = (-(-rows // height), -(-inputs // width))
    stored_scales, scales = floats(scale_type, spread * rng.uniform(0.5, 1.5, shape))
    if block is None:
        stored_scales = (stored_scales[0], stored_scales[1].reshape(()))
    spread_scales = np.repeat(np.repeat(scales, height, axis=0), width, axis=1)[:rows, :inputs]
    return {".weight": ("F8_E5M2" if e5m2 else "F8_E4M3", codes), suffix: stored_scales}, table[codes] * spread_scales


def nvfp4(rows, inputs, spread, rng, divides):
    """divides: compressed-tensors, whose global scale divides; otherwise ModelOpt's, which multiplies."""
    codes = rng.integers(0, 16, (rows, inputs))
    scale_codes = rng.integers(0x38, 0x7f, (rows, inputs // 16)).astype(np.uint8)  # from 1 to 448
    block_scales = e4m3_values()[scale_codes]
    factor = np.float32(spread / 400 * rng.uniform(0.5, 1.5))
    pairs = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    if divides:
        divisor = np.float32(1) / factor
        scales = block_scales / divisor
        tensors = {".weight_packed": ("U8", pairs), ".weight_global_scale": ("F32", np.array([divisor], "<f4"))}
    else:
        scales = block_scales * factor
        tensors = {".weight": ("U8", pairs), ".weight_scale_2": ("F32", np.array(factor, "<f4")),
                   ".input_scale": ("F32", np.array(0.01, "<f4"))}
    tensors[".weight_scale"] = ("F8_E4M3", scale_codes)
    return tensors, E2M1[codes] * by_group(scales, inputs)


def bnb_table(rows, inputs, spread, rng, kind="nf4", nested=True, block=64):
    codes = rng.integers(0, 16, rows * inputs)
    table = NF4 if kind == "nf4" else FP4
    blocks = -(-rows * inputs // block)
    state = {"quant_type": kind, "blocksize": block, "dtype": "bfloat16", "shape": [rows, inputs]}
    even = np.append(codes, 0)[:2 * (-(-len(codes) // 2))]
    tensors = {".weight": ("U8", (even[::2] << 4 | even[1::2]).astype(np.uint8).reshape(-1, 1)),
               ".weight.quant_map": ("F32", table)}
    if nested:
        nested_map = np.sort(rng.uniform(-1, 1, 256)).astype("<f4")
        nested_scales = (spread * rng.uniform(0.2, 1, -(-blocks // 256))).astype("<f4")
        offset = np.float32(2 * spread)
        scale_codes = rng.integers(0, 256, blocks).astype(np.uint8)
        scales = nested_map[scale_codes] * np.repeat(nested_scales, 256)[:blocks] + offset
        tensors |= {".weight.absmax": ("U8", scale_codes), ".weight.nested_absmax": ("F32", nested_scales),
                    ".weight.nested_quant_map": ("F32", nested_map)}
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(offset)}
    else:
        scales = (2 * spread * rng.uniform(0.5, 1.5, blocks)).astype("<f4")
        tensors[".weight.absmax"] = ("F32", scales)
    text = np.frombuffer(json.dumps(state).encode(), np.uint8)
    tensors[f".weight.quant_state.bitsandbytes__{kind}"] = ("U8", text)
    return tensors, (table[codes] * np.repeat(scales, block)[:len(codes)]).reshape(rows, inputs)


def bnb_int8(rows, inputs, spread, rng):
    codes = rng.integers(-127, 128, (rows, inputs))
    largest = (2 * spread * rng.uniform(0.5, 1.5, rows)).astype("<f4")
    tensors = {".weight": ("I8", codes.astype(np.int8)), ".SCB": ("F32", largest),
               ".weight_format": ("U8", np.array(0, np.uint8))}
    return tensors, (largest / np.float32(127))[:, None] * codes.astype(np.float32)
