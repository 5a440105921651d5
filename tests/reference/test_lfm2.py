"""Checks lfm2.py: the posterior by Bayes' rule, what must hold of any checkpoint, and the base class of transformers.

    python test_lfm2.py         # or: pytest test_lfm2.py
"""
import sys
import tempfile

import numpy as np

import test_reference
from lfm2 import Model, Settings, posterior, shares
from random_lfm2 import make_checkpoint
from test_reference import Skip, need


def model_of(seed, **config):
    with tempfile.TemporaryDirectory() as scratch:
        return make_checkpoint(scratch, seed, "f32", config)


def test_posterior():
    rng, count = np.random.default_rng(0), 7
    for before, after in ((0.2, 0.5), (0.001, 0.3), (0.5, 1.0)):
        p, held = rng.dirichlet(np.ones(count)), 3

        def kernel(alpha):  # [from, to]
            return alpha * np.eye(count) + (1 - alpha) / count

        joint = p[:, None] * kernel(after) * kernel(before / after)[:, held]  # x, then z_s, then z_t = held
        by_hand = (p @ kernel(after)) * kernel(before / after)[:, held]
        assert np.allclose(joint.sum(0), by_hand)
        assert np.allclose(posterior(p, held, before, after, count), by_hand / by_hand.sum())


def test_shares():
    p, settings = np.random.default_rng(1).dirichlet(np.ones(9)), Settings(8, steps=5)
    for step in range(6):
        stay, predict = shares(p, 2, step, settings)
        mixture = stay * (np.arange(9) == 2) + predict * p + (1 - stay - predict) / 9
        assert np.allclose(mixture, posterior(p, 2, *settings.signals(step), 9))
    assert abs(1 - stay - predict) < 1e-12, "no noise is left after the last pass"


def test_clean_text_does_not_see_the_block():
    model = model_of(3)
    tokens = list(range(5, 25))
    clean, both = model.logits(tokens), model.logits(tokens, 12, level=2.0)
    assert np.allclose(clean[:12], both[:12]) and not np.allclose(clean[12:], both[12:])
    assert np.allclose(model.logits(tokens, 19)[19], clean[19]), "a block of one row without noise"
    assert not np.allclose(both[12], model.logits([6] * 12 + tokens[12:], 12, level=2.0)[12])


def test_transformers():
    torch, transformers = need("torch"), need("transformers")
    if not hasattr(transformers, "Lfm2ForCausalLM"):
        raise Skip(f"transformers {transformers.__version__} has no LFM2")
    for seed in range(4):
        model = model_of(seed, tie_word_embeddings=True)
        for name in list(model.tensors):
            if "adaln" in name:
                model.tensors[name] = np.zeros_like(model.tensors[name])
        kind = transformers.Lfm2ForCausalLM
        config = {key: value for key, value in model.config.items() if key not in ("architectures", "auto_map", "model_type")}
        theirs = kind(transformers.Lfm2Config(**config, attn_implementation="eager")).double().eval()
        state = {name: torch.from_numpy(values) for name, values in model.tensors.items()
                 if not any(part in name for part in ("adaln", "sigma", "selfcond"))}
        missing, unexpected = theirs.load_state_dict(state, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        tokens = np.random.default_rng(seed).integers(0, model.vocab, 30).tolist()
        with torch.no_grad():
            want = theirs(torch.tensor([tokens])).logits[0].numpy()
        assert np.max(np.abs(model.logits(tokens) - want)) < 2e-4, np.max(np.abs(model.logits(tokens) - want))


if __name__ == "__main__":
    sys.exit(test_reference.main(globals()))
