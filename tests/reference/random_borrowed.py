"""Small random checkpoints of models that are published under the class of another family."""
import json
from pathlib import Path

import numpy as np

from models import Model
from random_checkpoints import MASK, make_checkpoint, share_embeddings, special_ids


def add_keys(folder, **keys):
    """Writes more keys to config.json."""
    file = Path(folder) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys, indent=2) + "\n")


def make_sdlm_checkpoint(folder, seed):
    """Writes a small SDLM without a tokenizer and returns its reference Model.

    The keys are those of SDLM-32B-D4's config.json, of which the first files misspell one. In every other checkpoint the mask may
    win, in three of four an end token. Every fourth has few positions.
    """
    rng = np.random.default_rng([seed, 101])
    vocab = 112
    ids = special_ids("sdar_moe", vocab)
    mask, end, turn = ids[MASK["sdar_moe"]], ids["<|endoftext|>"], ids["<|im_end|>"]
    block, strength = int(rng.integers(2, 9)), float(rng.choice([0.3, 0.8, 1.5, 2.5]))
    sharpness = float(rng.choice([0.6, 1.0, 2.0]))

    def edit(config, tensors):
        config.update({"block_size": block, "bos_token_id": end, "eos_token_id": turn if seed % 3 else [turn, end],
                       "max_position_embeddings": 2048 if seed % 4 else 64})
        share_embeddings(tensors, strength, 1.0, rng)
        head = tensors["lm_head.weight"]
        often = np.argmax(Model(config, tensors).logits(rng.integers(0, vocab - 10, 40)).mean(axis=0))
        for token in [*[mask] * (seed % 2), *[turn] * (seed % 4 > 1), *[end] * (seed % 4 == 3)]:
            noise = rng.standard_normal(head.shape[1]) * rng.uniform(1, 3) / np.sqrt(head.shape[1])
            head[token] = head[often] * rng.uniform(0.9, 1.1) + noise
        tensors["lm_head.weight"] = head * sharpness

    kv_heads, group = ((2, 2), (1, 4), (2, 1), (4, 1))[int(rng.integers(4))]
    size = {"vocab": vocab, "hidden": 16 * kv_heads * group, "layers": int(rng.integers(2, 4)), "kv_heads": kv_heads,
            "heads": kv_heads * group, "head_dim": 16, "tied": False}
    model = make_checkpoint(folder, "qwen2", seed, tokenizer=None, edit=edit, dtype="f32", **size)
    model.shape.mask_id = mask
    misspelled = {"attn_implementation": "eager", "casual_attn": False}
    add_keys(folder, architectures=["SDLMQwen2ForCausalLM"], model_type="qwen2", text_mask_token="<text_mask>",
             text_mask_token_id=mask, auto_map={"AutoConfig": "configuration_sdlm.SDLMQwen2Config",
                                                "AutoModelForCausalLM": "modeling_sdlm.SDLMQwen2ForCausalLM"},
             **(misspelled if seed % 2 else {"attn_implementation": "sdpa", "causal_attn": False}))
    return model


def make_idlm_checkpoint(folder, seed):
    """Writes a small I-DLM without a tokenizer and returns its reference Model.

    The keys are those of the config.json in the authors' training code. Rows share what they predict more or less, so that a
    mask's row often, seldom or never drafts what the row of the text behind it says. In every other checkpoint the mask
    may win, in three of four an end token.
    """
    rng = np.random.default_rng([seed, 83])
    vocab = 112
    ids = special_ids("sdar_moe", vocab)
    mask, end, turn = ids[MASK["sdar_moe"]], ids["<|endoftext|>"], ids["<|im_end|>"]
    block, strength = int(rng.integers(1, 6)), float(rng.choice([0.3, 0.8, 1.5, 2.5]))
    factor, sharpness = float(rng.choice([0.3, 1.0])), float(rng.choice([0.6, 0.9]))

    def edit(config, tensors):
        config.update({"block_size": block, "bos_token_id": end, "eos_token_id": turn if seed % 3 else [turn, end],
                       "mask_token_id": mask, "max_position_embeddings": 2048})
        embedding, head = tensors["model.embed_tokens.weight"], tensors["lm_head.weight"]
        share_embeddings(tensors, strength, factor, rng)
        # Some tokens compete with the one that most rows predict.
        often = np.argmax(Model(config, tensors).logits(rng.integers(0, vocab - 10, 40)).mean(axis=0))
        wanted = [*rng.choice(vocab - 10, 1), *[mask] * (seed % 2), *[turn] * (seed % 4 > 1), *[end] * (seed % 4 == 3)]
        for token in wanted:
            noise = rng.standard_normal(embedding.shape[1]) * rng.uniform(1, 3) / np.sqrt(embedding.shape[1])
            head[token] = head[often] * rng.uniform(0.9, 1.1) + noise
        tensors["lm_head.weight"] = head * sharpness

    kv_heads, group = ((2, 2), (1, 4), (2, 1), (4, 1))[int(rng.integers(4))]
    size = {"vocab": vocab, "hidden": int(rng.choice([32, 48, 64])), "layers": int(rng.integers(2, 4)),
            "kv_heads": kv_heads, "heads": kv_heads * group, "head_dim": int(rng.choice([8, 16])), "tied": False}
    model = make_checkpoint(folder, "qwen3", seed, tokenizer=None, edit=edit, dtype="f32", **size)
    add_keys(folder, architectures=["SDARForCausalLM"], model_type="sdar", attn_implementation="flex_attention",
             auto_map={"AutoConfig": "configuration_sdar.SDARConfig", "AutoModel": "modeling_sdar.SDARModel",
                       "AutoModelForCausalLM": "modeling_sdar.SDARForCausalLM"},
             fuse_cross_entropy=True, _name_or_path="I-DLM-8B")
    return model
