#!/usr/bin/env python3
"""Compares `lacuna tokenize` with the Python library `tokenizers` on random small tokenizers.

Each round trains a BPE with random settings on random text, saves it, and compares ids, and the text decoded from
them, on random texts. Special tokens that a text contains are text to both sides. The kinds are byte-level BPE as
tokenizer.json ("json") or as the trio vocab.json + merges.txt + added_tokens.json ("trio"), BPE over characters
with byte tokens, as Gemma ("gemma") and Llama 2 ("llama") publish it, and without ("plain"), and Unigram ("unigram"). For those with byte tokens random ids are
decoded as well, in which byte tokens spell no UTF-8: the expected bytes are then put together here, because the library shows one
U+FFFD for each of them. Steps stand in sequences within sequences at random.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tests/reference/tokenizer_parity.py build/dev/lacuna --rounds 50

Exit code 0: everything equal. A difference prints the seed of its round; `--seed S --rounds 1` repeats it.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
EXPRESSIONS = [QWEN2, LLAMA3, BAILING, r"\s+", r"\w+|[^\w\s]+", r"\S*", r"^.", r"[[:punct:]]|x*"]
KINDS = ["json", "trio", "gemma", "llama", "plain", "unigram"]
BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
WORDS = "the cat's don't I'LL 2026 x1 naïve Ελλάδα привет 日本語 데이터 é e\u0301 ﬁ İ ſ ½ 🙂 👩‍💻 -- ... \n \r\n \t \u00a0 \u3000".split(" ")

# Characters that Unicode gained only lately are classed differently by libraries of different ages. The step
# "Punctuation" is left out below for that reason: the reference's table for it is that of Unicode 8.
ASSIGNED = [chr(code) for code in range(0x20000) if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")]


def random_text(rng, atoms, length, kind="json"):
    parts = []
    for _ in range(length):
        draw = rng.random()
        if draw < 0.55:
            parts.append(rng.choice(WORDS))
        elif draw < 0.75:
            parts.append(chr(rng.randrange(128)))
        elif draw < 0.85:
            parts.append(rng.choice(ASSIGNED))
        elif draw < 0.95:
            parts.append(rng.choice(atoms))
        if kind in ("gemma", "llama") and rng.random() < 0.15:
            parts.append(rng.choice([" ", "\n", "\u2581", "\n \n", "🙂"]) * rng.randrange(1, 40))
        parts.append(rng.choice(["", " ", " ", "  "]))
    return "".join(parts)


def nested(rng, sequence, steps):
    """The steps as one, or as a sequence that holds some of them in sequences of their own."""
    if len(steps) == 1 and rng.random() < 0.5:
        return steps[0]
    cut = rng.randrange(len(steps) + 1)
    if rng.random() < 0.5:
        return sequence(steps)
    return sequence([sequence(steps[:cut]), *steps[cut:]])


def random_split(rng):
    if rng.random() < 0.7:
        return pre_tokenizers.Split(Regex(rng.choice(EXPRESSIONS[:3])), "isolated")
    pattern = Regex(rng.choice(EXPRESSIONS)) if rng.random() < 0.7 else rng.choice([" ", "e", "...", "\n"])
    return pre_tokenizers.Split(pattern, rng.choice(BEHAVIORS), rng.random() < 0.3)


def random_pre_tokenizer(rng):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < 0.3, use_regex=rng.random() < 0.5)
    kind = rng.random()
    if kind < 0.3:
        return byte_level
    steps = [random_split(rng)]
    if rng.random() < 0.3:
        steps.insert(0, pre_tokenizers.Digits(individual_digits=rng.random() < 0.5))
    if rng.random() < 0.3:
        white = [pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit, lambda: pre_tokenizers.CharDelimiterSplit("e")]
        steps.insert(0, rng.choice(white)())
    steps.insert(rng.randrange(len(steps) + 1) if rng.random() < 0.2 else len(steps), byte_level)
    return nested(rng, pre_tokenizers.Sequence, steps)


def random_normalizer(rng):
    forms = [normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase,
             normalizers.StripAccents, normalizers.Nmt, lambda: normalizers.Strip(rng.random() < 0.5, rng.random() < 0.5),
             lambda: normalizers.Replace(rng.choice([" ", "e", "''", "\n", Regex(" {2,}"), Regex("[aeiou]+|$"), Regex(r"\s*")]),
                                         rng.choice(["", " ", "_x", "\\1$0", "\u2581"])),
             lambda: normalizers.Prepend(rng.choice([" ", "\u2581", "ab"]))]
    if rng.random() < 0.3:
        return None
    return nested(rng, normalizers.Sequence, [rng.choice(forms)() for _ in range(rng.choice([1, 1, 1, 2, 3]))])


def random_added_token(rng, content, special, plain):
    flags = {} if plain else {name: rng.random() < 0.2 for name in ("lstrip", "rstrip", "single_word", "normalized")}
    return AddedToken(content, special=special, **{"normalized": False, **flags})


def random_tokenizer(rng, trio):
    tokenizer = Tokenizer(models.BPE(ignore_merges=not trio and rng.random() < 0.2))
    if trio:
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(QWEN2), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tokenizer.normalizer = random_normalizer(rng)
        tokenizer.pre_tokenizer = random_pre_tokenizer(rng)
    tokenizer.decoder = nested(rng, decoders.Sequence, [decoders.ByteLevel()] + [decoders.Fuse()] * rng.randrange(2))
    alphabet = pre_tokenizers.ByteLevel.alphabet() if rng.random() < 0.9 else []
    in_vocab = ["<|endoftext|>"] if rng.random() < 0.5 else []
    trainer = trainers.BpeTrainer(vocab_size=rng.randrange(257, 900), initial_alphabet=alphabet,
                                  special_tokens=in_vocab, show_progress=False)
    tokenizer.train_from_iterator([random_text(rng, ["a"], 60) for _ in range(30)], trainer)
    for content, special in [("<|im_start|>", True), ("<|im_end|>", True), ("<|im", False), ("<tool_call>", False),
                             ("日", False), ("cat", False)]:
        if rng.random() < 0.6:
            token = random_added_token(rng, content, special, trio)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
    return tokenizer


def llama_spaces(rng):
    """(normalizer, pre-tokenizer): files up to transformers 4.39 have the first, later ones the second."""
    if rng.random() < 0.5:
        return normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None
    scheme = rng.choice(["first", "first", "always", "never"])
    return None, pre_tokenizers.Metaspace(prepend_scheme=scheme, split=rng.random() < 0.3)


def random_plain(rng):
    """Characters without byte tokens, as SentencePiece's files without byte_fallback and small models have them."""
    spaces = pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["first", "always", "never"]), split=rng.random() < 0.7)
    steps = [spaces]
    if rng.random() < 0.3:
        steps.insert(0, rng.choice([pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit])())
    if rng.random() < 0.3:
        steps.append(pre_tokenizers.Digits(individual_digits=rng.random() < 0.5))
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=rng.random() < 0.5))
    tokenizer.normalizer = random_normalizer(rng)
    tokenizer.pre_tokenizer = nested(rng, pre_tokenizers.Sequence, steps)
    whole = [decoders.Replace("\u2581", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = rng.choice([decoders.Metaspace(), nested(rng, decoders.Sequence, whole[:rng.randrange(1, 4)])])
    trainer = trainers.BpeTrainer(vocab_size=rng.randrange(100, 500), special_tokens=["<unk>"], show_progress=False,
                                  limit_alphabet=rng.randrange(30, 120))
    tokenizer.train_from_iterator([random_text(rng, ["a"], 60) for _ in range(30)], trainer)
    for content, special in [("<|turn>", True), ("<tool>", False), ("cat", False)]:
        if rng.random() < 0.5:
            token = AddedToken(content, special=special, normalized=rng.random() < 0.2)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
    return tokenizer


def random_unigram(rng):
    """Pieces of random text with random scores; the text has no special token, which the library would find in it."""
    spaces = normalizers.Replace(" ", "\u2581")
    text = spaces.normalize_str("".join(random_text(rng, ["a"], 60) for _ in range(10)))
    starts = [rng.randrange(len(text)) for _ in range(rng.randrange(50, 500))]
    pieces = {text[start:start + rng.choice([1, 1, 1, 2, 3, 4, 6, 9])] for start in starts}
    falls_back = rng.random() < 0.6
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] * falls_back
    vocab = [(entry, 0.0) for entry in first] + [(piece, rng.uniform(-14, -2)) for piece in sorted(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocab, 0, falls_back))
    tokenizer.normalizer, tokenizer.pre_tokenizer = llama_spaces(rng)
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = nested(rng, decoders.Sequence, steps[:rng.randrange(3, 5)])
    tokenizer.add_special_tokens([AddedToken(entry, normalized=False, special=True) for entry in first[:3]])
    for content in ["<tool>", "cat"]:
        if rng.random() < 0.5:
            tokenizer.add_tokens([AddedToken(content, normalized=False)])
    return tokenizer


def random_characters(rng, kind):
    normalizer = normalizers.Replace(" ", "\u2581")
    if kind == "gemma" and rng.random() < 0.5:
        normalizer = normalizers.Sequence(([normalizers.NFC()] if rng.random() < 0.4 else []) + [normalizer])
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=rng.randrange(100, 700), show_progress=False,
                                  limit_alphabet=rng.randrange(30, 120))
    texts = [random_text(rng, ["a"], 40, "gemma") for _ in range(30)]
    trained.train_from_iterator([line for text in texts for line in text.splitlines(keepends=True)], trainer)
    learnt = json.loads(trained.to_str())["model"]
    entries = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    if rng.random() < 0.85:
        entries += [f"<0x{byte:02X}>" for byte in range(256)]
    entries += ["\n" * count for count in range(1, rng.randrange(1, 32))]
    entries += [entry for entry in sorted(learnt["vocab"], key=learnt["vocab"].get) if entry not in set(entries)]
    merges = [tuple(pair) for pair in learnt["merges"]]
    model = models.BPE(vocab={entry: id for id, entry in enumerate(entries)}, merges=merges, byte_fallback=True,
                       fuse_unk=rng.random() < 0.7, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    splits = rng.random()
    if kind == "llama":
        tokenizer.normalizer, tokenizer.pre_tokenizer = llama_spaces(rng)
    elif splits < 0.5:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif splits < 0.6:
        pattern = rng.choice(["e", "...", "\u2581", Regex("\\n+")])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, rng.choice(BEHAVIORS), rng.random() < 0.3)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(entry, normalized=False, special=True) for entry in entries[:5]])
    for content, special in [("<|turn>", True), ("<turn|>", True), ("\n\n", False), ("\n\n\n", False),
                             ("\u2581\u2581", False), ("<tool>", False), ("日", False), ("a cat", False)]:
        if rng.random() < 0.5:
            # No lstrip and rstrip: the library gives a token of white space even where a neighbour has consumed it.
            token = AddedToken(content, special=special, normalized=rng.random() < 0.2, single_word=rng.random() < 0.1)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
    return tokenizer


def bytes_of(tokenizer, ids):
    """The bytes of tokens over characters, one after the other."""
    result = b""
    added = tokenizer.get_added_tokens_decoder()  # id_to_token() gives some that are found normalized a space in front
    for id in ids:
        token = added[id].content if id in added else tokenizer.id_to_token(id)
        if len(token) == 6 and token.startswith("<0x"):
            result += bytes([int(token[3:5], 16)])
        else:
            result += token.replace("\u2581", " ").encode()
    return result


def with_old_spaces(value):
    """A part of a file with Metaspace steps as older files have them."""
    if isinstance(value, list):
        return [with_old_spaces(each) for each in value]
    if not isinstance(value, dict):
        return value
    value = {key: with_old_spaces(each) for key, each in value.items()}
    if value.get("type") == "Metaspace" and value.get("prepend_scheme") == "always":
        del value["prepend_scheme"]
        value["add_prefix_space"] = True
    return value


def save(rng, tokenizer, folder, kind, string_merges):
    """Writes the files; the tokenizer that the library reads from them."""
    if kind != "trio":
        value = json.loads(tokenizer.to_str())
        if string_merges:
            value["model"]["merges"] = [" ".join(pair) for pair in value["model"]["merges"]]
        if rng.random() < 0.3:
            value["pre_tokenizer"] = with_old_spaces(value["pre_tokenizer"])
        if rng.random() < 0.3:  # adds nothing where no special tokens are asked for
            single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
            template = {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
                        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
            bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
            value["post_processor"] = {"type": "Sequence", "processors": [{"type": "Sequence", "processors": [bytes]}, template]}
        (folder / "tokenizer.json").write_text(json.dumps(value))
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.model.save(str(folder))
    added = tokenizer.get_added_tokens_decoder()
    (folder / "added_tokens.json").write_text(json.dumps({token.content: id for id, token in added.items()}))
    keys = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    decoder = {str(id): {key: getattr(token, key) for key in keys} for id, token in added.items()}
    config = {"added_tokens_decoder": decoder, "tokenizer_class": "Qwen2Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer


def run(command, stdin):
    process = subprocess.run(command, input=stdin, capture_output=True)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr.decode()}")
    return process.stdout


def compare(lacuna, seed, texts, chosen_kind=None):
    rng = random.Random(seed)
    kind = chosen_kind or rng.choice(KINDS)
    has_characters = kind in ("gemma", "llama")
    made = {"plain": random_plain, "unigram": random_unigram}
    tokenizer = (made[kind](rng) if kind in made else random_characters(rng, kind) if has_characters
                 else random_tokenizer(rng, kind == "trio"))
    added = tokenizer.get_added_tokens_decoder().values()
    atoms = [token.content for token in added if kind != "unigram" or not token.special] or ["a"]
    with tempfile.TemporaryDirectory() as name:
        tokenizer = save(rng, tokenizer, Path(name), kind, has_characters and rng.random() < 0.3)
        tokenizer.encode_special_tokens = True
        if has_characters:
            ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(200)]
            decoded = run([lacuna, "tokenize", "-m", name, "--decode"], json.dumps(ids).encode())
            if decoded.removesuffix(b"\n") != bytes_of(tokenizer, ids).removesuffix(b"\n"):
                print(f"seed {seed}: {ids}\n  expected {bytes_of(tokenizer, ids)}\n  got      {decoded}")
                return False
        for _ in range(texts):
            text = random_text(rng, atoms, rng.randrange(40), kind)
            expected = tokenizer.encode(text, add_special_tokens=False).ids
            ids = json.loads(run([lacuna, "tokenize", "-m", name], text.encode()))
            if ids != expected:
                print(f"seed {seed}: {text!r}\n  expected {expected}\n  got      {ids}")
                print(f"  normalizer {tokenizer.normalizer}\n  pre_tokenizer {tokenizer.pre_tokenizer}")
                return False
            if kind == "llama":
                continue  # the library decodes added tokens that it finds normalized with the space of Prepend
            decoded = run([lacuna, "tokenize", "-m", name, "--decode"], json.dumps(ids).encode())
            decoded_text = decoded.decode(errors="replace").removesuffix("\n")
            expected_text = tokenizer.decode(ids, skip_special_tokens=False).removesuffix("\n")
            if kind in made and decoded_text.lstrip(" ") == expected_text.lstrip(" "):
                continue  # Strip and Metaspace take spaces of a text's beginning away, which no answer begins with
            if decoded_text != expected_text:
                print(f"seed {seed}: {ids}\n  expected {expected_text!r}\n  got      {decoded_text!r}")
                return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lacuna", help="path of the lacuna binary")
    parser.add_argument("--rounds", type=int, default=50, help="random tokenizers to compare")
    parser.add_argument("--texts", type=int, default=8, help="random texts for each")
    parser.add_argument("--kind", choices=KINDS, help="of tokenizer; default: any, at random")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; each next one adds 1")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.rounds)
    failed = [seed for seed in seeds if not compare(arguments.lacuna, seed, arguments.texts, arguments.kind)]
    print(f"{arguments.rounds - len(failed)} of {arguments.rounds} random tokenizers agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
