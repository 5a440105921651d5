"""The Python module: PYTHONPATH=build/dev/python python3 tests/python/test_lacuna.py

Or, of an installed wheel, without PYTHONPATH.
"""
import asyncio
import contextlib
import gc
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import lacuna

ROOT = Path(__file__).resolve().parents[2]
if not (Path(lacuna.__file__).parent / "models").exists():  # a wheel has them
    os.environ.setdefault("LACUNA_MODELS", str(ROOT / "models"))
STORY = "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?"
ANSWER = "12+7=19. 19-5=14. The answer is 14."
MODELS = {}


def model(name="mini-llada", **options):
    key = (name, *options.items())
    if key not in MODELS:
        MODELS[key] = lacuna.load(name, **options)
    return MODELS[key]


class Equal(lacuna.UnmaskPolicy):
    """The built-in threshold rule, written again."""

    def __init__(self, threshold):
        self.threshold = threshold

    def choose(self, candidates):
        return candidates.probability >= self.threshold


@contextlib.contextmanager
def saved_preset(name, *flags):
    """A configuration folder in which `lacuna tune` has saved a preset of mini-llada."""
    program = os.environ.get("LACUNA_PROGRAM")
    if not program:
        raise unittest.SkipTest("needs LACUNA_PROGRAM, which saves the preset")
    with tempfile.TemporaryDirectory() as folder, \
            mock.patch.dict(os.environ, XDG_CONFIG_HOME=folder, XDG_CACHE_HOME=folder):
        subprocess.run([program, "tune", "-m", str(ROOT / "models/mini-llada"), "--task", "arithmetic", "--samples", "40",
                        *flags, "--save", name], check=True, capture_output=True)
        yield


class ModelTest(unittest.TestCase):
    def test_answers_at_defaults(self):
        for name in ("mini-llada", "mini-dream", "mini-sdar", "mini-gidd", "mini-refusion", "mini-qwen"):
            self.assertEqual(model(name).generate(STORY).text, ANSWER, name)

    def test_uses_a_saved_preset_of_its_model_alone(self):
        with saved_preset("quick", "--risk", "0.2", "--methods", "unmask"):
            answer = model().generate(STORY, preset="quick")
            self.assertEqual(answer.text, ANSWER)
            self.assertLess(answer.stats.rows, answer.stats.rows_baseline / 2)
            with self.assertRaisesRegex(lacuna.Error, "was tuned for other files than those of"):
                model("mini-dream").generate(STORY, preset="quick")

    def test_uses_a_saved_preset_of_its_formats_alone(self):
        with saved_preset("small", "--risk", "0.3", "--methods", "weights", "--gflops", "400", "--bandwidth", "1"):
            with self.assertRaisesRegex(lacuna.Error, "expected a model that is loaded with weights int") as refused:
                model().generate(STORY, preset="small")
            weights = str(refused.exception).rpartition(" ")[2]
            self.assertEqual(lacuna.load(str(ROOT / "models/mini-llada"), weights=weights).generate(STORY, preset="small").text,
                             ANSWER)

    def test_takes_caches_and_sparse_attention_as_values(self):
        self.assertEqual(model().generate(STORY, lacuna.Masked(cache=lacuna.DllmCache(answer=3))).text, ANSWER)
        plain = model("mini-sdar").generate(STORY, lacuna.Blocks())
        for strategy in (lacuna.Blocks(sparse=lacuna.FlashBlock(1)), lacuna.Blocks(sparse=lacuna.Losa(64)),
                         lacuna.Blocks(sparse=lacuna.Quest(64)), lacuna.Blocks(focus=1.5)):
            self.assertEqual(model("mini-sdar").generate(STORY, strategy).text, plain.text, strategy)

    def test_tells_what_an_answer_took(self):
        answer = model().generate(STORY, lacuna.Masked(unmask=lacuna.Threshold(0.9), cache="dkv"))
        self.assertEqual(str(answer), ANSWER)
        self.assertEqual(answer.tokens.dtype, np.int32)
        self.assertEqual(answer.stop_reason, "eos")
        self.assertLess(answer.stats.rows, answer.stats.rows_baseline / 2)
        self.assertEqual(len(answer.events), answer.stats.forward_passes)
        self.assertEqual(model().detokenize(answer.tokens[:answer.answer_tokens]), ANSWER)

    def test_takes_settings_by_the_names_of_other_libraries(self):
        self.assertEqual(len(model().generate(STORY, max_new_tokens=32).tokens), 32)
        self.assertEqual(len(model().generate(STORY, lacuna.Masked(gen_length=48)).tokens), 48)

    def test_takes_conversations_and_tokens(self):
        turns = [{"role": "user", "content": STORY}]
        self.assertEqual(model().generate(turns).text, ANSWER)
        tokens = model().render(turns)
        self.assertEqual(model().generate(tokens).text, ANSWER)
        self.assertEqual(model().generate(tokens.tolist()).text, ANSWER)

    def test_streams_passes(self):
        committed = []
        with model().stream(STORY, unmask="threshold=0.9") as stream:
            for event in stream:
                committed += [(commit.position, commit.token) for commit in event.committed]
                last = event
        tokens = stream.answer.tokens
        self.assertEqual(stream.answer.text, ANSWER)
        self.assertTrue(np.array_equal(last.canvas[last.prompt_tokens:], tokens))
        for position, token in committed:
            self.assertEqual(tokens[position - last.prompt_tokens], token)

    def test_ends_a_stream_that_is_left(self):
        stream = model().stream(STORY, gen_length=512)
        next(stream)
        stream.close()
        self.assertLess(stream.answer.stats.forward_passes, 512)

    def test_ends_when_a_callback_says_so(self):
        self.assertEqual(model().generate(STORY, callback=lambda event: event.step < 2).stats.forward_passes, 3)

    def test_batches_give_the_texts_of_single_requests(self):
        prompts = [STORY.replace("12", str(number)) for number in range(8, 24)]
        alone = [model().generate(prompt).text for prompt in prompts]
        self.assertEqual([answer.text for answer in model().generate_batch(prompts)], alone)

    def test_batches_may_be_long(self):
        answers = model().generate_batch((STORY for _ in range(300)), unmask="threshold=0.9")
        self.assertEqual({answer.text for answer in answers}, {ANSWER})
        self.assertEqual(len(answers), 300)
        self.assertEqual(answers[0].events, [])
        kept = model().generate_batch([STORY], events=True)[0]
        self.assertEqual(len(kept.events), kept.stats.forward_passes)

    def test_two_threads_share_a_model(self):
        texts = [None, None]

        def ask(i):
            texts[i] = [model().generate(STORY).text for _ in range(10)]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(texts, [[ANSWER] * 10] * 2)

    def test_answers_async_programs(self):
        async def both():
            return await asyncio.gather(model().generate_async(STORY), model("mini-sdar").generate_async(STORY))

        self.assertEqual([answer.text for answer in asyncio.run(both())], [ANSWER] * 2)

    def test_fills_holes(self):
        text = "Mia has 12 shells. She finds [[1]] more. Now she has 19 shells."
        self.assertEqual(model().infill(text).text, text.replace("[[1]]", "7"))

    def test_decides_in_both_formats(self):
        question = {"type": "predicate", "instructions": "Is Ben happy?"}
        answer, = model().decide("Ben is happy.", [question])
        named = model().decide("Ben is happy.", {"happy": {"type": "noul", "instructions": "Is Ben happy?"}})
        self.assertEqual(answer["probability"], named["happy"]["noul"])
        with self.assertRaisesRegex(lacuna.Error, "type is \"rank\""):
            model().decide("x", [{"type": "rank", "instructions": "?"}])

    def test_gives_logits(self):
        tokens = model("mini-qwen").tokenize(STORY)
        logits = model("mini-qwen").logits(tokens)
        self.assertEqual(logits.shape, (len(tokens), model("mini-qwen").info.vocab_size))
        self.assertEqual(logits.dtype, np.float32)
        prefix = model("mini-qwen").logits(tokens[:5])  # a causal model: later tokens change nothing
        self.assertTrue(np.array_equal(prefix, logits[:5]))

    def test_evaluates_like_the_program(self):
        program = os.environ.get("LACUNA_PROGRAM")
        for task, samples, least in (("arithmetic", 40, 38), ("infill", 20, 1)):
            with self.subTest(task):
                found = model().evaluate(task, samples=samples)
                self.assertGreaterEqual(found.correct, least)
                self.assertLess(found.accuracy_low, found.accuracy)
                if program:
                    printed = json.loads(subprocess.run(
                        [program, "eval", "-m", "mini-llada", "--task", task, "--samples", str(samples), "--json"],
                        capture_output=True, text=True, check=True).stdout)
                    self.assertEqual((found.correct, found.rows), (printed["correct"], printed["rows"]))

    def test_takes_the_length_of_answers_by_any_of_its_names(self):
        for name in ("gen_length", "max_new_tokens", "n_predict", "max-tokens"):
            self.assertEqual(len(model().evaluate("arithmetic", samples=1, **{name: 24}).answers[0].tokens), 24, name)

    def test_scores_texts(self):
        tokens = [model().tokenize(text) for text in ("Mia has 12 shells.", " She finds 7 more.")]
        first, second = model().log_likelihoods([tokens, tokens], draws=16, seed=3)
        self.assertLess(first, 0)
        self.assertNotEqual(first, second)  # samples of their own
        self.assertEqual(first, model().log_likelihoods([tokens], draws=16, seed=3)[0])

    def test_replays_and_draws_canvases(self):
        answer = model().generate(STORY)
        drawn = io.StringIO()
        answer.replay(file=drawn)
        self.assertEqual(drawn.getvalue().strip(), ANSWER)
        page = answer._repr_html_()
        self.assertIn(f'max="{len(answer.events)}"', page)
        self.assertNotIn("</script></script>", page)

    def test_keeps_no_memory(self):
        for i in range(600):
            if i == 100:
                gc.collect()
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            model().generate(STORY, unmask="threshold=0.5", gen_length=16)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 4096)  # KiB

    def test_answers_in_a_form(self):
        schema = {"type": "object", "required": ["z", "a"], "additionalProperties": False,
                  "properties": {"z": {"type": "integer", "minimum": 0, "maximum": 99}, "a": {"enum": ["Mia", "Sam"]}}}
        for name in ("mini-llada", "mini-sdar", "mini-gidd", "mini-qwen"):
            value = json.loads(model(name).generate(STORY, json_schema=schema, gen_length=64).text)
            self.assertEqual(list(value), ["z", "a"], name)
            self.assertIsInstance(value["z"], int, name)
            self.assertRegex(model(name).generate(STORY, regex="[0-9]{1,2}", gen_length=16).text, r"\A[0-9]{1,2}\Z")
            self.assertIn(model(name).generate(STORY, choice=["yes", "no"], gen_length=16).text, ("yes", "no"))
            self.assertIsInstance(json.loads(model(name).generate(STORY, json_object=True, gen_length=32).text), dict)
        with self.assertRaisesRegex(lacuna.Error, "schema"):
            model().generate(STORY, json_schema={"not": {}})

    def test_calls_functions_and_takes_their_results(self):
        find = {"name": "find", "description": "Says where something is.", "parameters": {
            "type": "object", "required": ["what"], "properties": {"what": {"enum": ["shells", "barn"]}}}}
        for name in ("mini-llada", "mini-qwen"):
            messages = [{"role": "user", "content": STORY}]
            answer = model(name).generate(messages, tools=[find], tool_choice="required", gen_length=96)
            self.assertTrue(answer.tool_calls, name)
            messages.append(answer.message)
            for call in answer.tool_calls:
                self.assertEqual(call.name, "find")
                self.assertIn(call.arguments["what"], ("shells", "barn"))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "in the barn"})
            nested = [{"type": "function", "function": find}]
            answer = model(name).generate(messages, tools=nested, tool_choice={"type": "function", "function": {"name": "find"}},
                                          parallel_tool_calls=False, gen_length=96)
            self.assertEqual(len(answer.tool_calls), 1)
            free = model(name).generate(STORY, tools=[find], gen_length=96)
            self.assertEqual(free.message["content"], free.text if not free.tool_calls else "")
        with self.assertRaisesRegex(lacuna.Error, "tool_call_id is"):
            model().generate([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "y", "content": "z"}])
        with self.assertRaisesRegex(lacuna.Error, "tools.0.name is missing"):
            model().generate(STORY, tools=[{}])
        self.assertEqual(model().generate(STORY).message, {"role": "assistant", "content": model().generate(STORY).text})

    def test_runs_the_example_of_tools(self):
        example = Path(__file__).resolve().parents[2] / "examples" / "tools.py"
        printed = subprocess.run([sys.executable, example, "mini-llada"], check=True, capture_output=True, text=True, timeout=300)
        self.assertRegex(printed.stdout, r"\Aadd \{'a': -?[0-9]+, 'b': -?[0-9]+\}\n")

    def test_answers_in_a_form_on_a_canvas_that_grows(self):
        schema = {"type": "object", "required": ["z"], "properties": {"z": {"type": "integer", "maximum": 99}}}
        answer = model().generate(STORY, json_schema=schema, gen_length="auto", grow="end-mass,start=4")
        self.assertIsInstance(json.loads(answer.text)["z"], int)
        self.assertRegex(model().infill("Mia has [[*]] shells.", regex=r"Mia has [0-9]{1,2} shells\.").text, r"\AMia has [0-9]{1,2} shells\.\Z")


class PolicyTest(unittest.TestCase):
    def test_like_a_built_in_rule_gives_its_tokens(self):
        for name, strategy in (("mini-llada", lacuna.Masked), ("mini-sdar", lacuna.Blocks)):
            built_in = model(name).generate(STORY, strategy(unmask=lacuna.Threshold(0.9)))
            written = model(name).generate(STORY, strategy(unmask=Equal(0.9)))
            self.assertTrue(np.array_equal(written.tokens, built_in.tokens), name)
            self.assertEqual(written.stats.forward_passes, built_in.stats.forward_passes, name)

    def test_sees_the_candidates(self):
        seen = []

        class Leftmost(lacuna.UnmaskPolicy):
            def choose(self, candidates):
                seen.append(candidates)
                return candidates.position[:1]

        answer = model().generate(STORY, lacuna.Masked(unmask=Leftmost(), gen_length=32))
        self.assertEqual([len(candidates) for candidates in seen], list(range(32, 0, -1)))
        self.assertEqual([int(candidates.age[0]) for candidates in seen], list(range(32)))
        self.assertTrue(all((candidates.entropy >= 0).all() for candidates in seen))
        order = [event.committed[0].position for event in answer.events]
        self.assertEqual(order, sorted(order))

    def test_that_chooses_nothing_gets_the_most_probable(self):
        class Never(lacuna.UnmaskPolicy):
            def choose(self, candidates):
                return candidates.position[candidates.entropy < 0]

        answer = model().generate(STORY, lacuna.Masked(unmask=Never(), gen_length=32))
        self.assertEqual(answer.stats.forward_passes, 32)
        self.assertEqual(answer.text, ANSWER)

    def test_that_fails_ends_its_request_with_its_traceback(self):
        class Broken(lacuna.UnmaskPolicy):
            def choose(self, candidates):
                raise KeyError("here")

        names = []
        try:
            model().generate(STORY, lacuna.Masked(unmask=Broken()))
        except KeyError as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        self.assertIn("choose", names)
        self.assertEqual(model().generate(STORY).text, ANSWER)

    def test_that_chooses_other_positions_is_refused(self):
        class Elsewhere(lacuna.UnmaskPolicy):
            def choose(self, candidates):
                return [0]

        with self.assertRaisesRegex(lacuna.Error, "position 0, which is not a candidate"):
            model().generate(STORY, lacuna.Masked(unmask=Elsewhere()))


class ErrorTest(unittest.TestCase):
    def test_names_what_is_wrong(self):
        cases = (
            (lambda: lacuna.load("no-such-model"), "no-such-model"),
            (lambda: model().generate(STORY, lacuna.Blocks()), r"lacuna\.Masked"),
            (lambda: model().generate(STORY, "fast"), r"lacuna\.Masked"),
            (lambda: model().generate(STORY, tempature=1), "tempature"),
            (lambda: model().generate(STORY, temperature=-1), "temperature"),
            (lambda: model().generate(STORY, steps="many"), "steps"),
            (lambda: model().generate([1, 99999]), "99999"),
            (lambda: model().generate([]), "prompt|tokens"),
            (lambda: model().generate([{"role": "user"}]), "role"),
            (lambda: model().logits([[1, 2]]), "shape"),
            (lambda: model().evaluate("arithmetics"), "arithmetics"),
            (lambda: model().evaluate("arithmetic", samples=0), "samples"),
            (lambda: model("mini-sdar").infill("a [[1]] b"), "infill|fill"),
        )
        for number, (call, words) in enumerate(cases):
            with self.assertRaisesRegex(lacuna.Error, words, msg=str(number)):
                call()

    def test_is_a_value_error(self):
        self.assertTrue(issubclass(lacuna.Error, ValueError))


class ProcessTest(unittest.TestCase):
    def run_python(self, program, **options):
        environment = {**os.environ, "PYTHONPATH": str(Path(lacuna.__file__).resolve().parents[1])
                       if "PYTHONPATH" not in os.environ else os.environ["PYTHONPATH"]}
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60,
                              **options)

    def test_ends_with_requests_under_way(self):
        program = ("import lacuna\nm = lacuna.load('mini-llada')\n"
                   "s = m.stream('Hello', gen_length=512)\nnext(s)\nprint('left')")
        done = self.run_python(program)
        self.assertEqual((done.returncode, done.stdout), (0, "left\n"), done.stderr)

    def test_can_be_interrupted(self):
        program = ("import lacuna, os, signal, threading\nm = lacuna.load('mini-llada')\n"
                   "threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
                   "try:\n    m.generate('Hello', gen_length=512)\nexcept KeyboardInterrupt:\n    print('interrupted')")
        done = self.run_python(program)
        self.assertEqual((done.returncode, done.stdout), (0, "interrupted\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
