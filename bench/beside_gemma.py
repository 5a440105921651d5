"""Lacuna compared with llama.cpp: a denoising pass at the shape of DiffusionGemma 26B-A4B, with the logits of every row.

    python3 bench/beside_gemma.py prepare --layers 2
    python3 bench/beside_gemma.py measure --layers 2

The llama.cpp of the package that bench/beside_ggml.py fetches has no DiffusionGemma yet, but Gemma 4, whose layers it shares:
the same matrices, experts, norms and cap of the logits. `prepare` writes random weights as Gemma 4 for llama.cpp, in BF16, Q8_0
and Q4_0, and the same tensors as DiffusionGemma for Lacuna, 17 GB with 2 layers. bench/ggml/ggml_pass.cpp times llama.cpp, whose
llama-bench would compute the logits of one row alone.

`measure` runs the two programs in turn, --rounds times with each file and row count; each run warms up and times --repeat passes,
of which the median counts, and then the median over the rounds. Ratios are seconds of llama.cpp by those of Lacuna. A row attends to
all cells of the canvas. Both leave self-conditioning out; Lacuna also samples a token from each row.
"""
import json
import os
import pathlib
import statistics
import subprocess

import beside_ggml
from beside_ggml import program, read_json, run
from serving import LACUNA

HIDDEN, HEADS, KV_HEADS, HEAD, FFN, EXPERT_FFN, EXPERTS, USED, VOCAB = 2816, 16, 8, 256, 2112, 704, 128, 8, 262144
WEIGHTS = {"bf16": None, "q8_0": "Q8_0", "q4_0": "Q4_0"}
NORMS = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2")


def tensors(layers):
    """(name, shape) of the tensors that both architectures have. Every layer has sliding-window attention, as five of six do in the published model."""
    yield "token_embd.weight", (VOCAB, HIDDEN)
    yield "output_norm.weight", (HIDDEN,)
    for layer in range(layers):
        at = f"blk.{layer}."
        for name in NORMS:
            yield f"{at}{name}.weight", (HIDDEN,)
        yield f"{at}attn_q.weight", (HEADS * HEAD, HIDDEN)
        yield f"{at}attn_k.weight", (KV_HEADS * HEAD, HIDDEN)
        yield f"{at}attn_v.weight", (KV_HEADS * HEAD, HIDDEN)
        yield f"{at}attn_output.weight", (HIDDEN, HEADS * HEAD)
        yield f"{at}attn_q_norm.weight", (HEAD,)
        yield f"{at}attn_k_norm.weight", (HEAD,)
        yield f"{at}ffn_gate.weight", (FFN, HIDDEN)
        yield f"{at}ffn_up.weight", (FFN, HIDDEN)
        yield f"{at}ffn_down.weight", (HIDDEN, FFN)
        yield f"{at}ffn_gate_inp.weight", (EXPERTS, HIDDEN)
        yield f"{at}ffn_gate_inp.scale", (HIDDEN,)
        yield f"{at}ffn_gate_up_exps.weight", (EXPERTS, 2 * EXPERT_FFN, HIDDEN)
        yield f"{at}ffn_down_exps.weight", (EXPERTS, HIDDEN, EXPERT_FFN)
        yield f"{at}ffn_down_exps.scale", (EXPERTS,)
        yield f"{at}layer_output_scale.weight", (1,)


def writer_of(path, architecture, layers):
    """A GGUF writer with the metadata keys of the architecture."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(262144)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv([KV_HEADS] * layers)
    for suffix, size in (("", 2 * HEAD), ("_swa", HEAD)):
        writer.add_uint32(f"{architecture}.attention.key_length{suffix}", size)
        writer.add_uint32(f"{architecture}.attention.value_length{suffix}", size)
        writer.add_uint32(f"{architecture}.rope.dimension_count{suffix}", size)
    writer.add_rope_freq_base(1000000.0)
    writer.add_float32(f"{architecture}.rope.freq_base_swa", 10000.0)
    writer.add_sliding_window(1024)
    writer.add_sliding_window_pattern([True] * layers)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_uint32(f"{architecture}.attention.shared_kv_layers", 0)
    writer.add_uint32(f"{architecture}.embedding_length_per_layer_input", 0)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(EXPERT_FFN)
    writer.add_final_logit_softcapping(30.0)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("no_vocab")
    writer.add_eos_token_id(1)
    if architecture == "diffusion-gemma":
        writer.add_causal_attention(False)
        writer.add_uint32("diffusion.canvas_length", 256)
    return writer


def write_gemma(arguments):
    """Random weights in BF16; runs in the virtual environment."""
    import gguf

    writer = writer_of(arguments.file, "gemma4", arguments.layers)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    beside_ggml.write_random_tensors(writer, list(tensors(arguments.layers)), lambda name: "gate_inp" in name)


def write_diffusion(arguments):
    """Copies a Gemma 4 file as DiffusionGemma and adds the self-conditioning tensors; runs in the virtual environment."""
    import gguf
    import numpy

    writer = writer_of(arguments.file, "diffusion-gemma", arguments.layers)
    for tensor in gguf.GGUFReader(arguments.source).tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    for layer in range(arguments.layers):
        writer.add_tensor(f"blk.{layer}.enc_layer_output_scale.weight", numpy.ones(1, numpy.float32))
    # Full-attention layers apply RoPE to the first quarter of the dimensions.
    writer.add_tensor("rope_freqs.weight", numpy.where(numpy.arange(HEAD) < HEAD // 4, 1, 1e30).astype(numpy.float32))
    small = numpy.float32(0.01)
    writer.add_tensor("self_cond_pre_norm.weight", numpy.ones(HIDDEN, numpy.float32))
    writer.add_tensor("self_cond_gate.weight", numpy.full((FFN, HIDDEN), small))
    writer.add_tensor("self_cond_up.weight", numpy.full((FFN, HIDDEN), small))
    writer.add_tensor("self_cond_down.weight", numpy.full((HIDDEN, FFN), small))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def file_of(arguments, architecture, weights):
    return arguments.build / f"{architecture}-{arguments.layers}-layers-{weights}.gguf"


def build_pass(arguments):
    """Compiles bench/ggml/ggml_pass.cpp with llama.cpp's libraries."""
    out = program(arguments, "ggml_pass")
    if out.exists():
        return
    source = arguments.build / beside_ggml.PACKAGE / "vendor" / "llama.cpp"
    libraries = [arguments.build / "llama.cpp" / name for name in ("src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a",
                                                                   "ggml/src/libggml-base.a")]
    run("c++", "-O2", "-std=c++20", "-I", source / "include", "-I", source / "ggml/include", pathlib.Path(__file__).parent / "ggml" / "ggml_pass.cpp", *libraries,
        "-fopenmp", "-lpthread", "-ldl", "-o", out)


def prepare(arguments):
    os.nice(10)
    arguments.build.mkdir(parents=True, exist_ok=True)
    beside_ggml.build_programs(arguments)
    build_pass(arguments)
    python = beside_ggml.venv(arguments)
    unfinished = arguments.build / "unfinished.gguf"
    for weights, kind in WEIGHTS.items():
        gemma, diffusion = (file_of(arguments, name, weights) for name in ("gemma4", "diffusion-gemma"))
        if not gemma.exists():
            if kind is None:
                run(python, __file__, "write-gemma", unfinished, "--layers", arguments.layers)
            else:
                run(program(arguments, "llama-quantize"), "--pure", "--token-embedding-type", "q8_0", file_of(arguments, "gemma4", "bf16"),
                    unfinished, kind, arguments.jobs)
            unfinished.rename(gemma)
        if not diffusion.exists():
            run(python, __file__, "write-diffusion", unfinished, gemma, "--layers", arguments.layers)
            unfinished.rename(diffusion)


def measure_lacuna(arguments, weights, rows):
    steps = read_json(arguments.lacuna, "bench", "step", "-m", file_of(arguments, "diffusion-gemma", weights), "--canvas", arguments.canvas,
                      "--rows", rows, "--repeat", arguments.repeat, "--threads", arguments.threads, "--json")["results"]
    return steps[0]["seconds_median"], steps[0]["gflops"] * steps[0]["seconds_median"]


def measure_ggml(arguments, weights, rows):
    out = subprocess.run(list(map(str, (program(arguments, "ggml_pass"), file_of(arguments, "gemma4", weights), arguments.canvas, rows,
                                        arguments.threads, arguments.repeat))), check=True, stdout=subprocess.PIPE, text=True).stdout
    return statistics.median(map(float, out.split()))


def measure(arguments):
    rows_of = [int(part) for part in arguments.rows.split(",")]
    seconds = {(name, weights, rows): [] for weights in WEIGHTS for rows in rows_of for name in ("lacuna", "ggml")}
    work = {}
    for _ in range(arguments.rounds):
        for weights in WEIGHTS:
            for rows in rows_of:
                time, work[rows] = measure_lacuna(arguments, weights, rows)
                seconds["lacuna", weights, rows].append(time)
                seconds["ggml", weights, rows].append(measure_ggml(arguments, weights, rows))
    results = []
    for weights in WEIGHTS:
        for rows in rows_of:
            lacuna, ggml = (statistics.median(seconds[name, weights, rows]) for name in ("lacuna", "ggml"))
            results.append({"weights": weights, "rows": rows, "lacuna_seconds": lacuna, "ggml_seconds": ggml, "ratio": ggml / lacuna,
                            "lacuna_gflops": work[rows] / lacuna, "ggml_gflops": work[rows] / ggml})
    print(f"canvas of {arguments.canvas}, {arguments.layers} layers, {arguments.threads} threads, llama.cpp of {beside_ggml.PACKAGE}")
    print("weights   rows   Lacuna s  llama.cpp s   ratio")
    for each in results:
        print(f"{each['weights']:7} {each['rows']:6}  {each['lacuna_seconds']:9.3f}  {each['ggml_seconds']:11.3f}  {each['ratio']:6.2f}")
    if arguments.json:
        print(json.dumps({"layers": arguments.layers, "canvas": arguments.canvas, "threads": arguments.threads,
                          "llama_cpp": beside_ggml.PACKAGE, "results": results}))


def main():
    line = beside_ggml.CommandLine(__doc__, layers=2)
    line.add_prepare(prepare)
    line.add("write-gemma", write_gemma, "internal: prepare writes the model with it, where gguf and numpy are installed").add_argument("file")
    command = line.add("write-diffusion", write_diffusion, "internal: prepare rewrites a Gemma 4 file as DiffusionGemma with it")
    command.add_argument("file")
    command.add_argument("source")
    command = line.add_measure(measure, repeat=3)
    command.add_argument("--canvas", type=int, default=256)
    command.add_argument("--rows", default="256,32,8,1", help="row counts, separated by commas (default %(default)s)")
    line.run()


if __name__ == "__main__":
    main()
