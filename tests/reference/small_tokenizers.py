"""Small BPE tokenizers in the published layouts, and the same tokenizers as Python objects.

LLaDA publishes tokenizer.json; Dream publishes vocab.json, merges.txt and added_tokens.json (the "trio"), which its
Python class reads with Qwen2's pre-tokenizer expression and NFC. Gemma publishes tokenizer.json with merges over
characters, spaces spelled U+2581 and byte tokens.
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


BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
ASCII = [chr(c) for c in range(33, 127)]


def has_all_bytes(family, vocab):
    """Small vocabularies cannot hold 256 byte tokens and spell printable ASCII only."""
    # Gemma's byte tokens come on top of the characters.
    return vocab - DEAD_ROWS - len(SPECIALS[family]) >= 256 + (len(ASCII) + 2 if family == "gemma" else 0)


def bare_tokenizer(family, model):
    """`model` after the family's pre-tokenizer."""
    tokenizer = Tokenizer(model)
    if family == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        return tokenizer
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
    if family == "gemma":
        return learn_characters(size, BYTE_TOKENS if has_all_bytes(family, vocab) else [])
    text, alphabet = sample_text.CORPUS + sample_text.FOREIGN, pre_tokenizers.ByteLevel.alphabet()
    if not has_all_bytes(family, vocab):
        text = sample_text.CORPUS
        alphabet = ASCII + ["Ġ", "Ċ"]
    tokenizer = bare_tokenizer(family, models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    learnt = json.loads(tokenizer.to_str())["model"]
    if len(learnt["vocab"]) != size:
        raise ValueError(f"a vocabulary of {size} needs more text than there is ({len(learnt['vocab'])})")
    return learnt["vocab"], [tuple(pair) for pair in learnt["merges"]]


def learn_characters(size, byte_tokens):
    """Learns as learn() does, with merges over characters; all are ASCII, and other characters become byte tokens."""
    tokenizer = bare_tokenizer("gemma", models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=size - len(byte_tokens), initial_alphabet=ASCII + ["\u2581", "\n"],
                                  show_progress=False)
    tokenizer.train_from_iterator(sample_text.CORPUS.splitlines(keepends=True), trainer)
    learnt = json.loads(tokenizer.to_str())["model"]
    entries = byte_tokens + sorted(learnt["vocab"], key=learnt["vocab"].get)
    if len(entries) != size:
        raise ValueError(f"a vocabulary of {size} needs more text than there is ({len(entries)})")
    return {entry: id for id, entry in enumerate(entries)}, [tuple(pair) for pair in learnt["merges"]]


def build(family, vocab):
    """The tokenizer as an object of the `tokenizers` package."""
    tokens, merges = learn(family, vocab)
    falls_back = {"byte_fallback": True, "fuse_unk": True} if family == "gemma" else {}
    tokenizer = bare_tokenizer(family, models.BPE(vocab=tokens, merges=merges, **falls_back))
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIALS[family]])
    ids = special_ids(family, vocab)
    if any(tokenizer.token_to_id(text) != token for text, token in ids.items()):
        raise ValueError("the added tokens did not get their ids")
    return tokenizer


def write(folder, family, vocab, kind, string_merges=False, lists_mask=True):
    """Writes the tokenizer files: kind 'json' or 'trio'. string_merges writes "a b" instead of ["a", "b"]. Without
    lists_mask, tokenizer_config.json names no mask token, as that of a left-to-right model with the same tokens."""
    folder, ids = Path(folder), special_ids(family, vocab)
    listed = {text: token for text, token in ids.items() if lists_mask or "mask" not in text}

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
    end = "<eos>" if family == "gemma" else "<|endoftext|>"
    pad = "<pad>" if family == "gemma" else "<|endoftext|>"
    base = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    tokenizer_class = {"llada": "PreTrainedTokenizerFast", "llada_moe": "PreTrainedTokenizerFast",
                       "dream": "DreamTokenizer", "gemma": "GemmaTokenizer"}.get(family, "Qwen2Tokenizer")
    dump("tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(token): {"content": text} | base | {"special": True}
                                 for text, token in sorted(listed.items(), key=lambda item: item[1])},
        "clean_up_tokenization_spaces": False, "eos_token": end, "pad_token": pad,
        "model_max_length": 4096, "tokenizer_class": tokenizer_class,
    })
    dump("special_tokens_map.json", {"eos_token": {"content": end} | base, "pad_token": {"content": pad} | base})
