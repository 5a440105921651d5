"""How a model is decoded: one class for each paradigm, whose fields have the names of docs/reference/flags.md.

A field that is None has the default of the model's family. Values are checked when a request starts.
"""
from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Callable, ClassVar, Optional, Sequence, Union

import numpy as np


@dataclass(frozen=True)
class Candidates:
    """The masked positions of the current block, as a pass sees them. Arrays, one element for each position."""

    position: np.ndarray  #: in the canvas, ascending
    token: np.ndarray  #: sampled in this pass
    probability: np.ndarray  #: of that token
    entropy: np.ndarray  #: of the position's distribution, nats
    margin: np.ndarray  #: the largest probability less the second
    age: np.ndarray  #: passes since the block began

    def __len__(self) -> int:
        return len(self.position)


class UnmaskPolicy:
    """Which candidates get their token in a pass. Subclass it and write choose()."""

    def choose(self, candidates: Candidates) -> Union[np.ndarray, Sequence[int]]:
        """The chosen positions, or a boolean array over the candidates. An empty choice takes the most probable one,
        because every pass has to commit a token. What it raises ends the request and is raised to its caller."""
        raise NotImplementedError(f"{type(self).__name__} has no choose(self, candidates)")


def chooser(policy: UnmaskPolicy) -> Callable[..., list[int]]:
    """choose() as the engine calls it: arrays in, a list of positions out."""

    def choose(position, token, probability, entropy, margin, age):
        candidates = Candidates(position, token, probability, entropy, margin, np.full(len(position), age, np.int32))
        chosen = np.asarray(policy.choose(candidates))
        if chosen.dtype == bool:
            if chosen.shape != position.shape:
                raise ValueError(f"choose() gave a boolean array of shape {chosen.shape}; expected {position.shape}")
            chosen = position[chosen]
        if chosen.size == 0:
            chosen = position[np.argmax(probability):][:1]
        return chosen.tolist()

    return choose


@dataclass(frozen=True)
class _Rule:
    """A setting that is written as a text: its name, and its value if it has one."""

    name: ClassVar[str] = ""

    def __str__(self) -> str:
        return "=".join([self.name, *(str(getattr(self, field.name)) for field in fields(self))])


@dataclass(frozen=True)
class Threshold(_Rule):
    """Every position of at least this confidence, and always the most confident (Fast-dLLM)."""

    name: ClassVar[str] = "threshold"
    threshold: float = 0.9


@dataclass(frozen=True)
class Factor(_Rule):
    """The longest prefix in order of confidence that meets Fast-dLLM's factor rule, at least one."""

    name: ClassVar[str] = "factor"
    factor: float = 1.0


@dataclass(frozen=True)
class Dynamic(_Rule):
    """Block diffusion: every position above this confidence; at least the even split."""

    name: ClassVar[str] = "dynamic"
    threshold: float = 0.9


@dataclass(frozen=True)
class EntropyBounded(_Rule):
    """Block and canvas diffusion: in ascending order of entropy, as many as sum to less than this bound."""

    name: ClassVar[str] = "entropy-bounded"
    bound: float = 0.35


class _NumberedRule(_Rule):
    """A rule whose first number follows its name, and whose others are named."""

    def __str__(self) -> str:
        first, *others = (field.name for field in fields(self))
        head = self.name if getattr(self, first) is None else f"{self.name}={getattr(self, first)}"
        named = [f"{other.replace('_', '-')}={getattr(self, other)}" for other in others if getattr(self, other) is not None]
        return ",".join([head, *named])


@dataclass(frozen=True)
class LocalLeap(_NumberedRule):
    """Threshold, but positions near one that reaches it need `relaxed` alone (LocalLeap)."""

    name: ClassVar[str] = "local-leap"
    threshold: float = 0.9
    relaxed: float = 0.75
    radius: int = 4


@dataclass(frozen=True)
class EntropyBudget(_NumberedRule):
    """In ascending order of entropy, as many as sum to this bound without the largest (EB-Sampler)."""

    name: ClassVar[str] = "eb"
    bound: float = 0.001


@dataclass(frozen=True)
class Streaming(_NumberedRule):
    """A threshold that falls by up to `alpha` of itself as a block and what is seen behind it are written (Streaming-dLLM)."""

    name: ClassVar[str] = "streaming"
    threshold: float = 0.9
    alpha: float = 0.3


@dataclass(frozen=True)
class Klass(_NumberedRule):
    """Positions above this confidence whose posterior moved by less than `kl` nats in the last passes (KLASS)."""

    name: ClassVar[str] = "klass"
    threshold: float = 0.9
    kl: float = 0.01
    history: int = 2


@dataclass(frozen=True)
class Wino(_NumberedRule):
    """Many positions at once, of which those are masked again that a mask in their place finds unlikely (WINO)."""

    name: ClassVar[str] = "wino"
    threshold: float = 0.6
    back: float = 0.9


@dataclass(frozen=True)
class Saber(_NumberedRule):
    """Positions above the mean confidence of what is written; what gains least is masked again (Saber)."""

    name: ClassVar[str] = "saber"
    least: int = 2


@dataclass(frozen=True)
class Credit(_NumberedRule):
    """Threshold, but tokens that earlier passes predicted count for more (CreditDecoding)."""

    name: ClassVar[str] = "credit"
    threshold: float = 0.9
    alpha: float = 0.7
    gamma: float = 0.2
    beta: float = 0.8


@dataclass(frozen=True)
class SlowFast(_NumberedRule):
    """Threshold, in spans of which `explore` steps estimate the ends from positions that reach `span` (SlowFast)."""

    name: ClassVar[str] = "slow-fast"
    threshold: float = 0.9
    slow: float = 0.9
    span: float = 0.3
    explore: int = 6


@dataclass(frozen=True)
class SlidingBlock(_NumberedRule):
    """Threshold, in a part of the block that slides: `start` positions and one more for each that is written (DSB)."""

    name: ClassVar[str] = "dsb"
    threshold: float = 0.9
    start: int = 32
    most: Optional[int] = None


@dataclass(frozen=True)
class Soft(_NumberedRule):
    """Block diffusion: the confident beginning of a block at once; written tokens are mixed with the mask and may change (DMax)."""

    name: ClassVar[str] = "soft"
    threshold: float = 0.5
    accept: float = 0.9


@dataclass(frozen=True)
class AdaptiveBlock(_NumberedRule):
    """Threshold, in blocks that end at a delimiter predicted with this confidence; None: 0.3, Dream 0.5 (AdaBlock-dLLM)."""

    name: ClassVar[str] = "adablock"
    threshold: float = 0.9
    delimiter: Optional[float] = None


@dataclass(frozen=True)
class MultiBlock(_NumberedRule):
    """Several blocks at once: positions of at most this entropy; None: 0.5 nats, Dream 0.4 (d3LLM)."""

    name: ClassVar[str] = "d3llm"
    bound: Optional[float] = None
    add: float = 0.1


@dataclass(frozen=True)
class SparseDllm(_NumberedRule):
    """A cache: a block attends to itself and to this share of all other positions (docs/methods/caches.md)."""

    name: ClassVar[str] = "sparse-dllm"
    keep: float = 0.5
    pool: int = 3


@dataclass(frozen=True)
class DllmCache(_NumberedRule):
    """A cache: layers compute this share of the answer; all of it every `answer` passes, None: 7, Dream 2 (docs/methods/caches.md)."""

    name: ClassVar[str] = "dllm-cache"
    ratio: float = 0.25
    answer: Optional[int] = None


@dataclass(frozen=True)
class D2Cache(_NumberedRule):
    """A cache: the most certain masks, and what all positions attend to most (docs/methods/caches.md)."""

    name: ClassVar[str] = "d2cache"
    current: int = 32
    rollout: float = 0.1
    sigma: float = 10.0
    inflate: int = 0


@dataclass(frozen=True)
class LowConfidence(_Rule):
    """An even split over the steps, the highest probabilities first."""

    name: ClassVar[str] = "low-confidence"


@dataclass(frozen=True)
class Margin(_Rule):
    """A fixed number for each step, the largest leads over the second token first."""

    name: ClassVar[str] = "margin"


@dataclass(frozen=True)
class Entropy(_Rule):
    """A fixed number for each step, the least entropy first."""

    name: ClassVar[str] = "entropy"


@dataclass(frozen=True)
class Random(_Rule):
    """A fixed number for each step, in random order."""

    name: ClassVar[str] = "random"


@dataclass(frozen=True)
class Sequential(_Rule):
    """Block diffusion: a fixed number for each step, from left to right."""

    name: ClassVar[str] = "sequential"


@dataclass(frozen=True)
class SureLock(_Rule):
    """Rows whose posteriors have converged are not computed any more (docs/methods/surelock.md)."""

    eps: float = 5e-4
    gate: Optional[float] = None

    def __str__(self) -> str:
        return f"eps={self.eps}" + ("" if self.gate is None else f",gate={self.gate}")


@dataclass(frozen=True)
class Mage(_NumberedRule):
    """Sparse attention: each block attends to this many cells of the prefix (docs/methods/sparse_attention.md)."""

    name: ClassVar[str] = "mage"
    budget: int = 512
    dense_layers: Optional[int] = None


@dataclass(frozen=True)
class Quest(_NumberedRule):
    """Sparse attention to this many cells, in the pages of the best scores."""

    name: ClassVar[str] = "quest"
    budget: int = 512
    page: int = 16
    dense_layers: Optional[int] = None


@dataclass(frozen=True)
class FlashBlock(_NumberedRule):
    """Attention to the prefix is kept until steps have written this many tokens."""

    name: ClassVar[str] = "flashblock"
    updates: int = 2


@dataclass(frozen=True)
class Losa(_NumberedRule):
    """Attention to the prefix is kept, but for the share of rows that changed most, which attend to this many cells (LoSA)."""

    name: ClassVar[str] = "losa"
    budget: int = 512
    page: int = 16
    active: float = 0.3125
    dense_layers: Optional[int] = None


Unmask = Union[str, _Rule, UnmaskPolicy]


@dataclass(frozen=True)
class Strategy:
    """Base class of the strategies: the fields that all paradigms have."""

    paradigm: ClassVar[str] = ""

    preset: Optional[str] = None  #: "exact", "balanced", "fast" or one that `lacuna tune --save` wrote
    gen_length: Optional[int] = None  #: positions to generate
    temperature: Optional[float] = None  #: 0: the most likely token
    top_p: Optional[float] = None
    top_k: Optional[int] = None
    seed: Optional[int] = None

    def settings(self) -> dict:
        """Those that were given, as fields and values."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in given if value is not None}


@dataclass(frozen=True)
class Masked(Strategy):
    """LLaDA, LLaDA-MoE and Dream: any masked position of a canvas at any step."""

    paradigm: ClassVar[str] = "masked"

    steps: Optional[int] = None  #: of the whole run
    block_length: Optional[int] = None
    unmask: Optional[Unmask] = None
    delimiter: Optional[Sequence[str]] = None  #: texts of one token that may end a block of AdaptiveBlock()
    #: "none", "prefix", "dual", "dkv", "free", "free-literal", "delayed=2", SparseDllm(), DllmCache() or D2Cache()
    cache: Optional[Union[str, SparseDllm, DllmCache, D2Cache]] = None
    refresh: Optional[int] = None
    cache_block: Optional[int] = None
    suffix: Optional[int] = None  #: positions behind the block that a pass sees, and the last one
    suffix_dropout: Optional[str] = None  #: which of these positions: "on" or "decay=4,scale=2" (DPad)
    prompt_block: Optional[int] = None  #: tokens of the blocks in which the prompt is computed, once, for all requests
    lock: Optional[Union[str, SureLock]] = None
    eos_exit: Optional[bool] = None
    cfg_scale: Optional[float] = None
    alg_temp: Optional[float] = None
    eps: Optional[float] = None
    logits_eos_inf: Optional[bool] = None
    confidence_eos_eot_inf: Optional[bool] = None
    suppress_mask: Optional[bool] = None
    guide_match: Optional[str] = None
    guide_fallback: Optional[str] = None
    guide_block: Optional[int] = None


@dataclass(frozen=True)
class Blocks(Strategy):
    """SDAR, Fast-dLLM v2 and LLaDA 2: blocks from left to right, masked positions of a block in any order."""

    paradigm: ClassVar[str] = "blocks"

    steps: Optional[int] = None  #: of a block
    block_length: Optional[int] = None
    sub_block_length: Optional[int] = None
    unmask: Optional[Unmask] = None
    cache: Optional[str] = None
    commit: Optional[str] = None
    edit: Optional[str] = None
    pipeline: Optional[str] = None  #: "on", "none" or "add=0.1,full=0.95": several blocks at once
    focus: Optional[float] = None  #: FOCUS: this many times the masks that a step writes stay in a pass, at least 1
    drafts: Optional[int] = None  #: states of a block that a pass computes ahead; the text is unchanged
    sparse: Optional[Union[str, Mage, Quest, FlashBlock, Losa]] = None
    sparse_commit: Optional[str] = None
    sparse_after: Optional[int] = None
    lock: Optional[Union[str, SureLock]] = None
    accept: Optional[str] = None  #: Nemotron-Labs-Diffusion: "all", or "exact" for self-speculation
    ignore_eos: Optional[bool] = None


@dataclass(frozen=True)
class Uniform(Strategy):
    """GIDD: blocks of noise, any token of which a step may replace. Sumi: the whole canvas at once."""

    paradigm: ClassVar[str] = "uniform"

    steps: Optional[int] = None  #: of a block
    block_length: Optional[int] = None
    sampler: Optional[str] = None
    tokens_per_step: Optional[int] = None
    schedule: Optional[str] = None
    min_length: Optional[int] = None
    context: Optional[int] = None
    noise: Optional[str] = None
    cache: Optional[str] = None  #: "none", "prefix" or "uniform"
    refresh: Optional[int] = None
    boundary: Optional[str] = None
    drift: Optional[str] = None
    block_exit: Optional[str] = None
    last_layer: Optional[str] = None
    self_correct: Optional[str] = None
    ignore_eos: Optional[bool] = None


@dataclass(frozen=True)
class Canvases(Strategy):
    """DiffusionGemma: canvases of random tokens from left to right, any token of which a pass may replace."""

    paradigm: ClassVar[str] = "canvases"

    block_length: Optional[int] = None  #: of a canvas
    steps: Optional[int] = None  #: passes of a canvas at most
    unmask: Optional[EntropyBounded] = None  #: nats of the tokens that are accepted together
    stop_entropy: Optional[float] = None
    self_conditioning: Union[None, str, float] = None  #: "exact", or the probability that may be left out
    ignore_eos: Optional[bool] = None


@dataclass(frozen=True)
class Slots(Strategy):
    """ReFusion: slots in any order, each written from left to right."""

    paradigm: ClassVar[str] = "slots"

    refusion: Optional[str] = None
    block_length: Optional[int] = None
    slot_size: Optional[int] = None
    slot_threshold: Optional[float] = None
    token_threshold: Optional[float] = None
    fill: Optional[str] = None
    kv: Optional[str] = None
    accept: Optional[str] = None
    revoke: Optional[float] = None
    suppress_mask: Optional[bool] = None


@dataclass(frozen=True)
class Causal(Strategy):
    """Qwen: one token after the other."""

    paradigm: ClassVar[str] = "causal"

    ignore_eos: Optional[bool] = None
    block_length: Optional[int] = None
    token_threshold: Optional[float] = None


OF_PARADIGM = {strategy.paradigm: strategy for strategy in (Masked, Blocks, Uniform, Canvases, Slots, Causal)}
