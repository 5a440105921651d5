"""Writes tests/golden/ggml_blocks.gguf: random blocks of every quantized type next to their weights.

    python make_golden_ggml.py

Tensor NAME.blocks is one row of 256 weights in the type NAME, NAME.values the package's dequantization of it in F32.
"""
from pathlib import Path

import gguf
import numpy as np
from ggml_blocks import QUANTIZED, dequantize, random_blocks


def main():
    rng = np.random.default_rng(59)
    writer = gguf.GGUFWriter(Path(__file__).parents[1] / "golden" / "ggml_blocks.gguf", "blocks")
    for stored_type in QUANTIZED:
        blocks = random_blocks((1, 256), 1.0, stored_type, rng)
        writer.add_tensor(f"{stored_type.name}.blocks", blocks, raw_dtype=stored_type)
        writer.add_tensor(f"{stored_type.name}.values", dequantize(blocks, stored_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
