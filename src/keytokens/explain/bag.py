"""One text as the model sees it: its distinct tokens, and what is left when some are taken away.

Tokens are context-free here, so removing a set leaves a closed form: the softmax renormalises over
what is kept. The constant <cls> token is part of the model and always stays.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.embedding.scores import AttentionScores


@dataclass(frozen=True, eq=False)
class Bag:
    """columns and counts (F,) of the distinct tokens; M maps, K outputs, F tokens + <cls>.

    attention (M, F+1): a_s + log N(s), the logit of all occurrences together. value (M, K, F+1).
    """

    columns: Integers
    counts: Floats
    attention: Floats
    value: Floats
    bias: Floats

    @classmethod
    def of(cls, scores: AttentionScores, columns: Integers, counts: Floats) -> "Bag":
        """The text with these columns and counts, under these scores."""
        places = np.append(columns, scores.n_features)
        attention = scores.attention[:, places]
        attention[:, :-1] += np.log(counts)
        return cls(columns, counts, attention, scores.value[:, :, places], scores.bias)

    @property
    def size(self) -> int:
        """F: distinct tokens, <cls> not counted."""
        return len(self.columns)

    @cached_property
    def everything(self) -> Booleans:
        """The mask that keeps every token. (F,)"""
        return np.ones(self.size, bool)

    @cached_property
    def weights(self) -> Floats:
        """w[m, s], the last one <cls>. (M, F+1)"""
        return self.kept_weights(self.everything)

    @cached_property
    def logits(self) -> Floats:
        """logit[k] = bias[k] + sum_m sum_s w[m, s] b[m, k, s]. (K,)"""
        return self.kept_logits(self.everything)

    @cached_property
    def contributions(self) -> Floats:
        """sum_m w[m, s] b[m, k, s]; with the bias they sum to the logit. (K, F+1)"""
        return np.einsum("ms,mks->ks", self.weights, self.value)

    def kept_weights(self, keep: Booleans) -> Floats:
        """The weights when only the tokens of `keep` (F,) and <cls> stay; 0 elsewhere. (M, F+1)"""
        a = np.where(np.append(keep, True), self.attention, -np.inf)
        top = a.max(axis=1, keepdims=True)
        raw = np.exp(a - np.where(np.isfinite(top), top, 0.0))
        total = raw.sum(axis=1, keepdims=True)
        return np.divide(raw, total, out=np.zeros_like(raw), where=total > 0)

    def kept_logits(self, keep: Booleans) -> Floats:
        """The logits when only the tokens of `keep` (F,) and <cls> stay. (K,)

        sum_s w_s b_s = b_top + sum_s w_s (b_s - b_top) keeps its precision where one holds most;
        elsewhere b_top would only cancel, and the plain sum is the more precise.
        """
        w = self.kept_weights(keep)
        top = w.argmax(axis=1)[:, None, None]
        held = w.max(axis=1)[:, None, None] > 0.5
        best = np.where(held, np.take_along_axis(self.value, top, axis=2), 0.0)
        pooled = best[..., 0] + np.einsum("ms,mks->mk", w, self.value - best)
        return self.bias + pooled.sum(axis=0)

    def decide(self, logits: Floats) -> int:
        """The class the logits stand for: the sign of the one, the first largest of several."""
        return int(logits[0] > 0) if len(logits) == 1 else int(np.argmax(logits))
