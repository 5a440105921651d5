"""The examples for Ray, each with two processes: PYTHONPATH=build/dev/python python3 tests/python/check_ray.py"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import lacuna

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("LACUNA_MODELS", str(ROOT / "models"))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
EXAMPLES = ROOT / "examples"


def prompts(count):
    return [{"id": i, "prompt": f"Mia has {4 + i} shells. She finds 3 more. How many shells does Mia have now?"}
            for i in range(count)]


class Ray(unittest.TestCase):
    def test_a_batch_is_answered_by_two_workers_and_goes_on_where_it_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            file, answers = Path(folder, "prompts.jsonl"), Path(folder, "answers")

            def run(count):
                file.write_text("".join(json.dumps(row) + "\n" for row in prompts(count)))
                done = subprocess.run([sys.executable, EXAMPLES / "ray_batch.py", "mini-llada", file, answers, "--workers", "2",
                                       "--batch", "4", "--gen-length", "32"], capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            self.assertIn("0 answered before, 8 to answer", run(8))
            self.assertIn("8 answered before, 4 to answer", run(12))
            self.assertIn("12 answered before, 0 to answer", run(12))
            rows = {}
            for part in answers.glob("*.json"):
                rows.update((row["id"], row) for row in map(json.loads, part.read_text().splitlines()))
            model = lacuna.load("mini-llada", threads=1)
            alone = model.generate_batch([row["prompt"] for row in prompts(12)], gen_length=32)
            self.assertEqual([rows[i]["text"] for i in range(12)], [answer.text for answer in alone])

    def test_a_deployment_answers_over_http(self):
        import ray
        from ray import serve

        sys.path.insert(0, str(EXAMPLES))
        import ray_serve

        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False,
                 runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])}})
        try:
            serve.run(ray_serve.application("mini-llada", workers=2), logging_config={"log_level": "ERROR"})

            def ask(body):
                request = urllib.request.Request("http://127.0.0.1:8000/", json.dumps(body).encode())
                with urllib.request.urlopen(request, timeout=60) as reply:
                    return json.load(reply)

            for row in prompts(4):
                self.assertIn(f"The answer is {7 + row['id']}.", ask({"prompt": row["prompt"], "gen_length": 32})["text"])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                ask({"prompt": "Hi", "gen_length": -1})
            self.assertEqual(refused.exception.code, 400)
            self.assertIn("gen_length", json.load(refused.exception)["error"])
        finally:
            serve.shutdown()
            ray.shutdown()


if __name__ == "__main__":
    unittest.main()
