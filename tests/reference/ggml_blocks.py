"""Random blocks of every quantized type of GGUF files, and their weights.

`dequantize` is the package gguf's, and for Q1_0, which it does not read yet, the definition in ggml-quants.c.
"""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

PLAIN = (Type.F32, Type.F16, Type.BF16)
# Where a block has its f16 numbers, all of which share one spread. Everything else in a block may be anything.
NUMBERS = {Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q2_K: [80, 82], Type.Q3_K: [108],
           Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.IQ1_S: [0], Type.IQ1_M: [], Type.IQ2_XXS: [0], Type.IQ2_XS: [0],
           Type.IQ2_S: [0], Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.TQ1_0: [52], Type.TQ2_0: [64],
           Type.Q1_0: [0], Type.MXFP4: [], Type.NVFP4: []}
QUANTIZED = tuple(NUMBERS)


def dequantize(rows, stored_type):
    if stored_type != Type.Q1_0:
        return gguf.quants.dequantize(rows, stored_type)
    blocks = rows.reshape(-1, 18)
    scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    signs = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
    return np.where(signs, scales, -scales).reshape(*rows.shape[:-1], -1)


def put_numbers(blocks, stored_type, numbers):
    """Writes f16 numbers, one for each block."""
    halves = numbers.astype("<f2").view(np.uint8).reshape(-1, 2)
    for at in NUMBERS[stored_type]:
        blocks[:, at:at + 2] = halves
    if stored_type == Type.IQ1_M:  # four bits in each of four words
        words = blocks[:, 48:56].copy().view("<u2")
        bits = numbers.astype("<f2").view("<u2").reshape(-1, 1)
        blocks[:, 48:56] = ((words & 0x0fff) | (bits >> [0, 4, 8, 12] & 15) << 12).astype("<u2").view(np.uint8)


def random_blocks(shape, spread, stored_type, rng):
    """Rows of blocks whose weights have about the standard deviation `spread`. shape: of the weights."""
    size, bytes_of_block = gguf.GGML_QUANT_SIZES[stored_type]
    count = int(np.prod(shape)) // size
    blocks = rng.integers(0, 256, (count, bytes_of_block), dtype=np.uint8)
    if stored_type in (Type.MXFP4, Type.NVFP4):  # scales of eight bits: an exponent, or e4m3
        middle = int(np.log2(spread)) + 127 - 2 if stored_type == Type.MXFP4 else 8 * (int(np.log2(spread)) + 5)
        num_scales = 1 if stored_type == Type.MXFP4 else 4
        blocks[:, :num_scales] = rng.integers(middle - 2, middle + 1, (count, num_scales))
    else:
        put_numbers(blocks, stored_type, np.ones(count))
        of_ones = np.std(dequantize(blocks, stored_type))
        put_numbers(blocks, stored_type, spread / of_ones * rng.uniform(0.7, 1.3, count))
    return blocks.reshape(*shape[:-1], -1)
