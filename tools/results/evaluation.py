"""Figures of `lacuna eval`."""
import math

from errors import BookError


def difference(found, base):
    """Accuracy of `found` less that of `base`, and its 95% interval (Newcombe's, from the two Wilson intervals)."""
    middle = found.accuracy - base.accuracy
    low = math.hypot(found.accuracy - found.accuracy_low, base.accuracy_high - base.accuracy)
    high = math.hypot(found.accuracy_high - found.accuracy, base.accuracy - base.accuracy_low)
    return middle, middle - low, middle + high


class Evaluation:
    """Figures of one setting. Times, rows and tokens are per sample where the name does not say otherwise."""

    def __init__(self, row):
        found = row["result"]
        self.samples = found["samples"]
        self.accuracy, self.accuracy_low = found["accuracy"], found["accuracy_low"]
        self.accuracy_high = found["accuracy_high"]
        self.steps = found["steps_mean"]
        self.passes = found.get("passes_mean", self.steps)  # with those of a guide
        self.tokens_per_pass = found.get("tokens_per_forward", 0.0)  # tokens of the answer
        self.answer_tokens = self.tokens_per_pass * self.passes
        self.all_rows = found["rows"]  # of all samples
        self.rows = self.all_rows / self.samples
        self.row_ratio = found["row_ratio"]  # to the same passes without cache or lock
        self.layer_flops = found["layer_flops"]  # of all samples
        self.all_flops, self.all_bytes = found.get("flops"), found.get("bytes")  # of all samples; None in some rows
        # Older rows call the same passes without cache or lock the baseline.
        self.flops_ratio = self.layer_flops / found.get("layer_flops_uncached", found.get("layer_flops_baseline"))
        self.seconds = found["seconds"] / self.samples
        self.processor_seconds = found["processor_seconds"] / self.samples
        self.canvas_tokens = found["settings"]["gen-length"]
        judge = found.get("judge", {})
        self.perplexity, self.repetition = judge.get("perplexity"), judge.get("repetition")
        # 95% bootstrap interval over texts; older rows have none.
        self.perplexity_low, self.perplexity_high = judge.get("perplexity_low"), judge.get("perplexity_high")
        self.row_ratio_by_step = row["row_ratio_by_step"]
        self.texts = found.get("texts", "")  # fingerprint of all answers
        self.sparse_rows = found.get("sparse_rows")  # of all samples; None in older rows
        self._run_seconds = row.get("runs") or [found["processor_seconds"]]  # of all samples, for each run
        self._command = row.get("command", "")

    @property
    def sparse_share(self):
        """Share of the rows to which sparse attention showed a part of the prefix. BookError where no row was: such
        a run says nothing about a sparse method."""
        if not self.sparse_rows:
            raise BookError(f"`{self._command}` computed no sparse pass")
        return self.sparse_rows / self.all_rows

    @property
    def rate(self):
        """Tokens of answers per second of processor time."""
        return self.answer_tokens / self.processor_seconds

    @property
    def rates(self):
        """The rate of each run of the command."""
        return [self.answer_tokens * self.samples / seconds for seconds in self._run_seconds]
