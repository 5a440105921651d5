"""Adapters as PEFT saves them, written from its file format: how one is merged, and random ones.

    W += scaling B A        scaling = lora_alpha / r, with use_rslora lora_alpha / sqrt(r)
    W = m (W + scaling B A) / |W + scaling B A|    with use_dora, by rows of W
    embeddings: W += scaling (B A)^T with A [r, vocab] and B [hidden, r]
    other tensors of the file take the place of the model's

rank_pattern and alpha_pattern have names of modules, or regular expressions for them, as keys; the first that fits counts.
"""
import json
import re
from pathlib import Path

import numpy as np

import safetensors_io

PREFIX = "base_model.model."


def fitting(patterns, module, usual):
    """The value of the first key that is the module's name or fits what follows a dot in it."""
    return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module)), usual)


def merge(tensors, adapter_config, adapter, scale=1.0):
    """{name: array} with an adapter {name: array} merged, in float64."""
    out = {name: np.asarray(values, dtype=np.float64) for name, values in tensors.items()}
    adapter = {name.removeprefix(PREFIX): np.asarray(values, dtype=np.float64) for name, values in adapter.items()}
    for name, values in adapter.items():
        if ".lora_" not in name:
            assert out.get(name, values).shape == values.shape
            out[name] = values
    for name, a in adapter.items():
        kind = next((kind for kind in (".lora_A.weight", ".lora_embedding_A") if name.endswith(kind)), None)
        if kind is None:
            continue
        module = name.removesuffix(kind)
        b = adapter[module + kind.replace("_A", "_B")]
        rank = fitting(adapter_config.get("rank_pattern", {}), module, adapter_config["r"])
        assert rank == a.shape[0] == b.shape[1]
        alpha = fitting(adapter_config.get("alpha_pattern", {}), module, adapter_config["lora_alpha"])
        scaling = scale * alpha / (np.sqrt(rank) if adapter_config.get("use_rslora") else rank)
        weight = module + ".weight"
        merged = out[weight] + scaling * ((b @ a).T if "embedding" in kind else b @ a)
        if adapter_config.get("use_dora"):
            magnitude = adapter[module + ".lora_magnitude_vector"]
            merged *= (magnitude / np.linalg.norm(merged, axis=1))[:, None]
        out[weight] = merged
        if module + ".lora_B.bias" in adapter:
            out[module + ".bias"] = out[module + ".bias"] + scaling * adapter[module + ".lora_B.bias"]
    return out


def random_adapter(tensors, embedding, rng, spares=(), whole=()):
    """(adapter_config, adapter tensors as saved) for a model {name: array}.

    embedding: name of the module of the embedding; None: it is not adapted. spares: modules that are no linear layers.
    whole: modules that may be replaced as a whole.
    """
    modules = [name.removesuffix(".weight") for name, values in tensors.items()
               if values.ndim == 2 and name.endswith(".weight")]
    linear = [module for module in modules if module != embedding and module not in spares]
    kinds = sorted({module.rsplit(".", 1)[-1] for module in linear})
    chosen = set(rng.choice(kinds, int(rng.integers(1, len(kinds) + 1)), replace=False).tolist())
    config = {"peft_type": "LORA", "auto_mapping": None, "base_model_name_or_path": "somewhere", "bias": "none",
              "fan_in_fan_out": False, "inference_mode": True, "init_lora_weights": True, "layers_pattern": None,
              "layers_to_transform": None, "lora_alpha": int(rng.integers(1, 33)), "lora_dropout": 0.05,
              "modules_to_save": None, "r": int(rng.integers(1, 9)), "rank_pattern": {}, "alpha_pattern": {},
              "target_modules": sorted(chosen), "task_type": None, "use_rslora": bool(rng.random() < 0.3),
              "use_dora": bool(rng.random() < 0.3)}
    if rng.random() < 0.2:
        config["target_modules"] = r".*\.(" + "|".join(sorted(chosen)) + ")"
    for kind in chosen:
        if rng.random() < 0.3:
            config["rank_pattern"][kind] = int(rng.integers(1, 9))
        if rng.random() < 0.3:
            config["alpha_pattern"][rf"layers\.\d+\..*{kind}" if rng.random() < 0.3 else kind] = float(rng.uniform(1, 20))
    out = {}
    for module in linear:
        if module.rsplit(".", 1)[-1] not in chosen or "." not in module and rng.random() < 0.5:
            continue
        outputs, inputs = tensors[module + ".weight"].shape
        rank = fitting(config["rank_pattern"], module, config["r"])
        size = float(np.std(tensors[module + ".weight"]))
        path = PREFIX + module
        out[path + ".lora_A.weight"] = rng.standard_normal((rank, inputs)) / np.sqrt(rank)
        out[path + ".lora_B.weight"] = rng.standard_normal((outputs, rank)) * size / config["lora_alpha"] * 2
        if config["use_dora"]:
            norms = np.linalg.norm(tensors[module + ".weight"], axis=1)
            out[path + ".lora_magnitude_vector"] = norms * rng.uniform(0.8, 1.2, outputs)
        if config["bias"] != "none" and module + ".bias" in tensors:
            out[path + ".bias"] = tensors[module + ".bias"] + 0.1 * rng.standard_normal(outputs)
    if embedding and rng.random() < 0.3 and not config["use_dora"]:
        vocab, hidden = tensors[embedding + ".weight"].shape
        config["target_modules"] = None
        out[PREFIX + embedding + ".lora_embedding_A"] = rng.standard_normal((config["r"], vocab))
        out[PREFIX + embedding + ".lora_embedding_B"] = rng.standard_normal((hidden, config["r"])) * 0.1 / config["lora_alpha"]
    return config, out


def add_replacements(config, out, tensors, rng, modules):
    """Replaces the tensors of some modules as a whole, and biases."""
    saved = [module for module in modules if rng.random() < 0.5]
    for module in saved:
        values = tensors[module + ".weight"]
        out[PREFIX + module + ".weight"] = values * rng.uniform(0.8, 1.2, values.shape)
    config["modules_to_save"] = saved or None
    biases = [name for name in tensors if name.endswith(".bias")]
    if biases and rng.random() < 0.5:
        config["bias"] = "all"
        for name in biases:
            out[PREFIX + name] = tensors[name] + 0.1 * rng.standard_normal(tensors[name].shape)


def write(folder, config, tensors, dtype):
    """Writes an adapter and returns its tensors as they are stored."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    tensors = {name: np.asarray(values, dtype=np.float32) for name, values in tensors.items()}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    safetensors_io.write(folder / "adapter_model.safetensors", tensors, dtype)
    return {name: safetensors_io.round_to(values, dtype) for name, values in tensors.items()}
