"""Lacuna runs diffusion language models.

    import lacuna
    model = lacuna.load("mini-llada")
    answer = model.generate("Mia has 12 shells. She finds 7 more. How many shells does Mia have now?")
    print(answer.text)
"""
from lacuna._core import Commit, Error, Message, ModelInfo, Pass, Statistics, __version__
from lacuna._model import Answer, Evaluation, Model, Stream, ToolCall, load
from lacuna._strategy import (AdaptiveBlock, Blocks, Candidates, Canvases, Causal, Credit, D2Cache, DllmCache, Dynamic, Entropy,
                              EntropyBounded, EntropyBudget, Factor, FlashBlock, Klass, LocalLeap, Losa, LowConfidence, Mage, Margin, Masked, MultiBlock,
                              Quest, Random, Saber, Sequential, SlidingBlock, Slots, SlowFast, Soft, SparseDllm, Strategy, Streaming,
                              SureLock, Threshold, Uniform, UnmaskPolicy, Wino)

__all__ = [
    "AdaptiveBlock", "Answer", "Blocks", "Candidates", "Canvases", "Causal", "Commit", "Credit", "D2Cache", "DllmCache", "Dynamic",
    "Entropy", "EntropyBounded", "EntropyBudget", "Error", "Evaluation", "Factor", "FlashBlock", "Klass", "LocalLeap", "Losa", "LowConfidence",
    "Mage", "Margin", "Masked", "Message", "Model", "ModelInfo", "MultiBlock", "Pass", "Quest", "Random", "Saber", "Sequential",
    "SlidingBlock", "Slots", "SlowFast", "Soft", "SparseDllm", "Statistics", "Strategy", "Stream", "Streaming", "SureLock", "Threshold",
    "ToolCall", "Uniform", "UnmaskPolicy", "Wino", "__version__", "load",
]
