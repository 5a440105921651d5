"""Checks rotations.py: by hand, and against the transformers library where it is installed."""
import math

import numpy as np

from rotations import frequencies, settings


def test_forms_mean_the_same():
    inner = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0}
    wanted = settings({"rope_parameters": inner})
    assert settings({"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 4.0}}) | {"rope_type": "yarn"} == wanted
    assert settings({"rope_parameters": {"full_attention": inner, "sliding_attention": {"rope_theta": 3}}}) == wanted
    assert settings({"rope_theta": 7.0, "rope_scaling": False}) == {"rope_theta": 7.0, "type": "default"}


def test_by_hand():
    plain, scale = frequencies({"type": "default", "rope_theta": 1e4}, 8, 64)
    assert np.allclose(plain, [1, 0.1, 0.01, 0.001]) and scale == 1
    linear, _ = frequencies({"type": "linear", "rope_theta": 1e4, "factor": 4.0}, 8, 64)
    assert np.allclose(linear, plain / 4)
    within, _ = frequencies({"type": "dynamic", "rope_theta": 1e4, "factor": 4.0}, 8, 64, 64)
    assert np.allclose(within, plain)
    beyond, _ = frequencies({"type": "dynamic", "rope_theta": 1e4, "factor": 4.0}, 8, 64, 128)
    assert np.isclose(beyond[0], 1) and np.isclose(beyond[-1], plain[-1] / 5)  # 4 * 2 - 3
    llama3 = {"type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 256}
    got, _ = frequencies(llama3, 8, 1024)
    turns = 256 * 0.1 / (2 * math.pi)  # 4.07 in the second pair, 0.41 in the third
    assert turns > 4 and np.allclose(got, [1, 0.1, 0.01 / 8, 0.001 / 8])


def test_against_transformers():
    try:
        from transformers import LlamaConfig
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    except ImportError:
        print("transformers is not installed: skipped")
        return
    rng = np.random.default_rng(3)
    for case in range(200):
        kind = ("linear", "dynamic", "yarn", "llama3")[case % 4]
        rope = {"rope_type": kind, "rope_theta": float(rng.choice([1e4, 5e5, 1e6])), "factor": float(rng.choice([1, 2, 7.5, 32]))}
        if kind in ("yarn", "llama3"):
            rope["original_max_position_embeddings"] = int(rng.choice([64, 2048, 8192]))
        if kind == "llama3":
            rope |= {"low_freq_factor": 1.0, "high_freq_factor": float(rng.choice([2, 4]))}
        if kind == "yarn":
            extra = {"beta_fast": 16.0, "beta_slow": 0.5, "truncate": False, "mscale": 0.7, "mscale_all_dim": 1.1,
                     "attention_factor": 1.3}
            rope |= {key: value for key, value in extra.items() if rng.random() < 0.5}
        dim, positions = int(rng.choice([32, 64, 128])), 16384
        config = LlamaConfig(hidden_size=4 * dim, num_attention_heads=4, head_dim=dim, max_position_embeddings=positions,
                             rope_parameters=dict(rope))
        length = int(rng.choice([100, 40000]))
        wanted, wanted_scale = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
        got, scale = frequencies(settings({"rope_parameters": rope}), dim, positions, length)
        assert np.allclose(got, wanted.numpy(), rtol=2e-5, atol=0), (rope, dim)
        assert np.isclose(scale, wanted_scale), rope


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(name, "ok")
