"""Tests of adapt.py that need no model."""
import json
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import adapt  # noqa: E402


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Adapt(unittest.TestCase):
    def test_asks_no_question_twice_and_measures_with_others_than_it_trains_with(self):
        prompts = adapt.synthetic_prompts(None)
        self.assertEqual(len(prompts), len(set(prompts)))
        self.assertEqual(prompts[:50], adapt.synthetic_prompts(50))
        self.assertGreaterEqual(len(prompts), 2400 + 200)

    def test_counts_the_tokens_before_the_first_difference(self):
        self.assertEqual(adapt.shared_start([1, 2, 3], [1, 2, 4, 5]), 2)
        self.assertEqual(adapt.shared_start([1, 2], [1, 2, 4]), 2)
        self.assertEqual(adapt.shared_start([], [1]), 0)

    def test_keeps_adapters_rounded_to_the_nearest_bf16(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "f32.safetensors", Path(folder) / "bf16.safetensors"
            write_safetensors(source, {"a": [1.0, -2.5, 1.00390625], "b": [3.0]})
            adapt.keep_rounded(source, target)
            data = target.read_bytes()
            end = 8 + int.from_bytes(data[:8], "little")
            header = json.loads(data[8:end])
            self.assertEqual(header["a"], {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]})
            self.assertEqual(header["b"]["data_offsets"], [6, 8])
            self.assertEqual(header["__metadata__"], {"format": "pt"})
            # 1 + 2^-8 lies between 1 and 1 + 2^-7, and the even one is 1.
            self.assertEqual(struct.unpack("<4H", data[end:]), (0x3f80, 0xc020, 0x3f80, 0x4040))

    def test_counts_the_tokens_of_earlier_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            curve = Path(folder) / "curve.csv"
            self.assertEqual(adapt.count_tokens(curve), 0)
            curve.write_text("tokens,loss\n100,3\n250,2\n")
            self.assertEqual(adapt.count_tokens(curve), 250)


if __name__ == "__main__":
    unittest.main()
