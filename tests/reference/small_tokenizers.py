"""Small byte-level BPE tokenizers in both published layouts, and the same tokenizers as Python objects.

LLaDA publishes tokenizer.json; Dream publishes vocab.json, merges.txt and added_tokens.json (the "trio"), which its
Python class reads with Qwen2's pre-tokenizer expression and NFC.
"""
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import sample_text
from random_checkpoints import DEAD_ROWS, SPECIALS, special_ids

QWEN_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# The expression of the Ling tokenizers, whose layout of added tokens LLaDA shares.
LING_SPLIT = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
              r"|\s*[\r\n]|\s+(?!\S)|\s+")


def has_all_bytes(family, vocab):
    """Small vocabularies cannot hold 256 byte tokens and spell printable ASCII only."""
    return vocab - DEAD_ROWS - len(SPECIALS[family]) >= 256


def bare_tokenizer(family, model):
    """`model` behind the family's pre-tokenizer."""
    tokenizer = Tokenizer(model)
    llada = family in ("llada", "llada_moe")
    if not llada:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LING_SPLIT if llada else QWEN_SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def learn(family, vocab):
    """(vocabulary {token: id}, merges [(left, right)]) with exactly the room that `vocab` rows leave."""
    size = vocab - DEAD_ROWS - len(SPECIALS[family])
    text, alphabet = sample_text.CORPUS + sample_text.FOREIGN, pre_tokenizers.ByteLevel.alphabet()
    if not has_all_bytes(family, vocab):
        text = sample_text.CORPUS
        alphabet = [chr(c) for c in range(33, 127)] + ["Ġ", "Ċ"]
    tokenizer = bare_tokenizer(family, models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    learnt = json.loads(tokenizer.to_str())["model"]
    if len(learnt["vocab"]) != size:
        raise ValueError(f"a vocabulary of {size} needs more text than there is ({len(learnt['vocab'])})")
    return learnt["vocab"], [tuple(pair) for pair in learnt["merges"]]


def build(family, vocab):
    """The tokenizer as an object of the `tokenizers` package."""
    tokens, merges = learn(family, vocab)
    tokenizer = bare_tokenizer(family, models.BPE(vocab=tokens, merges=merges))
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIALS[family]])
    ids = special_ids(family, vocab)
    if any(tokenizer.token_to_id(text) != token for text, token in ids.items()):
        raise ValueError("the added tokens did not get their ids")
    return tokenizer


def write(folder, family, vocab, kind, string_merges=False):
    """Writes the tokenizer files: kind 'json' or 'trio'. string_merges writes "a b" instead of ["a", "b"]."""
    folder, ids = Path(folder), special_ids(family, vocab)

    def dump(name, value):
        (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    if kind == "json":
        value = json.loads(build(family, vocab).to_str())
        if string_merges:
            value["model"]["merges"] = [" ".join(pair) for pair in value["model"]["merges"]]
        dump("tokenizer.json", value)
    else:
        tokens, merges = learn(family, vocab)
        dump("vocab.json", tokens)
        (folder / "merges.txt").write_text(
            "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges), encoding="utf-8")
        dump("added_tokens.json", ids)
    base = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    tokenizer_class = {"llada": "PreTrainedTokenizerFast", "llada_moe": "PreTrainedTokenizerFast",
                       "dream": "DreamTokenizer"}.get(family, "Qwen2Tokenizer")
    dump("tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(token): {"content": text} | base | {"special": True}
                                 for text, token in sorted(ids.items(), key=lambda item: item[1])},
        "clean_up_tokenization_spaces": False, "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
        "model_max_length": 4096, "tokenizer_class": tokenizer_class,
    })
    dump("special_tokens_map.json", {"eos_token": {"content": "<|endoftext|>"} | base,
                                     "pad_token": {"content": "<|endoftext|>"} | base})
