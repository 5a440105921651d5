"""Runs deploy/slurm as an array of tasks without Slurm: its variables are set here, and `srun` is a stub that runs its command.

    python3 tests/deploy/check_slurm.py build/dev/lacuna

The joined answers must have the bytes of one `lacuna batch` over the whole file, also after a task was killed and run again, and with
more tasks than requests. shellcheck reads the scripts where it is installed. Only the standard library is used.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SLURM = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "slurm"
MODEL = SLURM.parents[1] / "tests" / "golden" / "fast_dllm"
SRUN = '#!/bin/bash\nwhile [[ "$1" == --* ]]; do shift; done\nexec "$@"\n'


def write_requests(path, count):
    lines = [json.dumps({"custom_id": f"r{i}", "method": "POST", "url": "/v1/completions",
                         "body": {"prompt": [5 + i, 6, 7], "max_tokens": 8, "seed": i, "temperature": 1}}) for i in range(count)]
    path.write_text("\n".join(lines) + "\n")


def answers_of(text):
    """Answers without the numbers of requests, which count those of one file."""
    answers = []
    for line in text.splitlines():
        answer = json.loads(line)
        body = answer["response"]["body"]
        for part in (answer, answer["response"], body):
            part.pop("id", None)
            part.pop("request_id", None)
        answers.append(answer)
    return answers


class Array:
    def __init__(self, folder, lacuna, tasks, first=0, step=1):
        tools = folder / "bin"
        tools.mkdir(exist_ok=True)
        (tools / "srun").write_text(SRUN)
        (tools / "srun").chmod(0o755)
        if not (tools / "lacuna").exists():
            (tools / "lacuna").symlink_to(pathlib.Path(lacuna).resolve())
        self.tasks, self.first, self.step = tasks, first, step
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "1",
                            "SLURM_ARRAY_TASK_MIN": str(first), "SLURM_ARRAY_TASK_STEP": str(step),
                            "SLURM_ARRAY_TASK_MAX": str(first + (tasks - 1) * step)}

    def run(self, task, *arguments):
        environment = {**self.environment, "SLURM_ARRAY_TASK_ID": str(self.first + task * self.step)}
        return subprocess.run(["bash", SLURM / "lacuna_array.sbatch", MODEL, *arguments], env=environment, capture_output=True, text=True)


def join(folder):
    return subprocess.run(["bash", SLURM / "lacuna_join", folder], capture_output=True, text=True)


def main():
    lacuna = sys.argv[1]
    faults = []

    def expect(holds, what):
        print("ok  " if holds else "FAIL", what)
        if not holds:
            faults.append(what)

    for script in ("lacuna_array.sbatch", "lacuna_join"):
        expect(subprocess.run(["bash", "-n", SLURM / script]).returncode == 0, f"{script} is a script of bash")
        if shutil.which("shellcheck"):
            expect(subprocess.run(["shellcheck", "--shell=bash", SLURM / script]).returncode == 0, f"shellcheck finds nothing in {script}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        requests = folder / "requests.jsonl"
        write_requests(requests, 7)
        subprocess.run([lacuna, "batch", "-m", MODEL, "--threads", "1", requests, folder / "alone"], check=True, capture_output=True)
        alone = answers_of((folder / "alone").read_text())
        array = Array(folder, lacuna, 3, first=1, step=2)
        expect(array.run(0, requests, folder / "parts").returncode == 0, "a task ends well")
        expect(join(folder / "parts").returncode == 1, "answers are not joined before all tasks have ended")
        for task in (1, 2):
            array.run(task, requests, folder / "parts")
        expect(answers_of(join(folder / "parts").stdout) == alone, "three tasks answer what one process does, in order")
        part = folder / "parts" / "00001.answers"
        part.write_text(part.read_text().splitlines(keepends=True)[0])
        array.run(1, requests, folder / "parts")
        expect(answers_of(join(folder / "parts").stdout) == alone, "a task that was ended continues")
        other = Array(folder, lacuna, 2).run(0, requests, folder / "parts")
        expect(other.returncode == 2 and "3 tasks" in other.stderr, "an array of another size does not mix with it")
        many = Array(folder, lacuna, 9)
        codes = [many.run(task, requests, folder / "many").returncode for task in range(9)]
        expect(codes == [0] * 9 and answers_of(join(folder / "many").stdout) == alone, "there may be more tasks than requests")
        bare = subprocess.run(["bash", SLURM / "lacuna_array.sbatch", MODEL, requests, folder / "bare"], env={
            key: value for key, value in array.environment.items() if not key.startswith("SLURM")}, capture_output=True, text=True)
        expect(bare.returncode != 0 and "--array" in bare.stderr, "without an array it says what is missing")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
