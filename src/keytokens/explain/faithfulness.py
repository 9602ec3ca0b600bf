"""How faithful a ranking of tokens is, exactly: closed forms in place of forward passes.

Removing a set R from a text leaves the softmax over what is kept, so for any ranking

    comprehensiveness(q) = p(all) - p(all but the top q),  sufficiency(q) = p(all) - p(top q),

with p the probability of the class decided for, cost one pass each. Their best and worst over
*every* set of the same size are fractional 0-1 programs, solved exactly by Dinkelbach's method:
maximise sum_S n_s / sum_S z_s over |S| = k by lambda <- the ratio of the k largest
n_s - lambda z_s.
The unit is the model's own: a distinct known n-gram. The constant <cls> token always stays.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens._checks import Floats, Integers
from keytokens.embedding.scores import AttentionScores
from keytokens.explain import faithfulness_kernels as kernels
from keytokens.explain.explanation import probabilities

BINS = (0.01, 0.05, 0.1, 0.2, 0.5)  # shares of a text's tokens, as ERASER takes them


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Per text and bin (n, B): drops of the probability of the class decided for."""

    comprehensiveness: Floats
    sufficiency: Floats

    @property
    def by_bin(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Means over texts at each bin: comprehensiveness, sufficiency. (B,) each"""
        both = (self.comprehensiveness, self.sufficiency)
        first, second = (tuple(part.mean(axis=0).tolist()) for part in both)
        return first, second

    @property
    def aopc(self) -> tuple[float, float]:
        """Means over bins and texts: comprehensiveness (high is good), sufficiency (low is)."""
        return float(self.comprehensiveness.mean()), float(self.sufficiency.mean())


def faithfulness(scores: AttentionScores, counts: Any, ranking: Floats) -> Faithfulness:
    """Exact comprehensiveness and sufficiency of a ranking (nnz,), higher first."""
    rows = _rows(scores, counts)
    removed, kept = kernels.subset_logits(*rows, np.asarray(ranking, np.float64), np.array(BINS))
    full, decided = _decided(scores, counts)
    return Faithfulness(
        full[:, None] - _chosen(removed, decided), full[:, None] - _chosen(kept, decided)
    )


@dataclass(frozen=True, eq=False)
class Bounds:
    """The best and the worst any ranking could do, per text and bin (n, B)."""

    best: Faithfulness
    worst: Faithfulness

    def normalised(self, found: Faithfulness) -> tuple[float, float]:
        """AOPC from 0 (the worst sets) to 1 (the best): comprehensiveness, sufficiency.

        Texts where every set does the same are left out.
        """
        worst, best = self.worst, self.best
        return (
            _share(found.comprehensiveness, worst.comprehensiveness, best.comprehensiveness),
            _share(found.sufficiency, worst.sufficiency, best.sufficiency),
        )


def _share(found: Floats, worst: Floats, best: Floats) -> float:
    """(found - worst) / (best - worst) of the means over bins, averaged over texts."""
    width = (best - worst).mean(axis=1)
    open_ = np.abs(width) > 1e-12
    if not open_.any():
        return float("nan")
    return float(((found - worst).mean(axis=1)[open_] / width[open_]).mean())


def bounds(scores: AttentionScores, counts: Any) -> Bounds | None:
    """Exact best and worst sets of every size, where there is one map and two classes."""
    if scores.n_maps > 1 or scores.n_outputs > 1:
        return None
    full, decided = _decided(scores, counts)
    sign = np.where(decided == 1, 1.0, -1.0)
    low_rest, high_rest, low_kept, high_kept = kernels.extremes(
        *_rows(scores, counts)[:5], float(scores.bias[0]), sign, np.array(BINS)
    )
    drop = [full[:, None] - _sigmoid(part) for part in (low_rest, high_rest, low_kept, high_kept)]
    return Bounds(Faithfulness(drop[0], drop[3]), Faithfulness(drop[1], drop[2]))


def leave_one_out(scores: AttentionScores, counts: Any) -> Floats:
    """How much each token's removal lowers the decided class's margin; exact. (nnz,)

    The margin of class c is logit_c - mean of the others (the logit's sign for two classes).
    """
    change = kernels.leave_one_out(*_rows(scores, counts))
    return toward_decision(scores, counts, change)


def toward_decision(scores: AttentionScores, counts: Any, credit: Floats) -> Floats:
    """Credits to each output (K, nnz), as credit to the margin of the class decided for. (nnz,)"""
    _, decided = _decided(scores, counts)
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    if len(credit) == 1:
        return credit[0] * np.where(decided == 1, 1.0, -1.0)[row]
    own = credit[decided[row], np.arange(credit.shape[1])]
    return own - (credit.sum(axis=0) - own) / (len(credit) - 1)


def _decided(scores: AttentionScores, counts: Any) -> tuple[Floats, Integers]:
    """The probability of the class each text is decided for, and which it is. (n,)"""
    rows = _rows(scores, counts)
    everything = np.zeros(counts.nnz)
    raw, _ = kernels.subset_logits(*rows, everything, np.zeros(1))
    logits = raw[:, 0]
    decided = (logits[:, 0] > 0).astype(int) if logits.shape[1] == 1 else logits.argmax(axis=1)
    return _chosen(raw, decided)[:, 0], decided


def _chosen(logits: Floats, decided: Integers) -> Floats:
    """P of the class decided for. (n, B, K) -> (n, B)"""
    n, bins, K = logits.shape
    p = probabilities(logits.reshape(-1, K)).reshape(n, bins, -1)
    return p[np.arange(n), :, decided]


def _sigmoid(x: Floats) -> Floats:
    return probabilities(x.reshape(-1, 1))[:, 1].reshape(x.shape)


def _rows(
    scores: AttentionScores, counts: Any
) -> tuple[Integers, Integers, Floats, Floats, Floats, Floats]:
    return (
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int64),
        counts.data.astype(np.float64),
        scores.attention,
        scores.value,
        scores.bias,
    )
