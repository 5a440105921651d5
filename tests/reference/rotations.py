"""Frequencies of rotary embeddings in float64, from what a config.json says of them.

Plain, linear, dynamic (NTK), YaRN (arXiv 2309.00071) and Llama 3 scaling, as modeling_rope_utils of transformers 5 defines
them. A file says it at the top level (`rope_theta`, `rope_scaling`), in `rope_parameters`, or in one object for each kind of
layers.
"""
import math

import numpy as np


def settings(config):
    """All keys of the rotation in one dictionary; inner objects are asked first."""
    merged = {key: config[key] for key in ("rope_theta", "partial_rotary_factor") if config.get(key) is not None}
    for name in ("rope_scaling", "rope_parameters"):
        given = config.get(name) or {}
        kinds = given.get("full_attention") or {}
        merged |= {key: value for key, value in (given | kinds).items()
                   if value is not None and not isinstance(value, dict)}
    merged["type"] = merged.get("rope_type", merged.get("type", "default"))
    return merged


def frequencies(rope, dim, max_positions, length=0):
    """(radians per position of each pair, factor of cos and sin).

    rope           as settings() gives it
    dim            dimensions of a head that turn
    max_positions  max_position_embeddings
    length         of the sequence; dynamic scaling alone looks at it
    """
    theta, kind, factor = rope.get("rope_theta", 1e4), rope["type"], rope.get("factor", 1.0)
    if kind == "dynamic":
        stretched = max(length, max_positions) / max_positions
        theta = theta * (factor * stretched - (factor - 1)) ** (dim / (dim - 2))
    plain = theta ** (-np.arange(0, dim, 2) / dim)
    if kind in ("default", "dynamic"):
        return plain, 1.0
    if kind == "linear":
        return plain / factor, 1.0
    old = rope.get("original_max_position_embeddings", max_positions)
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = old * plain / (2 * math.pi)  # in the old context
        share = np.clip((turns - low) / (high - low), 0, 1)
        return plain * (share + (1 - share) / factor), 1.0
    if kind != "yarn":
        raise ValueError(f"a rotation without a reference here: {kind}")
    return _yarn(rope, plain, dim, theta, factor, old)


def _yarn(rope, plain, dim, theta, factor, old):
    def pair(turns):
        return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(theta))

    def growth(mscale):
        return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1

    low, high = pair(rope.get("beta_fast") or 32), pair(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    slow = np.clip((np.arange(dim // 2) - low) / ((high - low) or 0.001), 0, 1)
    scale = rope.get("attention_factor")
    if scale is None:
        mscale, of_all = rope.get("mscale"), rope.get("mscale_all_dim")
        scale = growth(mscale) / growth(of_all) if mscale and of_all else growth(1)
    return plain * ((1 - slow) + slow / factor), scale
