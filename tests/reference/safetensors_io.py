"""A small reader and writer of safetensors files that knows bf16, which numpy lacks.

A file is: u64 little-endian length of the header, the header as JSON
{name: {"dtype", "shape", "data_offsets": [begin, end]}}, then the bytes of the tensors.
"""
import json
import struct
from pathlib import Path

import numpy as np

NAMES = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def bf16_bits(values):
    """Upper 16 bits of float32, rounded to nearest, ties to even."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bf16_values(bits):
    """float32 values of bf16 bit patterns."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def round_to(values, dtype):
    """Rounds float values as if they were stored as `dtype` (f32, f16 or bf16)."""
    values = np.asarray(values, dtype=np.float32)
    if dtype == "bf16":
        return bf16_values(bf16_bits(values))
    if dtype == "f16":
        return values.astype(np.float16).astype(np.float32)
    return values


def write(path, tensors, dtype):
    """Writes {name: float array} with every tensor stored as `dtype`; returns the bytes of the tensors."""
    header, chunks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in tensors.items():
        if dtype == "bf16":
            data = bf16_bits(values).astype("<u2").tobytes()
        else:
            data = np.asarray(values).astype("<f2" if dtype == "f16" else "<f4").tobytes()
        header[name] = {"dtype": NAMES[dtype], "shape": list(np.shape(values)),
                        "data_offsets": [offset, offset + len(data)]}
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))
    return offset


def write_typed(path, tensors):
    """Writes {name: (type as the format spells it, array)}: BF16 and floats of 8 bits as arrays of their bits."""
    header, chunks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, (stored_type, values) in tensors.items():
        data = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": stored_type, "shape": list(np.shape(values)),
                        "data_offsets": [offset, offset + len(data)]}
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def read_typed(path):
    """{name: (type, array of its bits)}; what write_typed() takes."""
    bits = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U32": "<u4",
            "I8": "i1"}
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end], bits.get(entry["dtype"], "u1"))
        tensors[name] = (entry["dtype"], values.reshape(entry["shape"]))
    return tensors


def read(path):
    """{name: float64 array} of one file."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin:8 + length + end]
        if entry["dtype"] == "BF16":
            values = bf16_values(np.frombuffer(raw, "<u2"))
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2", "F64": "<f8"}[entry["dtype"]])
        tensors[name] = values.astype(np.float64).reshape(entry["shape"])
    return tensors


def read_folder(folder):
    """{name: float64 array} of a checkpoint folder: one file, or the files its index names."""
    folder = Path(folder)
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read(folder / "model.safetensors")
    tensors = {}
    for file in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        tensors.update(read(folder / file))
    return tensors
