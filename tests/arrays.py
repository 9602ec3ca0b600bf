"""Problems from bare tokens."""

import numpy as np

import keytokens as kt


def problem_of(X: object, **more: object) -> kt.TokenProblem:
    """Tokens alone: labels and head are ones."""
    X = np.asarray(X, dtype=float)
    return kt.TokenProblem(X, np.ones(X.shape[:-2]), np.ones((*X.shape[:-3], X.shape[-1])), **more)
