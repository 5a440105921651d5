"""Uniform-Cache: "Block-Wise KV Caching for Uniform Diffusion Language Models", Tables 5.1 and 6.1 to 6.12."""
from .table import DATA, Row, Table, Work

GIDD, LARGE = "dvruette/gidd-unif-3b", "dvruette/gidd-unif-10b"
CONTEXT = 2048
JUDGE = "nvidia/Minitron-4B-Base"
STRATEGIES = {"baseline": "", "prefix cache": " --cache prefix", "Uniform-Cache": " --cache uniform --refresh 4"}
WIKITEXT = {"wiki.train.txt": "the texts of Salesforce/wikitext, wikitext-103-raw-v1; the thesis does not name the split",
            "wikitext-128.txt, wikitext-512.txt": f"python3 tools/results reproduce uniform 6.1 --prepare --data {DATA}"}
NOTES = (
    "Table 5.1: 512 response tokens, prompts of 128, adaptive sampling, n = 3 tokens a step, R = 4, batch 8, seed 42, "
    "context of 2,048",
    "the judge is published as PyTorch files; read are safetensors (transformers' `save_pretrained` makes them: --judge FOLDER) and "
    "GGUF (--judge FILE), of which there are copies",
    "seconds are those of the whole run, the judge's not counted; those of the thesis are of an A100",
    "--block-exit steps and --last-layer all compute every step and row, as the thesis does",
)


def _work(model, samples, prompt, gen, block, steps, strategy, refresh=4):
    blocks = gen / block
    if strategy == "baseline":
        rows = blocks * steps * CONTEXT
    elif strategy == "prefix cache":
        rows = blocks * steps * (CONTEXT - prompt - (gen - block) / 2)
    else:
        refreshed = (steps - 1) / refresh if refresh else 0
        rows = blocks * (CONTEXT + (steps - 1) * block + refreshed * block)
    return Work(model, samples, rows, blocks * steps, CONTEXT, 8)


def _command(model, samples, *, prompt=128, gen=512, block=32, steps=32, tokens=3, cache=""):
    return (f"lacuna eval -m {model} --task continuations --data {DATA}/wikitext-{prompt}.txt --length {prompt} --judge {JUDGE} "
            f"--gen-length {gen} --block-length {block} --steps {steps} --tokens-per-step {tokens} --seed 42 --batch 8 "
            f"--context {CONTEXT} --block-exit steps --last-layer all --samples {samples}{cache} --json")


def _rows(model, samples, label, found, **settings):
    """A row for each strategy of `found`: strategy -> the thesis' figures. Settings are those of _command()."""
    shape = {"prompt": 128, "gen": 512, "block": 32, "steps": 32} | {
        key: value for key, value in settings.items() if key in ("prompt", "gen", "block", "steps")}
    refresh = settings.pop("refresh", 4)
    caches = STRATEGIES | {"Uniform-Cache": f" --cache uniform --refresh {refresh}"}
    return [Row(f"{label}, {strategy}", _command(model, samples, cache=caches[strategy], **settings), figures,
                _work(model, samples, strategy=strategy, refresh=refresh, **shape))
            for strategy, figures in found.items()]


def _figures(seconds, perplexities):
    return {strategy: {"seconds": second, "perplexity": perplexity}
            for strategy, second, perplexity in zip(STRATEGIES, seconds, perplexities)}


def table_5_1():
    """The default settings: the two primary configurations."""
    rows = [*_rows(GIDD, 64, "s32/b32", _figures((5310, 4267, 441), (5.33, 5.03, 4.86))),
            *_rows(GIDD, 64, "s512/b512", _figures((5311, 4962, 1888), (10.20, 8.16, 5.79)), block=512, steps=512)]
    return Table("uniform", "5.1", "default settings, in the two primary configurations; figures of Table 6.1", tuple(rows),
                 WIKITEXT, NOTES, ("seconds", "perplexity"))


def table_6_1():
    """The main benchmark."""
    rows = [
        *_rows(GIDD, 64, "s32/b32, r512", _figures((5310, 4267, 441), (5.33, 5.03, 4.86))),
        *_rows(GIDD, 64, "s512/b512", _figures((5311, 4962, 1888), (10.20, 8.16, 5.79)), block=512, steps=512),
        *_rows(GIDD, 6, "s32/b32, r1536", _figures((1465, 607, 126), (3.74, 3.91, 2.98)), prompt=512, gen=1536),
    ]
    return Table("uniform", "6.1", "time and perplexity of the three strategies", tuple(rows), WIKITEXT, NOTES,
                 ("seconds", "perplexity"))


def table_6_9():
    """Block lengths."""
    found = {16: (6.09, 6.19), 32: (5.33, 4.86), 64: (3.54, 3.84), 128: (4.51, 3.73), 256: (6.27, 4.11)}
    rows = [row for block, (base, cached) in found.items()
            for row in _rows(GIDD, 16, f"blocks of {block}",
                             {"baseline": {"perplexity": base}, "Uniform-Cache": {"perplexity": cached}},
                             block=block, steps=block)]
    return Table("uniform", "6.9", "block lengths, as many steps as positions", tuple(rows), WIKITEXT,
                 (*NOTES, "speedups of the thesis: 9.5, 12.0, 11.3, 8.4 and 5.1"), ("perplexity",))


def table_6_10():
    """Refresh intervals."""
    rows = _rows(GIDD, 16, "R irrelevant", {"baseline": {"perplexity": 5.42}})
    for refresh, cached in ((1, 4.26), (4, 4.69), (0, 4.79)):
        rows += _rows(GIDD, 16, f"R = {refresh}", {"Uniform-Cache": {"perplexity": cached}}, refresh=refresh)
    return Table("uniform", "6.10", "how often the next block is recomputed; 0: never", tuple(rows), WIKITEXT,
                 (*NOTES, "speedups of the thesis: 10.6, 11.9 and 12.2"), ("perplexity",))


def table_6_11():
    """Tokens a step."""
    rows = [row for tokens, (base, cached) in {3: (5.42, 4.69), 5: (4.88, 5.93), 10: (7.27, 8.21)}.items()
            for row in _rows(GIDD, 16, f"n = {tokens}",
                             {"baseline": {"perplexity": base}, "Uniform-Cache": {"perplexity": cached}}, tokens=tokens)]
    return Table("uniform", "6.11", "tokens that change in a step", tuple(rows), WIKITEXT, NOTES, ("perplexity",))


def table_6_12():
    """The 10B model."""
    rows = [*_rows(GIDD, 64, "3B", _figures((5310, 4267, 441), (5.33, None, 4.86))),
            *_rows(LARGE, 16, "10B", _figures((3789, 3080, 314), (4.74, None, 3.64)))]
    return Table("uniform", "6.12", "3B and 10B", tuple(rows), WIKITEXT, NOTES, ("seconds", "perplexity"))


TABLES = (table_5_1(), table_6_1(), table_6_9(), table_6_10(), table_6_11(), table_6_12())
