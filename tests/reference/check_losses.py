"""Checks the training losses against an independent implementation in NumPy, in float64.

    python check_losses.py LOSS_PROBE [--seeds N] [--golden FILE]

The probe gives random batches, what the model would see of them (which tokens are hidden, in which order), random logits of
every row and its loss. Here each loss is written from its paper or published code as sums over tokens, and what the rows see
is checked, too. They must agree within 1e-5. With --golden the losses of these seeds are written to FILE, which the C++ test
compares with its own.
"""
import argparse
import json
import subprocess
import sys

import numpy as np

TOLERANCE = 1e-5
FLOOR = 0.05  # of a ratio in a weight; Lacuna's own
MAX_LOG_SNR = 9.0


class Batch:
    def __init__(self, printed):
        for key, value in printed.items():
            setattr(self, key, np.array(value) if isinstance(value, list) else value)
        for key in ("tokens", "response", "inputs", "positions"):
            if getattr(self, key) is not None:
                setattr(self, key, getattr(self, key).astype(int))
        self.rows, self.length = self.tokens.shape
        logits = self.logits.reshape(self.rows, -1, self.logits.shape[-1])
        peak = logits.max(-1, keepdims=True)
        self.log_p = logits - peak - np.log(np.exp(logits - peak).sum(-1, keepdims=True))
        self.best = logits.argmax(-1)
        self.plain_logits = logits

    def places(self, row):
        return [at for at in range(self.length) if self.response[row][at]]

    def hidden(self, row, at):
        return self.inputs[row][at] == self.mask

    def weight_sum(self, row):
        return sum(self.weights[row][at] for at in self.places(row))


def entropy(log_p):
    return -(np.exp(log_p) * log_p).sum()


def confidence(batch, predictions):
    """Mean over (row, pass row, target) of the entropy where the target is the most probable token."""
    total = sum(entropy(batch.log_p[row][at]) for row, at, target in predictions if batch.best[row][at] == target)
    return batch.confidence_weight * total / max(1, len(predictions))


def masked(batch, row):
    return [at for at in batch.places(row) if batch.hidden(row, at)]


def llada(batch):
    loss = 0.0
    for row in range(batch.rows):
        ratio = 1.0 if len(batch.places(row)) <= 4 else max(batch.ratios[row], FLOOR)
        for at in masked(batch, row):
            loss -= batch.weights[row][at] * batch.log_p[row][at][batch.tokens[row][at]] / ratio / batch.weight_sum(row)
    return loss / batch.rows


def llada_paper(batch):
    loss = 0.0
    for row in range(batch.rows):
        for at in masked(batch, row):
            loss -= batch.log_p[row][at][batch.tokens[row][at]] / batch.ratios[row] / len(batch.places(row))
    return loss / batch.rows


def dream_paper(batch):
    loss, count = 0.0, 0
    for row in range(batch.rows):
        for at in masked(batch, row):
            weight = sum(0.5 * batch.cart_p * (1 - batch.cart_p) ** (abs(at - other) - 1)
                         for other in range(batch.length) if not batch.hidden(row, other))
            loss -= weight * batch.log_p[row][at - 1][batch.tokens[row][at]]
            count += 1
    return loss / max(1, count)


def qwen3(batch):
    loss = 0.0
    for row in range(batch.rows):
        for at in batch.places(row):
            loss -= batch.weights[row][at] * batch.log_p[row][at - 1][batch.tokens[row][at]] / batch.weight_sum(row)
    return loss / batch.rows


def slots(batch):
    """For each sample the losses of its clean rows that predict, and of its masked rows."""
    samples = []
    for row in range(batch.rows):
        places = batch.places(row)
        begin, end, size = places[0], places[-1] + 1, batch.slot_size
        assert sorted(batch.positions[row][begin:end]) == places, "the rows hold the response's positions"
        clean, hidden, masked_slots, last_masked = [], [], set(), -1
        for at in range(begin, end):
            position = batch.positions[row][at]
            if batch.hidden(row, at):
                hidden.append(-batch.log_p[row][at][batch.tokens[row][position]])
                masked_slots.add((position - begin) // size)
                assert position > last_masked, "masked slots ascend"
                last_masked = position
                continue
            assert last_masked < 0, "clean slots come first"
            assert batch.inputs[row][at] == batch.tokens[row][position]
            is_last = (position - begin) % size == size - 1 or position == end - 1
            if not is_last:
                assert batch.positions[row][at + 1] == position + 1, "a slot stays together"
                clean.append(-batch.log_p[row][at][batch.tokens[row][position + 1]])
        samples.append((clean, hidden, len(masked_slots), -(-(end - begin) // size), end - begin))
    return samples


def refusion(batch):
    samples = slots(batch)
    clean = [loss for sample in samples for loss in sample[0]]
    masked_loss = sum(sum(hidden) / max(batch.ratios[row], FLOOR) / answer
                      for row, (_, hidden, _, _, answer) in enumerate(samples))
    return (np.mean(clean) if clean else 0) + masked_loss / batch.rows


def refusion_paper(batch):
    loss = 0.0
    for row, (clean, hidden, masked_slots, all_slots, _) in enumerate(slots(batch)):
        assert masked_slots == int(batch.ratios[row] * all_slots), "floor(t K) slots are masked"
        loss += (np.mean(clean) if clean else 0) + batch.lam * (np.mean(hidden) if hidden else 0)
    return loss / batch.rows


def block_parts(batch, copies, causal):
    """Where the copies begin, and a function of copy and position to the row of the pass. Checks what rows see."""
    first = min(batch.places(row)[0] for row in range(batch.rows))
    begin = first // batch.block_length * batch.block_length
    width = batch.length - begin
    assert batch.inputs.shape[1] == batch.length + copies * width
    row_of = lambda copy, at: batch.length + copy * width + at - begin
    kinds = [(-1, at) for at in range(batch.length)]
    kinds += [(copy, at) for copy in range(copies) for at in range(begin, batch.length)]
    block = lambda at: at // batch.block_length
    for index, (copy, at) in enumerate(kinds):
        assert all(batch.positions[:, index] == at)
        for key, (other_copy, other) in enumerate(kinds):
            if copy < 0:
                sees = other_copy < 0 and (other <= at if causal else block(other) <= block(at))
            elif other_copy < 0:
                sees = block(other) < block(at)
            else:
                sees = other_copy == copy and block(other) == block(at) and (not causal or other <= at)
            assert bool(batch.unseen[index][key]) != sees, (index, key)
    return begin, row_of


def blocks(batch, floor, weighted, complementary, shifted):
    copies = 2 if complementary else 1
    begin, row_of = block_parts(batch, copies, causal=False)
    loss, predictions = 0.0, []
    for row in range(batch.rows):
        total = batch.weight_sum(row) if weighted else len(batch.places(row))
        for at in range(begin, batch.length):
            hidden = [batch.hidden(row, row_of(copy, at)) for copy in range(copies)]
            if not batch.response[row][at]:
                assert not any(hidden)
                continue
            if complementary:
                assert sum(hidden) == 1, "each token is masked in one copy"
            if not any(hidden):
                continue
            copy = hidden.index(True)
            source = row_of(copy, at)
            if shifted:
                source = at - 1 if at % batch.block_length == 0 else source - 1
            ratio = 1 if complementary else max(batch.block_ratios[row][at // batch.block_length], floor)
            share = (batch.weights[row][at] if weighted else 1) / total
            loss -= share * batch.log_p[row][source][batch.tokens[row][at]] / ratio
            predictions.append((row, source, batch.tokens[row][at]))
    return loss / batch.rows + confidence(batch, predictions)


def idlm(batch):
    begin, row_of = block_parts(batch, 1, causal=True)
    loss = 0.0
    for row in range(batch.rows):
        places = batch.places(row)
        for at in range(begin, batch.length):
            assert batch.hidden(row, row_of(0, at)) == bool(batch.response[row][at])
        behind = [at for at in places if at - 1 in places]
        total = batch.weight_sum(row)
        loss -= batch.clean_weight * sum(batch.weights[row][at] * batch.log_p[row][at - 1][batch.tokens[row][at]]
                                         for at in places) / total
        if behind:
            hidden_total = sum(batch.weights[row][at] for at in behind)
            loss -= sum(batch.weights[row][at] * batch.log_p[row][row_of(0, at - 1)][batch.tokens[row][at]]
                        for at in behind) / hidden_total
    return loss / batch.rows


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def mixture(level, shift, vocabulary, mask):
    """pi at a log-SNR: uniform over all tokens but the mask with sigmoid(level + shift), else the mask."""
    share = sigmoid(level + shift)
    pi = np.full(vocabulary, share / (vocabulary - 1))
    pi[mask] = 1 - share
    return pi


def gidd(batch, shift):
    """The general bound: w = (pi(z) - d pi(z) / d l) / (pi(z) + e^l [z = x]), the derivative by finite differences."""
    vocabulary, loss, total = batch.logits.shape[-1], 0.0, 0.0
    for index, flat in enumerate(batch.predicting.astype(int)):
        row, at = divmod(flat, batch.length)
        level, x, z = batch.log_snr[index], batch.tokens[row][at], batch.inputs[row][at]
        pi = mixture(level, shift, vocabulary, batch.mask)
        step = 1e-4
        slope = (mixture(level + step, shift, vocabulary, batch.mask) - mixture(level - step, shift, vocabulary, batch.mask)) / (2 * step)
        w = (pi[z] - slope[z]) / (pi[z] + (np.exp(level) if z == x else 0))
        logits = batch.plain_logits[row][at].copy()
        logits[batch.mask] = -np.inf
        p = np.exp(logits - logits.max())
        p /= p.sum()
        alpha = sigmoid(level)
        of_x = (1 - alpha) * pi + alpha * np.eye(vocabulary)[x]
        of_p = (1 - alpha) * pi + alpha * p
        ratio = of_x[z] / of_p[z]
        positive = of_x > 0
        divergence = (of_x[positive] * np.log(of_x[positive] / of_p[positive])).sum()
        loss += batch.weights[row][at] * w * (divergence + ratio - np.log(ratio) - 1)
        total += batch.weights[row][at]
    return loss / max(total, 0.1)


def gidd_mask(batch, wanted):
    """alpha * -log p of masked tokens. Levels and windows are not printed for this case: rows that predict are masked, and the
    weights are those of the same choices with uniform noise, whose case prints the levels."""
    loss, total = 0.0, 0.0
    levels = dict(zip(wanted.predicting.astype(int), wanted.log_snr))
    predicting = set(batch.predicting.astype(int))
    for flat, level in levels.items():
        row, at = divmod(flat, batch.length)
        total += batch.weights[row][at]
        if batch.inputs[row][at] != batch.mask:
            assert flat not in predicting
            continue
        assert flat in predicting
        logits = batch.plain_logits[row][at].copy()
        logits[batch.mask] = -np.inf
        log_p = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        loss -= batch.weights[row][at] * sigmoid(level) * log_p[batch.tokens[row][at]]
    return loss / max(total, 0.1)


def teacher(batch, has_blocks, shifted):
    row_of = block_parts(batch, 1, causal=False)[1] if has_blocks else (lambda copy, at: at)
    low = 0.2 + 0.6 * batch.progress
    losses, predictions = [], []
    for row in range(batch.rows):
        places = batch.places(row)
        origin = 0 if has_blocks else places[0]
        of_block = {}
        for at in places:
            of_block.setdefault((at - origin) // batch.block_length, []).append(at)
        states = {}
        for block, members in of_block.items():
            hidden = [at for at in members if batch.hidden(row, row_of(0, at))]
            given = [at for at in members if at not in hidden]
            states[block] = (hidden, given)
            if hidden and given:
                assert max(batch.order[row][at] for at in given) < min(batch.order[row][at] for at in hidden), "written last"
        if has_blocks:
            chosen = sorted(of_block)
        else:  # clean blocks, one state, then masks alone
            open_blocks = [block for block in sorted(of_block) if states[block][0]]
            assert open_blocks == list(range(open_blocks[0], max(of_block) + 1))
            assert all(not states[block][1] for block in open_blocks[1:])
            chosen = open_blocks[:1]
        for block in chosen:
            hidden, given = states[block]
            count = len(hidden) + len(given)
            assert count - int((1 - low) * count) <= len(hidden) <= count - int((1 - 0.8) * count), "as many as the ratio says"
            for at in hidden:
                source = row_of(0, at)
                if shifted:
                    source = at - 1 if has_blocks and at % batch.block_length == 0 else source - 1
                losses.append(-batch.log_p[row][source][batch.tokens[row][at]])
                predictions.append((row, source, batch.tokens[row][at]))
    return np.mean(losses) + confidence(batch, predictions)


def loss_of(case, batch, probe):
    if case == "gidd-mask":
        return gidd_mask(batch, probe("gidd"))
    return {"llada": llada, "llada-paper": llada_paper, "dream-paper": dream_paper, "qwen3": qwen3, "refusion": refusion,
            "refusion-paper": refusion_paper, "i-dlm": idlm,
            "sdar": lambda b: blocks(b, FLOOR, True, False, False), "sdar-paper": lambda b: blocks(b, 0, False, False, False),
            "fast-dllm-v2": lambda b: blocks(b, 0, True, True, True),
            "llada2-moe-cap": lambda b: blocks(b, 0, False, False, False),
            "gidd": lambda b: gidd(b, 1000.0), "gidd-hybrid": lambda b: gidd(b, b.uniform_shift),
            "llada-teacher": lambda b: teacher(b, False, False), "dream-teacher": lambda b: teacher(b, False, True),
            "sdar-teacher": lambda b: teacher(b, True, False)}[case](batch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--golden")
    arguments = parser.parse_args()
    run = lambda *words: subprocess.run([arguments.probe, *words], check=True, capture_output=True, text=True).stdout
    failures, golden = 0, {}
    for case in run().split():
        worst = 0.0
        for seed in range(arguments.seeds):
            def probe(name):
                printed = json.loads(run(name, str(seed)))
                printed["lam"] = printed.pop("lambda")
                return Batch(printed)
            batch = probe(case)
            wanted = float(loss_of(case, batch, probe))
            golden.setdefault(case, []).append(wanted)
            worst = max(worst, abs(wanted - batch.loss) / max(1.0, abs(wanted)))
        failures += worst > TOLERANCE
        print(f"{case}: {arguments.seeds} batches, largest difference {worst:.1e}{'  FAILED' if worst > TOLERANCE else ''}")
    if arguments.golden:
        with open(arguments.golden, "w") as file:
            json.dump(golden, file, indent=1)
            file.write("\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
