"""Writes a copy of a checkpoint with Gaussian noise on its matrices, for experiments that need a worse model.

    python tools/weaken_model.py models/mini-qwen build/weak-qwen --noise 0.48

Noise is relative to each matrix's standard deviation; embedding, head and norms stay as they are. The same seed gives the
same files. Needs numpy.
"""

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "reference"))
import safetensors_io  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder with one model.safetensors")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--noise", type=float, required=True, help="standard deviations of each matrix")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(arguments.model, arguments.out)
    file = arguments.out / "model.safetensors"
    tensors = safetensors_io.read(file)
    rng = np.random.default_rng(arguments.seed)
    for name in sorted(tensors):
        values = tensors[name]
        if values.ndim == 2 and "embed" not in name and "lm_head" not in name:
            tensors[name] = values + arguments.noise * values.std() * rng.standard_normal(values.shape)
    safetensors_io.write(file, tensors, "bf16")


if __name__ == "__main__":
    main()
