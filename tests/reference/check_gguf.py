"""Writes GGUF files with llama.cpp's own Python package, and holds a binary against them.

    python check_gguf.py LACUNA_BINARY [--models FOLDER] [--seeds N]

Names of tensors come from the package's maps, names of keys from its writer, and weights from its reading of blocks, so that none of
them is what src/ believes it is. Models that ship keep matrices in bf16: the logits of a file have to be those of its folder, bit for
bit. Random checkpoints of every architecture have each matrix in a type of its own, keys that may be left out left out now and then,
and one file or several: their logits have to be those of models.py on the weights that the package reads, and with an adapter those
of the weights that lora.py merges. Random vocabularies with scores
have to give the tokens of a second implementation, and with --vocabularies llama.cpp's vocabularies those that it lists for its test texts.
Exit status 0 when nothing failed.
"""
import argparse
import copy
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import diffusion_gemma
import diffusion_gemma_gguf
import ggml_blocks
import gguf
import numpy as np
import random_diffusion_gemma
import safetensors_io
from check_adapters import EMBEDDINGS, HEADS, untied
from check_server import Report
from gguf import GGMLQuantizationType as Type
from lora import merge, random_adapter
from lora import write as write_adapter
from models import Model, read_shape
from random_checkpoints import MASK, make_config, make_tensors, random_dims, special_ids

ARCHITECTURES = {
    "llada": ("llada", gguf.MODEL_ARCH.LLADA),
    "llada_moe": ("llada-moe", gguf.MODEL_ARCH.LLADA_MOE),
    "dream": ("dream", gguf.MODEL_ARCH.DREAM),
    "qwen2": ("qwen2", gguf.MODEL_ARCH.QWEN2),
    "qwen3": ("qwen3", gguf.MODEL_ARCH.QWEN3),
    "qwen3_moe": ("qwen3moe", gguf.MODEL_ARCH.QWEN3MOE),
    "llama": ("llama", gguf.MODEL_ARCH.LLAMA),
    "llada2": ("llada2", gguf.MODEL_ARCH.BAILINGMOE2),  # which has Ling 2.0's layout
    "nemotron": ("nemotron", gguf.MODEL_ARCH.NEMOTRON),
}
SHIPPED = ("mini-dream", "mini-qwen", "mini-qwen3", "mini-llada2")
WRITTEN = (Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1)  # by the package; it reads the others and does not write them
TYPES = (*ggml_blocks.PLAIN, *ggml_blocks.QUANTIZED)
BLOCK_LENGTH = "diffusion.block_length"  # the package has no name for it
TOKENS = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26]
TOLERANCE = 2e-5  # of the largest logit
ROUTER_TOLERANCE = 1e-5  # an expert chosen by less than this may be another one in float32
ROUNDING_TOLERANCE = TOLERANCE / 20  # a pass rounds some twenty times as much as weights that are rounded to float32


@dataclass
class StoredTensor:
    type: Type
    rows: np.ndarray  # numbers, or bytes of whole blocks

    def values(self):
        return ggml_blocks.dequantize(self.rows, self.type)


def add_sizes(writer, config):
    shape = read_shape(config)
    writer.add_vocab_size(shape.vocab)
    writer.add_block_count(shape.layers)
    writer.add_context_length(config.get("max_position_embeddings") or config["max_sequence_length"])
    writer.add_embedding_length(shape.hidden)
    widths = ("intermediate_size", "mlp_hidden_size", "dense_intermediate_size")
    writer.add_feed_forward_length(next(config[name] for name in widths if name in config))
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.rotary_dim or shape.head_dim)
    writer.add_rope_freq_base(shape.theta)
    (writer.add_layer_norm_eps if shape.family == "nemotron" else writer.add_layer_norm_rms_eps)(shape.eps)


def add_experts(writer, config):
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config.get("moe_intermediate_size") or config["expert_intermediate_size"])


def add_llada2(writer, config):
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_shared_count(config["num_shared_experts"])
    writer.add_expert_shared_feed_forward_length(config["moe_intermediate_size"] * config["num_shared_experts"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_group_count(config["n_group"])
    writer.add_expert_group_used_count(config["topk_group"])
    writer.add_uint32(BLOCK_LENGTH, config["block_length"])


def start(path, config, tokenizer, **split):
    """A writer that has all keys and no tensors."""
    shape = read_shape(config)
    writer = gguf.GGUFWriter(path, ARCHITECTURES[shape.family][0], **split)
    add_sizes(writer, config)
    if "num_experts" in config:
        add_experts(writer, config)
    if shape.family == "llada2":
        add_llada2(writer, config)
    if not shape.causal:
        writer.add_causal_attention(False)
        writer.add_mask_token_id(config["mask_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_string("tokenizer.huggingface.json", tokenizer)
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def stacked(tensors):
    """One tensor for all experts of a layer, and the bias of their choice under the name that the maps know."""
    result, experts = {}, {}
    for name, values in tensors.items():
        found = re.fullmatch(r"(.*\.mlp\.experts)\.(\d+)\.(.*)", name)
        if found:
            experts.setdefault(f"{found[1]}.{found[3]}", {})[int(found[2])] = values
        else:
            result[re.sub(r"\.expert_bias$", ".expert_bias.bias", name)] = values
    for name, parts in experts.items():
        result[name] = np.stack([parts[index] for index in range(len(parts))])
    return result


def unstacked(tensors):
    """The inverse of stacked()."""
    result = {}
    for name, values in tensors.items():
        found = re.fullmatch(r"(.*\.mlp\.experts)\.(.*)", name)
        if found:
            result |= {f"{found[1]}.{index}.{found[2]}": part for index, part in enumerate(values)}
        else:
            result[name.replace(".expert_bias.bias", ".expert_bias")] = values
    return result


def stays_f32(name, values):
    """Whether converters leave it so: vectors and routers."""
    return values.ndim == 1 or name.endswith(".mlp.gate.weight")


def interleaved(rows, heads):
    """The two halves of each head's rows take turns: llama.cpp's rotation of LLaDA and Llama turns neighbouring dimensions."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def add_tensors(writer, tensors, config):
    shape = read_shape(config)
    heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads} if shape.family in ("llada", "llama") else {}
    names = gguf.get_tensor_name_map(ARCHITECTURES[shape.family][1], shape.layers)
    for name, tensor in tensors.items():
        to = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if to is None:
            raise SystemExit(f"{shape.family}: gguf has no name for {name}")
        kind = name.split(".")[-2]
        rows = interleaved(tensor.rows, heads[kind]) if kind in heads else tensor.rows
        if shape.family == "nemotron" and name.endswith("norm.weight"):
            rows = rows + np.float32(1)  # norms are whole in a file
        writer.add_tensor(to, rows, raw_dtype=tensor.type)
    if "rope_freqs" in config:
        writer.add_tensor("rope_freqs.weight", np.array(config["rope_freqs"], dtype=np.float32))


def write_shipped(folder, path):
    config = json.loads((folder / "config.json").read_text())
    writer = start(path, config, (folder / "tokenizer.json").read_text())
    tensors = {}
    for name, values in stacked(safetensors_io.read(folder / "model.safetensors")).items():
        stored_type = Type.F32 if stays_f32(name, values) else Type.BF16
        tensors[name] = StoredTensor(stored_type, gguf.quants.quantize(values, stored_type))
    add_tensors(writer, tensors, config)
    finish(writer)


def logits(binary, model, folder, tokens, *flags):
    request, out = folder / "request.json", folder / "out.npy"
    request.write_text(json.dumps({"tokens": tokens}))
    command = [binary, "logits", "-m", model, "--request", request, "--out", out, "--threads", "1", *flags]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return np.load(out)


def compare_shipped(binary, model):
    """(whether a file's logits are the folder's, what differs)"""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = folder / f"{model.name}.gguf"
        write_shipped(model, path)
        of_file, of_folder = (logits(binary, source, folder, TOKENS) for source in (path, model))
        return np.array_equal(of_file, of_folder), f"differs by {np.abs(of_file - of_folder).max()}"


def random_sizes(family, rng):
    """Those of random_checkpoints.py, or two times out of three such as whole blocks of the K types fill."""
    sizes = random_dims(family, rng)
    if rng.random() < 1 / 3:
        return sizes
    head_dim = int(rng.choice([32, 64, 128]))
    heads = (int(rng.choice([256, 512])) if family in ("qwen3", "llada2") else 256) // head_dim
    group = 1 if family == "llada_moe" else int(rng.choice([1, 2]))
    return sizes | {"hidden": 256, "head_dim": head_dim, "heads": heads, "kv_heads": heads // group,
                    "ffn": int(rng.choice([96, 256, 512])), "dense_ffn": int(rng.choice([256, 320]))}


def random_checkpoint(family, rng):
    """(config, {published name: values})"""
    sizes = random_sizes(family, rng)
    if family == "qwen3_moe":
        sizes["rescaled"] = True  # which the architecture's name stands for
    config = make_config(family, sizes)
    if family == "llada2":
        mask = special_ids(family, sizes["vocab"])[MASK[family]]
        config |= {"mask_token_id": mask, "block_length": int(rng.choice([4, 32]))}
    tensors = make_tensors(family, sizes, rng)
    if family == "llama":
        add_parts_of_llama(config, sizes, tensors, rng)
    return config, tensors


def add_parts_of_llama(config, sizes, tensors, rng):
    """Tensors of some files alone: divisors of frequencies (Llama 3), and biases of q, k and v."""
    if rng.random() < 0.6:
        config["rope_freqs"] = np.float32(rng.uniform(1, 32, sizes["head_dim"] // 2)).tolist()
    if rng.random() < 0.5:
        for layer in range(sizes["layers"]):
            for name, heads in (("q", sizes["heads"]), ("k", sizes["kv_heads"]), ("v", sizes["kv_heads"])):
                tensors[f"model.layers.{layer}.self_attn.{name}_proj.bias"] = np.float32(
                    rng.normal(0, 0.3, heads * sizes["head_dim"]))


def stored_at_random(tensors, rng):
    """Every matrix in some type that its width allows, and all tensors in some order."""
    names, result = list(tensors), {}
    rng.shuffle(names)
    for name in names:
        values = tensors[name]
        fitting = [fit for fit in TYPES if values.shape[-1] % gguf.GGML_QUANT_SIZES[fit][0] == 0]
        stored_type = Type.F32 if stays_f32(name, values) else fitting[rng.integers(len(fitting))]
        if stored_type in (*ggml_blocks.PLAIN, *WRITTEN):
            rows = gguf.quants.quantize(values, stored_type)
        else:
            rows = ggml_blocks.random_blocks(values.shape, np.std(values), stored_type, rng)
        result[name] = StoredTensor(stored_type, rows)
    return result


def leave_out_defaults(writer, config, rng):
    """Takes out about half of the keys that say what a file without them means."""
    shape = read_shape(config)
    defaults = {
        gguf.Keys.LLM.VOCAB_SIZE: shape.vocab,
        gguf.Keys.LLM.LEADING_DENSE_BLOCK_COUNT: 0,
        gguf.Keys.LLM.EXPERT_SHARED_COUNT: 0,
        gguf.Keys.LLM.EXPERT_SHARED_FEED_FORWARD_LENGTH: 0,
        gguf.Keys.LLM.EXPERT_GROUP_COUNT: 1,
        gguf.Keys.LLM.EXPERT_GROUP_USED_COUNT: 1,
        gguf.Keys.Attention.HEAD_COUNT_KV: shape.heads,
        gguf.Keys.Attention.KEY_LENGTH: shape.hidden // shape.heads,
        gguf.Keys.Attention.VALUE_LENGTH: shape.hidden // shape.heads,
        gguf.Keys.Rope.DIMENSION_COUNT: shape.head_dim,
        gguf.Keys.Rope.FREQ_BASE: 10000.0,
        BLOCK_LENGTH: 32,
    }
    keys = writer.kv_data[0]
    for name, default in defaults.items():
        key = name.format(arch=writer.arch)
        if key in keys and keys[key].value == default and rng.random() < 0.5:
            del keys[key]


def bare_tokenizer(vocab):
    """A byte-level tokenizer.json that no logits depend on; small_tokenizers.py would need a package."""
    tokens = {f"token{index}": index for index in range(vocab)}
    return json.dumps({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                       "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": tokens, "merges": []}})


def write_random(folder, config, tensors, rng):
    """Writes a file, or several, and returns the path of one."""
    tokenizer = bare_tokenizer(read_shape(config).vocab)
    is_split = rng.random() < 0.3
    writer = start(folder / "model.gguf", config, tokenizer, split_max_tensors=5 if is_split else 0)
    if not is_split and rng.random() < 0.5:  # of several files, only the first would say so
        writer.add_custom_alignment(int(rng.choice([8, 64, 4096])))
    leave_out_defaults(writer, config, rng)
    add_tensors(writer, tensors, config)
    finish(writer)
    files = sorted(folder.glob("*.gguf"))
    return files[rng.integers(len(files))]


def random_tokens(model, rng):
    """(tokens, their logits), where rounding decides nothing: no expert is chosen narrowly, and weights that are off by what
    float32 rounds move the logits little."""
    rounded = [copy.copy(model) for _ in range(3)]
    for each in rounded:
        each.tensors = {name: values * (1 + 2.0**-24 * rng.uniform(-1, 1, values.shape)) for name, values in model.tensors.items()}
    for _ in range(100):
        tokens = rng.integers(0, model.shape.vocab, len(TOKENS)).tolist()
        model.router_gap = np.inf
        expected = model.logits(tokens)
        if model.router_gap > ROUTER_TOLERANCE and all(
                relative_difference(each.logits(tokens), expected) <= ROUNDING_TOLERANCE for each in rounded):
            return tokens, expected
    raise ValueError("rounding decides the logits of every text that was drawn")


def relative_difference(values, expected):
    if values.shape != expected.shape:
        return np.inf
    return np.abs(values - expected).max() / np.abs(expected).max()


def compare_random(binary, family, seed):
    """(whether a file's logits are the reference's, what differs)"""
    rng = np.random.default_rng([list(ARCHITECTURES).index(family), seed])
    config, tensors = random_checkpoint(family, rng)
    stored = stored_at_random(stacked(tensors), rng)
    model = Model(config, unstacked({name: tensor.values() for name, tensor in stored.items()}))
    tokens, expected = random_tokens(model, rng)
    differences = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = write_random(folder, config, stored, rng)
        for flags in ("--dtype f32", "--dtype f32 --weights f32"):
            values = logits(binary, path, folder, tokens, *flags.split())
            differences[flags] = relative_difference(values, expected)
    used = {tensor.type for tensor in stored.values()}
    types = " ".join(stored_type.name for stored_type in TYPES if stored_type in used)
    detail = ", ".join(f"{flags} differs by {value:.1e} of the largest" for flags, value in differences.items())
    return all(value <= TOLERANCE for value in differences.values()), f"{detail}; {path.name} of {types}"


def compare_adapted(binary, family, seed):
    """(whether a file's logits with an adapter are those of the merged weights, what differs)"""
    rng = np.random.default_rng([list(ARCHITECTURES).index(family), seed, 17])
    config, tensors = random_checkpoint(family, rng)
    stored = stored_at_random(stacked(tensors), rng)
    published = unstacked({name: tensor.values() for name, tensor in stored.items()})
    linear = {name: values for name, values in published.items() if name != HEADS.get(family, "lm_head") + ".weight"}
    adapter_config, adapter = random_adapter(linear, EMBEDDINGS.get(family, "model.embed_tokens"), rng)
    config_apart, published = untied(config, published, family)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        merged = merge(published, adapter_config, write_adapter(folder / "adapter", adapter_config, adapter, "f32"), -0.5)
        tokens, expected = random_tokens(Model(config_apart, merged), rng)
        path = write_random(folder, config, stored, rng)
        plain, values = (logits(binary, path, folder, tokens, "--dtype", "f32", "--weights", "f32", *flags)
                         for flags in ([], ["--lora", f"{folder}/adapter=-0.5"]))
    difference, without = (relative_difference(each, expected) for each in (values, plain))
    return difference <= TOLERANCE < without, f"differs by {difference:.1e} of the largest, without it by {without:.1e}"


def compare_diffusion_gemma(binary, seed):
    """The same for a canvas after a prompt, whose rows read a distribution."""
    rng = np.random.default_rng([seed, 77])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path, request, out, rows = (folder / name for name in ("model.gguf", "request.json", "out.npy", "rows.npy"))
        random_diffusion_gemma.make_checkpoint(folder / "published", seed)
        config, generation = (json.loads((folder / "published" / f"{name}.json").read_text())
                              for name in ("config", "generation_config"))
        tensors = {}
        for file in sorted((folder / "published").glob("*.safetensors")):
            tensors |= safetensors_io.read(file)
        model = diffusion_gemma.Model(config, diffusion_gemma_gguf.write(path, config, generation, tensors, rng))
        vocab, canvas = config["text_config"]["vocab_size"], config["canvas_length"]
        begin = int(rng.integers(1, 40))
        tokens = rng.integers(0, vocab, begin + canvas).tolist()
        distribution = rng.dirichlet(np.full(vocab, 0.05), canvas).astype(np.float32)
        np.save(rows, distribution)
        request.write_text(json.dumps({"tokens": tokens, "canvas_begin": begin, "self_conditioning": str(rows)}))
        command = [binary, "logits", "-m", path, "--request", request, "--out", out, "--threads", "1", "--dtype", "f32",
                   "--weights", "f32"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        difference = relative_difference(np.load(out), model.logits(tokens, begin, distribution.astype(np.float64)))
    return difference <= TOLERANCE, f"differs by {difference:.1e} of the largest"


def sentencepiece_tokens(text, entries, prefix):
    """Token ids by the rule alone: of all neighbours whose text is an entry, the best score merges first, then the leftmost."""
    text = (" " if prefix and text else "") + text
    symbols = list(text.replace(" ", "\u2581"))
    while True:
        pairs = [(-entries[a + b][1], at) for at, (a, b) in enumerate(zip(symbols, symbols[1:])) if a + b in entries]
        if not pairs:
            break
        at = min(pairs)[1]
        symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
    ids = []
    for symbol in symbols:
        ids += [entries[symbol][0]] if symbol in entries else [3 + byte for byte in symbol.encode()]
    return ids


def compare_sentencepiece(binary, seed):
    """(whether random texts have the tokens of sentencepiece_tokens(), what differs)"""
    rng = np.random.default_rng([seed, 78])
    letters = list("abc\u2581\u00e9\u65e5\U0001f642\n")
    texts = dict.fromkeys(letters[:-2])
    while len(texts) < 60:
        parts = list(texts)
        joined = "".join(rng.choice(parts, 2))
        if len(joined) < 9:
            texts[joined] = None
    bytes_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_tokens, *texts]
    scores = [0.0] * 259 + [float(-rng.integers(0, 40)) for _ in texts]  # some are equal
    entries = {text: (259 + at, scores[259 + at]) for at, text in enumerate(texts)}
    prefix = bool(rng.random() < 0.5)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(texts))
        writer.add_add_space_prefix(prefix)
        finish(writer)
        for _ in range(10):
            text = "".join(rng.choice([*letters[:3], " ", *letters[4:]], rng.integers(0, 60)))
            result = subprocess.run([binary, "tokenize", "-m", path], input=text.encode(), check=True, capture_output=True)
            expected = sentencepiece_tokens(text, entries, prefix)
            if json.loads(result.stdout) != expected:
                return False, f"{text!r}: {json.loads(result.stdout)}, expected {expected}"
    return True, ""


def compare_vocabulary(binary, path):
    """(whether llama.cpp's texts of a vocabulary have the tokens that it lists, what differs)"""
    texts = path.with_name(path.name + ".inp").read_bytes().split(b"\n__ggml_vocab_test__\n")
    expected = [[int(token) for token in line.split()] for line in path.with_name(path.name + ".out").read_text().splitlines()]
    wrong = 0
    for text, tokens in zip(texts, expected):
        result = subprocess.run([binary, "tokenize", "-m", path], input=text, check=True, capture_output=True)
        wrong += json.loads(result.stdout) != tokens
    return wrong == 0 and len(expected) > 0, f"{wrong} of {len(expected)} texts differ"


def check(report, name, compare, *arguments):
    try:
        report.check(name, *compare(*arguments))
    except subprocess.CalledProcessError as error:
        report.check(name, False, error.stderr.strip())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--models", type=Path, default=Path(__file__).parents[2] / "models")
    parser.add_argument("--seeds", type=int, default=5, help="random checkpoints of each architecture")
    parser.add_argument("--vocabularies", type=Path, help="llama.cpp's folder models/, with ggml-vocab-*.gguf and their texts")
    arguments = parser.parse_args()
    report = Report()
    for name in SHIPPED:
        check(report, f"{name} as a GGUF file", compare_shipped, arguments.binary, arguments.models / name)
    for family, (architecture, _) in ARCHITECTURES.items():
        for seed in range(arguments.seeds):
            check(report, f"{architecture}, seed {seed}", compare_random, arguments.binary, family, seed)
            check(report, f"{architecture} with an adapter, seed {seed}", compare_adapted, arguments.binary, family, seed)
    for seed in range(arguments.seeds):
        check(report, f"diffusion-gemma, seed {seed}", compare_diffusion_gemma, arguments.binary, seed)
        check(report, f"SentencePiece's tokenizer, seed {seed}", compare_sentencepiece, arguments.binary, seed)
    for path in sorted(arguments.vocabularies.glob("ggml-vocab-*.gguf")) if arguments.vocabularies else []:
        if path.with_name(path.name + ".out").exists() and "bert" not in path.name and "nomic" not in path.name:
            check(report, path.name, compare_vocabulary, arguments.binary, path)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
