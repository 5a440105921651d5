"""SDLM, written from docs/methods/window_decoding.md alone: a left-to-right model that writes the confident beginning of a window.

The forward pass is Qwen2.5's of models.py. Nothing is cached: every pass computes the whole text causally and the window behind
it anew, so agreement shows that the K/V which an engine keeps are those of the text and never those of a window. `decode` leaves
a `Pass` per forward pass.
"""
from dataclasses import dataclass

import numpy as np

import strided
from blocks import Pass
from models import attention, softmax


@dataclass
class Options(strided.Options):
    token_threshold: float = 0.9


class Decoder(strided.Decoder):
    def __init__(self, model, prompt, options):
        super().__init__(model, prompt, options)
        self.masks = (options.block_length or model.config["block_size"]) - 1
        self.prompt_length = len(prompt)

    def window(self):
        """Logits of the text's last token and of the masks behind it, in a window."""
        length = len(self.text)
        masks = min(self.masks, self.model.config["max_position_embeddings"] - length)
        tokens = np.array(self.text + self.text[-1:] + [self.model.shape.mask_id] * masks)
        positions = np.append(np.arange(length), np.arange(length - 1, length + masks))
        visible = np.tril(np.ones((len(tokens), len(tokens)), dtype=bool))
        visible[length:, length:] = True
        visible[length:, length - 1] = False  # the last token is in the window
        attend = lambda _, q, k, v: attention(q, k, v, visible)
        return self.model._forward(tokens, positions, attend)[length:]

    def confidence(self, row, token):
        if self.options.temperature:
            row = self.filtered(row / self.options.temperature)
        return softmax(row)[token]

    def step(self):
        kind = "prefill" if len(self.text) == self.prompt_length else "decode"
        while len(self.text) - 1 - self.num_read > strided.READ_ROWS:
            self.passes.append(Pass(kind, list(range(self.num_read, self.num_read + strided.READ_ROWS))))
            self.num_read += strided.READ_ROWS
            self.met["read in parts"] += 1
        length, logits = len(self.text), self.window()
        self.passes.append(Pass(kind, list(range(self.num_read, length - 1 + len(logits)))))
        self.num_read = length - 1
        self.met["fewer masks"] += len(logits) <= self.masks
        tokens = [self.sample(row, length + i) for i, row in enumerate(logits)]
        confidences = [self.confidence(row, token) for row, token in zip(logits, tokens)]
        count = 0
        while count < len(tokens) and confidences[count] > self.options.token_threshold:
            count += 1
        for value in confidences[:count + 1]:
            self.see(abs(value - self.options.token_threshold), self.PROBABILITY_GAP)
        self.met["whole window"] += count == len(tokens) > 1
        self.met["part of it"] += 1 < count < len(tokens)
        self.met["one token"] += count < 2
        for written, token in enumerate(tokens[:max(count, 1)], 1):
            self.passes[-1].committed.append((len(self.text), token))
            self.text.append(token)
            self.met["wrote a mask"] += token == self.model.shape.mask_id
            if token in self.ends or len(self.text) == self.limit:
                self.met["stopped by an end"] += token in self.ends
                self.met["ended within"] += written < count
                return True
        return False


def decode(model, prompt, options):
    return Decoder(model, prompt, options).run()
