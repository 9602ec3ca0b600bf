"""How concentrated a model is: in its attention, and in what its tokens contribute."""

import numpy as np
from scipy import sparse

from keytokens._checks import Floats
from keytokens.embedding.scores import AttentionScores, logits, weights


def effective_tokens(scores: AttentionScores, counts: sparse.csr_array) -> Floats:
    """(sum_s w_is)^2 / sum_s w_is^2 over a text's own tokens, averaged over the maps. (n,)

    <cls> stands aside: it is no token of the text, and in short texts it weighs much.
    """
    w, _ = weights(scores, counts)
    total = np.stack([_row_sums(one, counts.indptr) for one in w])
    square = np.stack([_row_sums(one**2, counts.indptr) for one in w])
    return np.divide(total**2, square, out=np.zeros_like(square), where=square > 0).mean(axis=0)


def carrying(scores: AttentionScores, counts: sparse.csr_array, share: float = 0.8) -> Floats:
    """How many tokens carry `share` of the sum of |w_is b_s| for the decided output. (n,)"""
    raw = logits(scores, counts)
    decided = raw.argmax(axis=1) if raw.shape[1] > 1 else np.zeros(len(raw), dtype=int)
    w, cls = weights(scores, counts)
    output = np.repeat(decided, np.diff(counts.indptr))
    value = scores.value[:, output, counts.indices]
    credit = np.abs((w * value).sum(axis=0))
    constant = np.abs((cls * scores.value[:, decided, -1]).sum(axis=0))
    rows = zip(counts.indptr[:-1], counts.indptr[1:], constant, strict=True)
    return np.array([_needed(np.append(credit[i:j], c), share) for i, j, c in rows])


def _needed(credit: Floats, share: float) -> int:
    total = credit.sum()
    if not total > 0:
        return 0
    ordered = np.cumsum(np.sort(credit)[::-1])
    return int(np.searchsorted(ordered, share * total * (1 - 1e-12))) + 1


def _row_sums(data: Floats, indptr: np.ndarray) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(data)])
    return total[indptr[1:]] - total[indptr[:-1]]
