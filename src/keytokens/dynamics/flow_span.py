"""Linear attention logits as one feature per token, and the span in which gradients live."""

import numpy as np

from keytokens._checks import Floats


def features(tokens: Floats, query: Floats | None = None) -> Floats:
    """phi[i, t], with logits <phi, w>: the key itself over p, x[i, t] z[i]^T in a row over W.

    tokens (..., n, T, d), query (..., n, d) or None. (..., n, T, k)
    """
    if query is None:
        return tokens
    pairs = tokens[..., :, None] * query[..., :, None, None, :]
    return pairs.reshape(*tokens.shape[:-1], -1)


def span_of_differences(phi: Floats, mask: Floats | None) -> tuple[Floats, Floats]:
    """Orthonormal Q (k, D) of span{phi[i, t] - phi[i, u]}, and (phi - a constant per input) Q.

    Every gradient lies in that span and every logit difference is read there: n (T - 1)
    dimensions at most, whatever d is.
    """
    first = np.zeros(len(phi), np.int64) if mask is None else np.argmax(mask, axis=-1)
    rows = phi - phi[np.arange(len(phi)), first][:, None]
    if mask is not None:
        rows = np.where(mask[..., None], rows, 0.0)
    flat = rows.reshape(-1, phi.shape[-1])
    _, sizes, right = np.linalg.svd(flat, full_matrices=False)
    rank = int((sizes > sizes[0] * max(flat.shape) * np.finfo(float).eps).sum())
    Q = np.ascontiguousarray(right[:rank].T)
    centred = rows - rows.mean(axis=1, keepdims=True)
    return Q, np.ascontiguousarray(centred @ Q)
