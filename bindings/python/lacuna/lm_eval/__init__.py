"""Lacuna as a model of lm-evaluation-harness (pip install lm-eval):

    python -m lacuna.lm_eval --model lacuna --model_args model=mini-llada --tasks gsm8k

model_args: model, what lacuna.load() takes besides (weights=int8, threads=4), settings of the strategy
(unmask=threshold=0.9 is written unmask:threshold=0.9 here, because the harness splits at "="), draws and seed of
likelihoods, max_gen_toks.
"""
from __future__ import annotations

import inspect
import itertools
import json
from typing import Any

import lacuna
import lm_eval.models  # noqa: F401  registers the models of the harness
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

_OF_LOAD = frozenset(inspect.signature(lacuna.load).parameters) - {"model"}
_CHAT = "lacuna chat:"


@register_model("lacuna")
class LacunaLM(LM):
    """Answers and log-likelihoods of any model that Lacuna runs. Likelihoods of diffusion models are lower bounds
    (lacuna.Model.log_likelihoods); whether a continuation is the greedy one is only known of causal models."""

    def __init__(self, model: Any = None, *, draws: int = 32, seed: int = 0, max_gen_toks: int = 256,
                 batch_size: Any = None, max_batch_size: Any = None, device: Any = None, **settings: Any):
        super().__init__()
        if model is None:
            raise lacuna.Error("model_args has no model; expected model=NAME, a folder or a .gguf file")
        of_load = {name: settings.pop(name) for name in list(settings) if name in _OF_LOAD}
        self.model = model if isinstance(model, lacuna.Model) else lacuna.load(str(model), **of_load)
        self._settings = {name: _rule(value) for name, value in settings.items()}
        self._likelihood = {"draws": int(draws), "seed": int(seed)}
        self._seed = int(seed)
        self._max_gen_toks = int(max_gen_toks)

    @property
    def tokenizer_name(self) -> str:
        return self.model.info.family  # names the cache of rendered requests

    def chat_template(self, chat_template: Any = False) -> str:
        return ""  # the model's own, applied by the engine

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return _CHAT + json.dumps(chat_history)

    def generate_until(self, requests: list, disable_tqdm: bool = False) -> list[str]:
        answers = []
        for kwargs, same in itertools.groupby(requests, key=lambda request: request.args[1]):
            part = list(same)
            stop, settings = self._generation(kwargs)
            prompts = [self._prompt(request.args[0]) for request in part]
            ends_early = self.model.info.paradigm == "causal"  # the others fill their canvas all the same
            found = self.model.generate_batch(prompts, stop=stop if ends_early else (), seed=self._seed, **settings)
            for request, answer in zip(part, found):
                text = _before(answer.text, stop)
                self.cache_hook.add_partial("generate_until", request.args, text)
                answers.append(text)
        return answers

    def loglikelihood(self, requests: list, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        pairs = [self._pair(*request.args) for request in requests]
        found = self.model.log_likelihoods(pairs, **self._likelihood) if pairs else []
        results = [(float(value), self._is_greedy(*pair)) for value, pair in zip(found, pairs)]
        for request, result in zip(requests, results):
            self.cache_hook.add_partial("loglikelihood", request.args, result)
        return results

    def loglikelihood_rolling(self, requests: list, disable_tqdm: bool = False) -> list[float]:
        sums = []
        for request in requests:
            tokens = self.model.tokenize(request.args[0]).tolist()
            # Windows as long as the context, each after the last token of the one before it.
            size = self.model.info.context - 1
            pairs = [([tokens[begin - 1]] if begin else self._start(), tokens[begin:begin + size])
                     for begin in range(0, len(tokens), size)]
            sums.append(float(sum(self.model.log_likelihoods(pairs, **self._likelihood))) if pairs else 0.0)
        return sums

    def _prompt(self, context: str) -> Any:
        if context.startswith(_CHAT):
            return json.loads(context[len(_CHAT):])
        return self.model.tokenize(context) if context else self._start()

    def _pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokens of both, split where the context's own tokens end; blanks go to the continuation."""
        if context.startswith(_CHAT):
            given = self.model.render(json.loads(context[len(_CHAT):])).tolist()
            return given, self.model.tokenize(continuation).tolist()
        kept = context.rstrip()
        continuation = context[len(kept):] + continuation
        given = self.model.tokenize(kept).tolist()
        scored = self.model.tokenize(kept + continuation).tolist()[len(given):]
        return given or self._start(), scored

    def _start(self) -> list[int]:
        """The context of a text that is scored from its first token: an end token."""
        return [self.model.info.end_tokens[0]] if len(self.model.info.end_tokens) else [0]

    def _is_greedy(self, given: list[int], scored: list[int]) -> bool:
        if self.model.info.paradigm != "causal":
            return False
        logits = self.model.logits(given + scored)[len(given) - 1:-1]
        return bool((logits.argmax(axis=1) == scored).all())

    def _generation(self, kwargs: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        until = kwargs.get("until") or []
        settings = dict(self._settings)
        settings.setdefault("gen_length", int(kwargs.get("max_gen_toks", self._max_gen_toks)))
        if kwargs.get("do_sample", kwargs.get("temperature", 0) > 0):
            for name in ("temperature", "top_p", "top_k"):
                if kwargs.get(name) is not None:
                    settings.setdefault(name, kwargs[name])
        return [until] if isinstance(until, str) else list(until), settings


def _before(text: str, stop: list[str]) -> str:
    """The text up to the first of the stop texts."""
    return text[:min([len(text), *(at for at in (text.find(end) for end in stop if end) if at >= 0)])]


def _rule(value: Any) -> Any:
    """"threshold:0.9" as the engine writes it."""
    return value.replace(":", "=", 1) if isinstance(value, str) else value
