"""Lacuna runs diffusion language models.

    import lacuna
    model = lacuna.load("mini-llada")
    answer = model.generate("Mia has 12 shells. She finds 7 more. How many shells does Mia have now?")
    print(answer.text)
"""
from lacuna._core import Commit, Error, Message, ModelInfo, Pass, Statistics, __version__
from lacuna._model import Answer, Evaluation, Model, Stream, ToolCall, load
from lacuna._strategy import (Blocks, Candidates, Canvases, Causal, Dynamic, Entropy, EntropyBounded, Factor,
                              LowConfidence, Mage, Margin, Masked, Random, Sequential, Slots, Strategy, SureLock,
                              Threshold, Uniform, UnmaskPolicy)

__all__ = [
    "Answer", "Blocks", "Candidates", "Canvases", "Causal", "Commit", "Dynamic", "Entropy", "EntropyBounded", "Error",
    "Evaluation", "Factor", "LowConfidence", "Mage", "Margin", "Masked", "Message", "Model", "ModelInfo", "Pass",
    "Random", "Sequential", "Slots", "Statistics", "Strategy", "Stream", "SureLock", "Threshold", "ToolCall",
    "Uniform", "UnmaskPolicy", "__version__", "load",
]
