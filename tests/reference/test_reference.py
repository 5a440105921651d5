"""Checks the references themselves: hand-computed cases, and second opinions where other code exists.

    python test_reference.py            # or: pytest test_reference.py

The second opinions (transformers for Qwen2, Qwen3, Qwen3-MoE, Llama and Nemotron, torch for linspace, the safetensors package) are
skipped where those packages are missing.
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import models
import safetensors_io
import samplers
from check_engine import repeating
from models import BLOCK_FAMILIES, FAMILIES, NAMELESS_MASKS, Model
from random_checkpoints import MASK, make_checkpoint, random_dims, special_ids

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


class Skip(Exception):
    """The package or file that this check needs is missing."""


def need(name):
    """Imports an optional package."""
    try:
        return __import__(name)
    except ImportError:
        if "pytest" in sys.modules:
            sys.modules["pytest"].skip(f"{name} is not installed")
        raise Skip(f"{name} is not installed") from None


class FakeModel:
    """A model whose logits are given: `table(canvas)` returns [rows, vocab]. Mask is 9, end of text 8, of turn 7."""

    def __init__(self, table, family="llada"):
        self.table = table
        self.shape = models.Shape(family, 1, 1, 1, 1, 2, 10, 1e-5, 1e4, False, mask_id=9, eos_id=8)

    def logits(self, tokens, positions=None):
        return np.array(self.table(np.asarray(tokens)), dtype=np.float64)


def peaks(tokens, confidences, vocab=10):
    """Logits whose softmax gives row i's token i the confidence i, the rest shared evenly."""
    rows = np.empty((len(tokens), vocab))
    for row, (token, c) in enumerate(zip(tokens, confidences)):
        rows[row] = np.log((1 - c) / (vocab - 1))
        rows[row, token] = np.log(c)
    return rows


def test_a_failed_comparison_says_how_to_repeat_it():
    argv = ["check.py", "build/a lacuna", "--seeds", "8", "--first-seed=3", "--cases", "4", "--quiet"]
    assert repeating("avx2 llada seed 7 case 2", argv) == \
        "python3 check.py 'build/a lacuna' --cases 4 --quiet --first-seed 7 --seeds 1"
    assert repeating("tools auto at temperature 0", argv) == ""


def test_quota_split():
    assert samplers.quota_split(10, 4) == [3, 3, 2, 2]
    assert samplers.quota_split(8, 8) == [1] * 8
    assert samplers.quota_split(3, 5) == [1, 1, 1, 0, 0]
    assert samplers.quota_split(0, 2) == [0, 0]


def test_dream_schedule():
    assert samplers.dream_schedule(8, 8) == [0, 1, 1, 1, 1, 1, 1, 2]
    assert samplers.dream_schedule(64, 64) == [0] + [1] * 62 + [2]
    assert samplers.dream_schedule(64, 16) == [3] + [4] * 14 + [5]
    assert samplers.dream_schedule(256, 64) == [3] + [4] * 62 + [5]
    assert samplers.dream_schedule(100, 16) == [6] * 13 + [7, 7, 8]
    assert samplers.dream_schedule(5, 1) == [5]


def test_linspace_like_torch():
    """The schedule from torch's own linspace gives the same counts for every small run."""
    torch = need("torch")
    differing = 0
    for steps in list(range(1, 130)) + [256, 512, 1024]:
        ours, theirs = samplers.linspace_f32(1, 1e-3, steps + 1), torch.linspace(1, 1e-3, steps + 1).numpy()
        assert np.max(np.abs(ours - theirs)) < 2e-7
        for masks in (steps, 2 * steps, 3 * steps + 1, 64, 100):
            left, counts = masks, []
            times = torch.linspace(1, 1e-3, steps + 1)
            for i in range(steps):
                t, s = times[i], times[i + 1]
                k = int(torch.tensor(float(left)) * (1 - s / t)) if i < steps - 1 else left
                counts.append(k)
                left -= k
            differing += counts != samplers.dream_schedule(masks, steps)
    assert differing == 0, f"{differing} schedules differ"


def test_factor_rule():
    """Bounds for factor 1: -, 1 - 1/3, 1 - 1/4, 1 - 1/5. 0.70 passes as second, 0.60 fails as third."""
    take = lambda confidence, factor: samplers.take_factor(
        np.array(confidence), np.ones(len(confidence), bool), factor, samplers.Margins()).tolist()
    assert take([0.60, 0.95, 0.70, 0.10], 1.0) == [1, 2]
    assert take([0.10, 0.05], 1.0) == [0]
    assert take([0.81, 0.90, 0.85, 0.80], 1.0) == [1, 2, 0, 3]  # the last bound is 0.8 and equality passes
    assert take([0.50, 0.49, 0.48], 2.0) == [0, 1]  # bounds -, 1/3, 1/2


def test_threshold_rule():
    take = lambda confidence: samplers.take_threshold(
        np.array(confidence), np.ones(len(confidence), bool), 0.9, samplers.Margins()).tolist()
    assert take([0.2, 0.5, 0.4]) == [1]
    assert take([0.95, 0.5, 0.9]) == [0, 2]
    assert take([0.5, 0.5, 0.5]) == [0]  # ties to the lowest position


def test_low_confidence_order():
    """Blocks of 2 in 1 step each commit both; in 2 steps the surer position goes first."""
    model = FakeModel(lambda canvas: peaks([1, 2, 3, 4, 5], [0.9, 0.3, 0.8, 0.5, 0.6]))
    run = samplers.llada_generate(model, [1], 4, steps=4, block_length=2)
    assert run.tokens == [2, 3, 4, 5] and [p for _, p in run.commits] == [[2], [1], [4], [3]]
    run = samplers.llada_generate(model, [1], 4, steps=2, block_length=4)
    assert [p for _, p in run.commits] == [[2, 4], [1, 3]]


def test_low_confidence_mask_in_prompt():
    """A hole in the prompt competes for the first block's quota; as many masks stay as there were holes."""
    model = FakeModel(lambda canvas: peaks([1, 2, 3, 4], [0.9, 0.95, 0.8, 0.5]))
    run = samplers.llada_generate(model, [1, 9], 2, steps=2, block_length=2)
    assert run.canvas == [1, 2, 3, 9] and [p for _, p in run.commits] == [[1], [2]]


def test_low_confidence_mask_as_candidate():
    """Committing the mask token uses up quota and leaves the position eligible for the next block's quota."""
    model = FakeModel(lambda canvas: peaks([1, 9 if canvas[2] == 9 else 4, 3], [0.9, 0.8, 0.7]))
    run = samplers.llada_generate(model, [1], 2, steps=2, block_length=1)
    # Block 1 commits mask at 1; in block 2 position 1 (0.8) beats position 2 (0.7) and commits mask again.
    assert run.tokens == [9, 9] and [p for _, p in run.commits] == [[1], [1]]


def test_guidance():
    """L = Lu + (w + 1)(L - Lu), Lu with the prompt masked, holes of the prompt never counted as prompt."""
    seen = []

    def table(canvas):
        seen.append(canvas.tolist())
        return peaks([1, 2, 3], [0.9, 0.9, 0.6]) if canvas[0] == 1 else peaks([1, 2, 4], [0.9, 0.9, 0.6])

    # Guidance makes row 2 surer (8.1 / (8.1 + 8 * 0.044 + 0.003) = 0.96) than row 1, which it leaves at 0.9.
    assert samplers.llada_generate(FakeModel(table), [1, 9], 1, steps=1, cfg_scale=1.0).canvas == [1, 9, 3]
    assert seen == [[1, 9, 9], [9, 9, 9]]
    # The unconditional model prefers token 4, the guided one token 3.
    run = samplers.llada_generate(FakeModel(table), [1, 2], 1, steps=1, cfg_scale=1.0)
    assert run.tokens == [3]


def test_end_token_switches():
    """The argmax is the end token at row 1: forbidden, it becomes the next best; unsure, it is committed last."""
    def table(canvas):
        logits = peaks([1, 8, 3, 4], [0.9, 0.9, 0.5, 0.6])
        logits[1, 2] += 1
        return logits

    run = lambda **switch: samplers.llada_generate(FakeModel(table), [1], 3, steps=3, eot_id=7, **switch)
    assert [p for _, p in run().commits] == [[1], [3], [2]] and run().tokens == [8, 3, 4]
    quiet = run(logits_eos_inf=True)
    assert quiet.tokens == [2, 3, 4] and [p for _, p in quiet.commits] == [[3], [2], [1]]
    last = run(confidence_eos_eot_inf=True)
    assert last.tokens == [8, 3, 4] and [p for _, p in last.commits] == [[3], [2], [1]]


def test_dream_shift_and_confidences():
    """Row i - 1 predicts position i; margin and entropy order differently from the largest probability."""
    model = FakeModel(lambda canvas: peaks([1, 2, 3, 4], [0.9, 0.6, 0.8, 0.7]), "dream")
    run = samplers.dream_generate(model, [5], 3, steps=1)
    assert run.tokens == [1, 2, 3]
    run = samplers.dream_generate(model, [5], 3, steps=3)
    # 3 masks, 3 steps: counts 0, 1, 2.
    assert [p for _, p in run.commits] == [[1], [2, 3]]
    logits = np.log([[0.5, 0.45, 0.05], [0.48, 0.26, 0.26]])
    assert np.argmax(samplers.dream_confidence("maskgit", logits)) == 0
    assert np.argmax(samplers.dream_confidence("margin", logits)) == 1
    assert np.argmax(samplers.dream_confidence("entropy", logits)) == 0
    assert np.allclose(samplers.dream_confidence("entropy", np.log([[0.5, 0.5]])), -np.log(2))


def test_nucleus_and_top_k():
    logits = np.log([[0.5, 0.3, 0.15, 0.05]])
    kept = lambda **how: np.isfinite(samplers.filter_logits(
        logits, how.get("top_p"), how.get("top_k"), samplers.Margins()))[0].tolist()
    assert kept(top_p=0.6) == [True, True, False, False]  # up to the first that exceeds 0.6
    assert kept(top_p=0.4) == [True, False, False, False]
    assert kept(top_k=3) == [True, True, True, False]
    assert kept(top_p=0.9, top_k=2) == [True, True, False, False]


def test_no_progress_is_noticed():
    model = FakeModel(lambda canvas: peaks([1, 9, 9], [0.9, 0.9, 0.9]))
    try:
        samplers.llada_generate(model, [1], 2, rule="threshold=0.5")
    except samplers.NoProgress:
        return
    raise AssertionError("a rule that commits masks for ever must be noticed")


def test_bf16():
    assert safetensors_io.bf16_values(safetensors_io.bf16_bits([1.0, -2.5, 0.0])).tolist() == [1.0, -2.5, 0.0]
    one = np.float32(1)
    assert safetensors_io.round_to([one + 2.0 ** -8], "bf16")[0] == 1  # half way: to even
    assert safetensors_io.round_to([one + 3 * 2.0 ** -8], "bf16")[0] == one + 2.0 ** -6
    assert safetensors_io.round_to([one + 1.01 * 2.0 ** -8], "bf16")[0] == one + 2.0 ** -7


def test_files_round_trip():
    """A written checkpoint reads back as the same function, sharded or not, and the same seed writes the same bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        for family in FAMILIES + BLOCK_FAMILIES:
            for seed in range(3):
                folder = Path(scratch) / f"{family}{seed}"
                model = make_checkpoint(folder, family, seed, tokenizer=None)
                tokens = [1, 5, 3, model.shape.vocab - 1]
                assert np.array_equal(Model.load(folder).logits(tokens), model.logits(tokens))
                again = Path(scratch) / "again"
                make_checkpoint(again, family, seed, tokenizer=None)
                for file in folder.iterdir():
                    assert (again / file.name).read_bytes() == file.read_bytes()
                for file in again.iterdir():
                    file.unlink()


def test_safetensors_package_reads_our_files():
    need("safetensors")
    from safetensors.numpy import load_file
    with tempfile.TemporaryDirectory() as scratch:
        for dtype in ("f32", "f16"):
            model = make_checkpoint(scratch, "llada", 1, tokenizer=None, dtype=dtype, shards=1)
            theirs = load_file(str(Path(scratch) / "model.safetensors"))
            assert set(theirs) == set(model.tensors)
            assert all(np.array_equal(theirs[name], values) for name, values in model.tensors.items())


def test_rotation():
    """One pair at position 1 with frequency 1 turns by one radian; frequencies fall as theta^(-2j/d)."""
    x = np.array([[[1.0, 0.0]]])
    assert np.allclose(models.rope(x, [1], 1e4), [[[np.cos(1), np.sin(1)]]])
    x = np.array([[[0.0, 1.0, 0.0, 0.0]]])  # pairs are (0, 2) and (1, 3)
    assert np.allclose(models.rope(x, [3], 1e4), [[[0, np.cos(0.03), 0, np.sin(0.03)]]])


def test_causal_and_bidirectional():
    """Changing the last token reaches earlier rows exactly in the bidirectional families."""
    with tempfile.TemporaryDirectory() as scratch:
        for family in FAMILIES:
            model = make_checkpoint(scratch, family, 4, tokenizer=None)
            before, after = model.logits([1, 2, 3, 4, 5]), model.logits([1, 2, 3, 4, 6])
            assert np.allclose(before[:4], after[:4]) == model.shape.causal


def test_block_causal():
    """A token reaches the rows of its own block and of those after, and no other."""
    with tempfile.TemporaryDirectory() as scratch:
        for family in BLOCK_FAMILIES:
            model = make_checkpoint(scratch, family, 4, tokenizer=None)
            before = model.logits([1, 2, 3, 4, 5, 6, 7], block_length=3)
            after = model.logits([1, 2, 3, 4, 9, 6, 7], block_length=3)
            reached = np.max(np.abs(after - before), axis=-1) > 1e-9
            assert reached.tolist() == [False] * 3 + [True] * 4
            assert np.allclose(model.logits([1, 2, 3], block_length=1)[:1], model.logits([1]))
            assert model.shape.block_length == (4 if family == "diffcoder" else 32)


def test_blocks_over_a_store():
    """Block after block over a store equals all at once."""
    tokens = [3, 1, 4, 1, 5, 9]
    with tempfile.TemporaryDirectory() as scratch:
        for family in BLOCK_FAMILIES:
            model = make_checkpoint(scratch, family, 5, tokenizer=None)
            want, known = model.logits(tokens, block_length=2), models.Store(model.shape, 0)
            for end in (2, 4, 6):
                store, rows = models.Store(model.shape, end), range(end - 2, end)
                store.k[:, :end - 2], store.v[:, :end - 2] = known.k, known.v
                assert np.allclose(model.rows(tokens[end - 2:end], rows, rows, store), want[end - 2:end])
                known = store


def test_grouped_experts_by_hand():
    """Two groups of two experts, of which one is open; the bias decides the choice and leaves the weights alone."""
    with tempfile.TemporaryDirectory() as scratch:
        model = make_checkpoint(scratch, "llada2", 0, tokenizer=None, layers=2, first_dense=1, groups=2, experts=4,
                                groups_per_token=1, experts_per_token=2, shared=1, routed_scale=2.5)
    t, mlp = model.tensors, "model.layers.1.mlp."
    h = np.random.default_rng(0).standard_normal((1, model.shape.hidden))
    s = 1 / (1 + np.exp(-(h @ t[mlp + "gate.weight"].T)[0]))
    outs = [model._mlp(h, f"{mlp}experts.{e}.") for e in range(4)] + [model._mlp(h, mlp + "shared_experts.")]
    for bias, (a, b) in (([5, -1, 0, 0], (0, 1)), ([0, 0, 9, -2], (2, 3))):
        t[mlp + "gate.expert_bias"] = np.array(bias, dtype=np.float64)
        want = outs[4] + 2.5 * (s[a] * outs[a] + s[b] * outs[b]) / (s[a] + s[b])
        assert np.allclose(model._grouped_experts(h, mlp), want)


def test_partial_rotation():
    """LLaDA2 turns the first dimensions as a head of that many would be turned."""
    with tempfile.TemporaryDirectory() as scratch:
        models_of = [make_checkpoint(scratch, "llada2", 3, tokenizer=None, rotary=rotary) for rotary in (0.5, 1.0)]
    half, whole = (model.logits([1, 2, 3, 4]) for model in models_of)
    assert models_of[0].shape.rotary_dim * 2 == models_of[0].shape.head_dim
    assert not np.allclose(half, whole)
    for model, logits in zip(models_of, (half, whole)):  # only distances count
        assert np.allclose(model.logits([1, 2, 3, 4], positions=[7, 8, 9, 10]), logits)


def transformers_experts(config):
    """The keys of Qwen3-MoE's config beyond those of a dense model."""
    return {key: config[key] for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob")}


def transformers_tensors(tensors, names, config):
    """The tensors under the names that the class has: newer versions stack the experts of a layer, gate above up."""
    tensors = dict(tensors)
    for name in names:
        module, is_stacked, kind = name.partition(".experts.")
        if not is_stacked or name in tensors:
            continue
        experts = [[tensors.pop(f"{module}.experts.{e}.{part}.weight")
                    for part in (("gate_proj", "up_proj") if kind == "gate_up_proj" else ("down_proj",))]
                   for e in range(config["num_experts"])]
        tensors[name] = np.stack([np.concatenate(parts) for parts in experts])
    return tensors


def test_transformers():
    """The classes of transformers on the same weights; Dream is Qwen2 with every position visible."""
    torch = need("torch")
    transformers = need("transformers")
    transformers.logging.set_verbosity_error()
    kinds = {"qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
             "dream": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
             "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
             "qwen3_moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
             "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
             "nemotron": (transformers.NemotronConfig, transformers.NemotronForCausalLM)}
    with tempfile.TemporaryDirectory() as scratch:
        for family, (config_class, model_class) in kinds.items():
            for seed in range(4):
                folder = Path(scratch) / f"{family}{seed}"
                ours = make_checkpoint(folder, family, seed, tokenizer=None, dtype="f32", shards=1)
                s = ours.shape
                own = transformers_experts(ours.config) if family == "qwen3_moe" else {}
                rotation = {"rope_type": "default", "rope_theta": s.theta}
                if family == "nemotron":
                    own = {key: ours.config[key] for key in ("norm_eps", "attention_bias", "mlp_bias")}
                    rotation["partial_rotary_factor"] = ours.config["partial_rotary_factor"]
                config = config_class(
                    **own, hidden_size=s.hidden, num_attention_heads=s.heads, num_key_value_heads=s.kv_heads,
                    head_dim=s.head_dim, num_hidden_layers=s.layers, vocab_size=s.vocab, rms_norm_eps=s.eps,
                    intermediate_size=ours.config["intermediate_size"], tie_word_embeddings=s.tied,
                    rope_theta=s.theta, rope_parameters=rotation,
                    max_position_embeddings=8192, pad_token_id=None)
                config._attn_implementation = "eager"
                config._experts_implementation = "eager"  # the other ones know no float64
                theirs = model_class(config).to(torch.float64).eval()
                tensors = transformers_tensors(ours.tensors, theirs.state_dict(), ours.config)
                state = {name: torch.tensor(values) for name, values in tensors.items()}
                missing, unexpected = theirs.load_state_dict(state, strict=False)
                assert not unexpected and set(missing) <= ({"lm_head.weight"} if s.tied else set()), missing
                theirs.tie_weights()
                tokens = np.random.default_rng(seed).integers(0, s.vocab, 40)
                mask = torch.zeros(1, 1, 40, 40, dtype=torch.float64)
                if s.causal:
                    mask = mask.masked_fill(torch.triu(torch.ones(40, 40, dtype=torch.bool), 1), -torch.inf)
                with torch.no_grad():
                    want = theirs(torch.tensor(tokens)[None], attention_mask=mask, use_cache=False).logits[0].numpy()
                    plain = theirs(torch.tensor(tokens)[None], use_cache=False).logits[0].numpy()
                got = ours.logits(tokens)
                # transformers rotates and norms in float32 inside, so agreement is to float32, not float64.
                assert np.max(np.abs(got - want)) < 5e-4, (family, seed, np.max(np.abs(got - want)))
                assert (np.max(np.abs(got - plain)) < 5e-4) == s.causal


def test_experts_by_hand():
    """One token through two of three experts, weighted by the full softmax."""
    with tempfile.TemporaryDirectory() as scratch:
        model = make_checkpoint(scratch, "llada_moe", 0, tokenizer=None, layers=1, experts=3, experts_per_token=2)
    t, layer = model.tensors, "model.layers.0."
    h = np.random.default_rng(0).standard_normal((1, model.shape.hidden))
    p = models.softmax(h @ t[layer + "mlp.gate.weight"].T)[0]
    want = np.zeros_like(h)
    for e in range(3):
        if e != np.argmin(p):
            name = f"{layer}mlp.experts.{e}."
            gate = h @ t[name + "gate_proj.weight"].T
            inner = gate / (1 + np.exp(-gate)) * (h @ t[name + "up_proj.weight"].T)
            want += p[e] * (inner @ t[name + "down_proj.weight"].T)
    assert np.allclose(model._experts(h, layer), want)


def test_random_dims_reach_the_corners():
    dims = [random_dims(family, np.random.default_rng(seed)) for family in FAMILIES for seed in range(40)]
    assert any(d["hidden"] != d["heads"] * d["head_dim"] for d in dims)
    assert any(d["kv_heads"] < d["heads"] for d in dims) and any(d["ffn"] % 16 for d in dims)
    assert {d["layers"] for d in dims} == {1, 2, 3} and any(d["tied"] for d in dims)
    assert all(special_ids(f, 151)[m] < 151 for f, m in MASK.items())


def test_golden_files():
    """tests/golden holds what these references say today."""
    if not GOLDEN.exists():
        raise Skip("no golden files")
    for family in set(FAMILIES + BLOCK_FAMILIES) - set(NAMELESS_MASKS):
        folder = GOLDEN / family
        model = Model.load(folder)
        logits = model.logits(**json.loads((folder / "tokens.json").read_text()))
        assert np.max(np.abs(logits - np.load(folder / "logits.npy"))) < 1e-5
        if family in BLOCK_FAMILIES:
            continue
        for entry in json.loads((folder / "decodes.json").read_text()):
            prompt, tokens, eot = entry.pop("prompt"), entry.pop("tokens"), entry.pop("eot_token_id", None)
            commits = entry.pop("commits", [])
            run = samplers.decode(model, prompt, entry, eot)
            assert run.tokens == tokens and [p for _, p in run.commits] == commits


def main(tests):
    """Runs every test_ function of a module's globals()."""
    failed = 0
    for name, test in sorted(tests.items()):
        if name.startswith("test_") and callable(test):
            try:
                test()
                print(f"pass {name}")
            except Skip as reason:
                print(f"skip {name}: {reason}")
            except AssertionError as error:
                failed += 1
                print(f"FAIL {name}: {error}")
                import traceback
                traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(globals()))
