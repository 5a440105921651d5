"""Answers a file of prompts with several processes, by Ray Data:

    python3 ray_batch.py MODEL PROMPTS.jsonl ANSWERS --workers 2

PROMPTS.jsonl has one {"id": ..., "prompt": "..."} on each line. ANSWERS becomes a folder of JSON lines with "id", "prompt", "text",
"tokens" and "passes". Started again, it answers what has no answer there yet.
"""
import argparse
import json
import pathlib

import ray


class Answerer:
    """One process with a model of its own; the prompts of a batch share forward passes."""

    def __init__(self, model: str, threads: int, settings: dict):
        import lacuna

        self.model = lacuna.load(model, threads=threads)
        self.settings = settings

    def __call__(self, batch: dict) -> dict:
        answers = self.model.generate_batch(list(batch["prompt"]), **self.settings)
        batch["text"] = [answer.text for answer in answers]
        batch["tokens"] = [answer.answer_tokens for answer in answers]
        batch["passes"] = [answer.stats.forward_passes for answer in answers]
        return batch


def rows_of(files) -> list[dict]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("prompts", type=pathlib.Path)
    parser.add_argument("answers", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=2, help="processes, each with its own copy of the model")
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--batch", type=int, default=16, help="prompts that a worker answers in shared passes")
    parser.add_argument("--gen-length", type=int, default=64)
    args = parser.parse_args()

    answered = {row["id"] for row in rows_of(sorted(args.answers.glob("*.json")))}
    open_prompts = [row for row in rows_of([args.prompts]) if row["id"] not in answered]
    print(f"{len(answered)} answered before, {len(open_prompts)} to answer")
    if not open_prompts:
        return
    ray.init(num_cpus=args.workers * args.threads, include_dashboard=False, log_to_driver=False)
    answers = ray.data.from_items(open_prompts).map_batches(
        Answerer, fn_constructor_args=(args.model, args.threads, {"gen_length": args.gen_length}),
        batch_size=args.batch, concurrency=args.workers, num_cpus=args.threads)
    answers.write_json(str(args.answers.resolve()), mode="append")  # a file for each finished block
    print(f"{len(rows_of(sorted(args.answers.glob('*.json'))))} answers in {args.answers}")


if __name__ == "__main__":
    main()
