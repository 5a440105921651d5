"""Loaded models and their answers."""
from __future__ import annotations

import asyncio
import atexit
import collections
import json
import queue
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from lacuna import _canvas, _core
from lacuna._strategy import OF_PARADIGM, Strategy, UnmaskPolicy, chooser

#: A text, a conversation or token ids.
Prompt = Union[str, Sequence[Mapping[str, Any]], Sequence["_core.Message"], Sequence[int], np.ndarray]

_IN_FLIGHT = 64
_TURN = {"role", "content", "tool_calls", "tool_call_id"}
_SHIPPED = Path(__file__).resolve().parent / "models"


def load(model: Union[str, Path], *, dtype: str = "auto", weights: str = "auto", head_weights: str = "auto",
         kv_cache: str = "auto", activations: str = "auto", device: str = "auto", lora: Sequence[str] = (), guide: str = "",
         threads: int = 0, random_seed: int = 0, max_running: int = 32, memory: int = 4 << 30,
         ignore_memory: bool = False) -> Model:
    """Loads a model: a folder, a .gguf file, the name of a model that ships ("mini-llada"), ORG/NAME from the Hugging
    Face cache, or random:FAMILY-SIZE. Formats have the names of docs/reference/flags.md. Raises lacuna.Error where the
    model is not found, damaged, not supported or too large for the memory.

    device       what computes: "cpu", "cuda:N" in a build with CUDA, or "simulator" (slow, for tests)
    lora         adapters to merge into the weights, each "FOLDER" or "FOLDER=SCALE" as PEFT saves them
    guide        a second model: an autoregressive one verifies drafts, one of block diffusion makes them
    threads      0: one for each core that the process may use
    max_running  requests that share forward passes; others wait
    memory       bytes of keys and values that requests may hold together
    """
    options = _core.LoadOptions()
    for name, value in (("dtype", dtype), ("weights", weights), ("head_weights", head_weights), ("kv_cache", kv_cache),
                        ("activations", activations), ("device", device), ("lora", [str(each) for each in lora]),
                        ("guide", _place(guide)), ("threads", threads), ("random_seed", random_seed),
                        ("max_running", max_running), ("memory", memory), ("ignore_memory", ignore_memory)):
        setattr(options, name, value)
    return Model(_core.Session.load(_place(model), options))


def _place(model: Union[str, Path]) -> str:
    """The folder of a model that is part of the package; otherwise what was given."""
    name = str(model)
    is_shipped = name and "/" not in name and not Path(name).exists() and (_SHIPPED / name / "config.json").exists()
    return str(_SHIPPED / name) if is_shipped else name


@dataclass(frozen=True)
class ToolCall:
    """A call of a function that an answer made."""

    id: str  #: that the message with its result names
    name: str
    arguments: dict[str, Any]  #: valid against the function's schema; empty where a stop text cut the call


@dataclass
class Answer:
    """The answer of a model. In a notebook it draws its canvas, with a slider over the passes."""

    text: str  #: up to the first end token or stop text
    tokens: np.ndarray  #: int32, every generated token, those after an end token included
    prompt_tokens: int
    answer_tokens: int  #: up to and without the first end token
    stop_reason: str  #: "length", "eos" or "stop"
    seed: int
    stats: _core.Statistics
    events: list[_core.Pass] = field(default_factory=list, repr=False)  #: one for each pass, unless events=False
    tool_calls: list[ToolCall] = field(default_factory=list)  #: of a request with tools
    #: The answer as the next turn of its conversation: {"role", "content"}, and "tool_calls" where there are some.
    message: dict[str, Any] = field(default_factory=dict, repr=False)
    _model: Optional[Model] = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def replay(self, fps: float = 8, file=None) -> None:
        """Draws the passes in a terminal; elsewhere, the last canvas alone."""
        _canvas.replay(self, fps, file)

    def _repr_html_(self) -> str:
        return _canvas.html(self)


@dataclass
class Evaluation:
    """Accuracy of a model on a task, and the work that it took."""

    task: str
    samples: int
    correct: int
    accuracy: float
    accuracy_low: float  #: of the 95% Wilson interval
    accuracy_high: float
    passes: int  #: of all samples, each counted alone
    rows: int
    rows_baseline: int  #: of the family's uncached decoder
    flops: float
    flops_baseline: float
    answers: list[Answer] = field(default_factory=list, repr=False)


class Stream:
    """The passes of a request as they happen: iterate over it, then take `answer`. Leaving it (close(), or the end of
    a with block) ends the request after its next pass."""

    def __init__(self, start: Callable[[Callable[[_core.Pass], bool]], _core.Generation],
                 finish: Callable[[_core.Answer, list[_core.Pass]], Answer]):
        self._passes: queue.SimpleQueue = queue.SimpleQueue()
        self._finish = finish
        self._seen: list[_core.Pass] = []
        self._answer: Optional[Answer] = None
        self._error: Optional[BaseException] = None
        self._is_over = False
        self._generation = start(self._passes.put)
        # Waiting in a thread leaves the caller free to be interrupted.
        waiter = threading.Thread(target=_wait, args=(self._generation, self._passes), daemon=True)
        _running[waiter] = self._generation
        waiter.start()

    def __iter__(self) -> Iterator[_core.Pass]:
        return self

    def __next__(self) -> _core.Pass:
        if not self._is_over:
            found = self._passes.get()
            if isinstance(found, _core.Pass):
                self._seen.append(found)
                return found
            self._is_over = True
            if isinstance(found, BaseException):
                self._error = found
            else:
                self._answer = self._finish(found, self._seen)
        if self._error is not None:
            raise self._error
        raise StopIteration

    @property
    def answer(self) -> Answer:
        """The answer; runs the request to its end."""
        for _ in self:
            pass
        assert self._answer is not None
        return self._answer

    def close(self) -> None:
        """Ends the request after its next pass."""
        self._generation.cancel()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_over and hasattr(self, "_generation"):
            self._generation.cancel()


#: Requests that are under way, by the threads that wait for them; the interpreter cancels them before it ends.
_running: dict[threading.Thread, _core.Generation] = {}


def _wait(generation: _core.Generation, passes: queue.SimpleQueue) -> None:
    try:
        passes.put(generation.wait())
    except BaseException as error:  # raised to whoever reads the stream
        passes.put(error)
    finally:
        _running.pop(threading.current_thread(), None)


@atexit.register
def _end_all() -> None:
    running = dict(_running)
    for generation in running.values():
        generation.cancel()
    for waiter in running:
        waiter.join()
    _core.end_visits()


class Model:
    """A loaded model. Any number of threads may use it at the same time: their requests share forward passes, and each
    gets the text that it would get alone."""

    def __init__(self, session: _core.Session):
        self._session = session

    def __repr__(self) -> str:
        info = self.info
        return f"<lacuna.Model: {info.family} ({info.paradigm}), {info.num_layers} layers>"

    @property
    def info(self) -> _core.ModelInfo:
        """Properties of the model: family, paradigm, sizes, special tokens."""
        return self._session.info

    def stream(self, prompt: Prompt, strategy: Optional[Strategy] = None, *, stop: Sequence[str] = (),
               tools: Sequence[Mapping[str, Any]] = (), tool_choice: Union[str, Mapping[str, Any]] = "auto",
               parallel_tool_calls: bool = True, **settings: Any) -> Stream:
        """Starts a request and yields its passes."""
        return self._stream(prompt, strategy, stop, settings, tools=_tools(tools, tool_choice, parallel_tool_calls))

    def generate(self, prompt: Prompt, strategy: Optional[Strategy] = None, *, stop: Sequence[str] = (),
                 callback: Optional[Callable[[_core.Pass], Optional[bool]]] = None, events: bool = True,
                 tools: Sequence[Mapping[str, Any]] = (), tool_choice: Union[str, Mapping[str, Any]] = "auto",
                 parallel_tool_calls: bool = True, **settings: Any) -> Answer:
        """Answers a prompt: a text, a conversation [{"role": "user", "content": "..."}], or token ids.

        strategy  how to decode; by default as the model's family does
        stop      texts before which the answer ends
        callback  called after each pass; False ends the request
        events    whether the answer keeps its passes, for replay() and notebooks
        tools     functions that the answer may call (docs/guide/tools.md), in the form of OpenAI's chats or as
                  {"name", "description", "parameters"}; the calls are Answer.tool_calls
        tool_choice  "auto": text or calls; "required": calls; "none"; or the name of the function to call
        parallel_tool_calls  whether an answer may have several calls
        settings  more of the strategy's fields, also under names that other libraries use: max_new_tokens=64
        """
        with self._stream(prompt, strategy, stop, settings, callback, keeps_events=events,
                          tools=_tools(tools, tool_choice, parallel_tool_calls)) as stream:
            return stream.answer

    def generate_batch(self, prompts: Sequence[Prompt], strategy: Optional[Strategy] = None, *,
                       stop: Sequence[str] = (), events: bool = False, tools: Sequence[Mapping[str, Any]] = (),
                       tool_choice: Union[str, Mapping[str, Any]] = "auto", parallel_tool_calls: bool = True,
                       **settings: Any) -> list[Answer]:
        """Answers in the order of the prompts, which share forward passes. Each text is what generate() gives."""
        given = _tools(tools, tool_choice, parallel_tool_calls)
        return list(_in_order(
            lambda prompt=prompt: self._stream(prompt, strategy, stop, settings, keeps_events=events, tools=given)
            for prompt in prompts))

    async def generate_async(self, prompt: Prompt, strategy: Optional[Strategy] = None, *, stop: Sequence[str] = (),
                             tools: Sequence[Mapping[str, Any]] = (), tool_choice: Union[str, Mapping[str, Any]] = "auto",
                             parallel_tool_calls: bool = True, **settings: Any) -> Answer:
        """generate() for async programs; cancelling it ends the request."""
        stream = self._stream(prompt, strategy, stop, settings, keeps_events=False,
                              tools=_tools(tools, tool_choice, parallel_tool_calls))
        try:
            return await asyncio.get_running_loop().run_in_executor(None, lambda: stream.answer)
        finally:
            stream.close()

    def infill(self, text: str, strategy: Optional[Strategy] = None, **settings: Any) -> Answer:
        """Fills holes: [[4]] has 4 tokens, [[1-3]] 1 to 3, of which the most likely length is taken. The answer's text
        is the whole, filled text."""
        options, unmask = self._options(strategy, settings)
        if unmask is not None:
            raise _core.Error("infill does not take an UnmaskPolicy; expected one of the built-in rules")
        return self._answer(self._session.infill(text, options, None), [])

    def decide(self, text: Any, questions: Union[Sequence[Mapping[str, Any]], Mapping[str, Any]], *, orders: int = 1,
               independent: bool = False, draws: int = 4, seed: int = 0) -> Any:
        """Probabilities for answers to typed questions about a text (docs/guide/decide.md). A list of questions in
        OpenAI's format gives a list of answers; a mapping of names to questions in System One's gives a mapping."""
        key = "state" if isinstance(questions, Mapping) else "input"
        given = questions if isinstance(questions, Mapping) else list(questions)
        settings = {"orders": orders, "independent": independent, "draws": draws, "seed": seed}
        reply = self._session.decide(json.dumps({key: text, "questions": given, "lacuna": settings}))
        return json.loads(reply)["answers"]

    def evaluate(self, task: str, samples: int = 100, strategy: Optional[Strategy] = None, *, seed: int = 0,
                 **settings: Any) -> Evaluation:
        """Accuracy on a generated task (docs/guide/evaluate.md), and what the answers took. The same samples and
        settings as `lacuna eval --task TASK --samples N`."""
        if samples < 1:
            raise _core.Error(f"samples is {samples}; expected 1 or more")
        drawn = _core.task_samples(task, seed, samples)
        given = {**(strategy.settings() if strategy else {}), **settings}
        if task != "infill" and not any(_core.setting_named(name) == "gen-length" for name in given):
            settings["gen_length"] = _core.task_room(task)

        def ask(i, sample):
            prompt = sample.messages if len(sample.messages) > 1 else sample.prompt
            return self._stream(prompt, strategy, (), {**settings, "seed": seed + i}, keeps_events=False)

        if task == "infill":
            answers = [self._restore(sample, strategy, {**settings, "seed": seed + i})
                       for i, sample in enumerate(drawn)]
        else:
            answers = list(_in_order(lambda i=i, sample=sample: ask(i, sample) for i, sample in enumerate(drawn)))
        correct = sum(_core.is_correct(task, sample, answer.text) for sample, answer in zip(drawn, answers))
        low, high = _core.wilson_interval(correct, samples)

        def total(name):
            return sum(getattr(answer.stats, name) for answer in answers)

        return Evaluation(task, samples, correct, correct / samples, low, high, total("forward_passes"), total("rows"),
                          total("rows_baseline"), total("flops"), total("flops_baseline"), answers)

    def _restore(self, sample: _core.Sample, strategy: Optional[Strategy], settings: Mapping[str, Any]) -> Answer:
        """A sample of the task infill: its hole is as long as what belongs there. The text is what follows the prompt."""
        whole = sample.answer.encode()
        filling, rest = whole[:sample.hole].decode(), whole[sample.hole:].decode()
        hole = f"[[{len(self.tokenize(filling))}]]"
        answer = self.infill(sample.prompt + hole + rest, strategy, **settings)
        answer.text = answer.text[len(sample.prompt):]
        return answer

    def logits(self, tokens: Union[Sequence[int], np.ndarray]) -> np.ndarray:
        """One forward pass: float32 [len(tokens), vocab_size], the raw output of each row, nothing shifted."""
        return self._session.logits(_ids(tokens))

    def log_likelihoods(self, texts: Sequence[tuple[Sequence[int], Sequence[int]]], *, draws: int = 32,
                        seed: int = 0) -> np.ndarray:
        """Log-likelihood of the second given the first of each pair of token ids, in nats: float64 [len(texts)].

        Exact for models that write left to right and for ReFusion. For the others a lower bound, as a mean over
        `draws` random masks or noise levels, which depend on the seed (docs/guide/evaluate.md).
        """
        if not 1 <= draws <= 4096:
            raise _core.Error(f"draws is {draws}; expected 1 to 4096")
        pairs = [(_ids(given), _ids(scored)) for given, scored in texts]
        for given, scored in pairs:
            if not given or not scored:
                raise _core.Error("log_likelihoods has a pair with no tokens; expected at least one given and one scored")
        return -np.array(_core.negative_log_likelihoods(self._session, pairs, draws, seed))

    def tokenize(self, text: str) -> np.ndarray:
        """Token ids, int32. Special tokens in the text are taken as plain text."""
        return self._session.tokenize(text)

    def detokenize(self, tokens: Union[Sequence[int], np.ndarray]) -> str:
        """The text of token ids; invalid UTF-8 becomes U+FFFD."""
        return self._session.detokenize(_ids(tokens)).decode("utf-8", "replace")

    def render(self, messages: Sequence[Union[Mapping[str, Any], _core.Message]]) -> np.ndarray:
        """Token ids of the prompt for an assistant's answer to a conversation."""
        return self._session.render(_messages(messages))

    def _stream(self, prompt, strategy, stop, settings, callback=None, keeps_events=True, tools="") -> Stream:
        options, unmask = self._options(strategy, settings)

        def start(put):
            def seen(event):
                if keeps_events:
                    put(event)
                return callback(event) if callback else None
            on_pass = seen if keeps_events or callback else None
            return self._session.start(_prompt(prompt), options, [stop] if isinstance(stop, str) else list(stop), on_pass,
                                       unmask, tools)

        def finish(answer, events):
            finished = self._answer(answer, events)
            finished.message = json.loads(answer.message_json) if tools else {"role": "assistant", "content": answer.text}
            finished.tool_calls = [_tool_call(call) for call in finished.message.get("tool_calls", ())]
            return finished

        return Stream(start, finish)

    def _options(self, strategy: Optional[Strategy], settings: Mapping[str, Any]) -> tuple[dict, Optional[Callable]]:
        """Settings by name, and the rule that is a Python object."""
        options: dict[str, Any] = {}
        if strategy is not None:
            if not isinstance(strategy, Strategy):
                raise _core.Error(f"strategy is {strategy!r}; expected lacuna.{self._strategy_name()}(...)")
            if strategy.paradigm and strategy.paradigm != self.info.paradigm:
                raise _core.Error(f"strategy is lacuna.{type(strategy).__name__}(...), but {self.info.family} models are "
                                  f"{self.info.paradigm}; expected lacuna.{self._strategy_name()}(...)")
            options.update(strategy.settings())
        options.update((name, value) for name, value in settings.items() if value is not None)
        unmask = None
        if isinstance(options.get("unmask"), UnmaskPolicy):
            unmask = chooser(options.pop("unmask"))
        return {name: _plain(value) for name, value in options.items()}, unmask

    def _strategy_name(self) -> str:
        return OF_PARADIGM[self.info.paradigm].__name__

    def _answer(self, answer: _core.Answer, events: list[_core.Pass]) -> Answer:
        return Answer(answer.text, answer.tokens, answer.prompt_tokens, answer.answer_tokens, answer.stop_reason,
                      answer.seed, answer.stats, events, _model=self)


def _in_order(starts: Iterable[Callable[[], Stream]]) -> Iterator[Answer]:
    """The answers of many requests, of which a bounded number runs or waits at a time."""
    waiting: collections.deque[Stream] = collections.deque()
    try:
        for start in starts:
            waiting.append(start())
            if len(waiting) >= _IN_FLIGHT:
                yield waiting.popleft().answer
        while waiting:
            yield waiting.popleft().answer
    finally:
        for stream in waiting:
            stream.close()


def _plain(value: Any) -> Union[bool, int, float, str, list[str]]:
    """A value as the engine takes it: NumPy's numbers as Python's, JSON schemas and rules as their texts."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _tools(tools: Sequence[Mapping[str, Any]], choice: Union[str, Mapping[str, Any]], is_parallel: bool) -> str:
    """The tools of a request, as JSON; empty without tools."""
    if not tools and choice in ("auto", "none"):
        return ""
    return json.dumps({"tools": list(tools), "tool_choice": choice, "parallel_tool_calls": is_parallel})


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:  # a stop text cut it
        arguments = {}
    return ToolCall(call["id"], function["name"], arguments if isinstance(arguments, dict) else {})


def _ids(tokens: Union[Sequence[int], np.ndarray]) -> list[int]:
    array = np.asarray(tokens)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise _core.Error(f"tokens have shape {array.shape} and type {array.dtype}; expected one row of integers")
    return array.tolist()


def _messages(messages: Sequence[Any]) -> list[_core.Message]:
    turns: list[Mapping[str, Any]] = []
    for turn in messages:
        if isinstance(turn, _core.Message):
            turns.append({"role": turn.role, "content": turn.content})
        elif isinstance(turn, Mapping) and "role" in turn and {"content", "tool_calls"} & set(turn) and set(turn) <= _TURN:
            turns.append(turn)
        else:
            raise _core.Error(f'messages hold {turn!r}; expected {{"role": "user", "content": "..."}}')
    return _core.conversation(json.dumps(turns))


def _prompt(prompt: Prompt) -> Union[str, list]:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, np.ndarray):
        return _ids(prompt)
    items = list(prompt)
    if items and isinstance(items[0], (Mapping, _core.Message)):
        return _messages(items)
    return _ids(items)
