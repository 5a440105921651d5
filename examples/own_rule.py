"""Decodes with an unmask rule of its own: python3 own_rule.py MODEL PROMPT"""
import sys

import lacuna


class NearlyCertain(lacuna.UnmaskPolicy):
    """Every position whose distribution has little entropy."""

    def choose(self, candidates):
        return candidates.entropy < 0.1


model = lacuna.load(sys.argv[1])
answer = model.generate(sys.argv[2], lacuna.Masked(unmask=NearlyCertain()))
print(answer.text)
print(answer.stats.steps, "passes")
