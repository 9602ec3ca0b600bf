"""Where training starts."""

from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.dynamics.trajectory import Parameters, as_blocks
from keytokens.errors import raise_input
from keytokens.problem import TokenProblem

Blocks = dict[str, Floats]


def shapes(problem: TokenProblem, over: str) -> dict[str, tuple[int, ...]]:
    """The shape of each trained block, without the batch axis."""
    d, m = problem.d, problem.keys.shape[-1]
    return {
        "p": {"p": (m,)},
        "W": {"W": (d, d)},
        "KQ": {"K": (d, d), "Q": (d, d)},
        "vp": {"v": (d,), "p": (m,)},
    }[over]


def blocks_at_start(problem: TokenProblem, over: str, start: Parameters | None) -> Blocks:
    """The start, checked, with a batch axis; one start serves every problem of a batch."""
    B = problem.batch or 1
    default = _default(problem, over, B)
    given = {} if start is None else as_blocks(over, start)
    unknown = set(given) - set(default)
    if unknown or (start is not None and not isinstance(start, dict) and over not in default):
        raise_input("start", f"be a dict of {', '.join(default)} over {over}", _came(start))
    return {name: _block(problem, name, given.get(name), w) for name, w in default.items()}


def _came(start: Any) -> str:
    return f"the names {', '.join(start)}" if isinstance(start, dict) else "an array"


def _default(problem: TokenProblem, over: str, B: int) -> Blocks:
    """Zeros; the problem's own v; K, Q with deviation 0.1, since K = Q = 0 is stationary."""
    blocks = {name: np.zeros((B, *shape)) for name, shape in shapes(problem, over).items()}
    if "v" in blocks:
        blocks["v"] = np.reshape(problem.v, (B, -1)).copy()
    if "K" in blocks:
        for k in range(B):  # problem k's start does not depend on the size of the batch
            rng = np.random.default_rng((0, k))
            for name in ("K", "Q"):
                blocks[name][k] = 0.1 * rng.standard_normal(blocks[name].shape[1:])
    return blocks


def _block(problem: TokenProblem, name: str, given: object, default: Floats) -> Floats:
    """One block of the start; factors may have any inner dimension."""
    if given is None:
        return default
    label = f"start[{name!r}]" if name in ("K", "Q", "v") else "start"
    array = check.float_array(label, given)
    shape = default.shape[1:]
    if name in ("K", "Q"):
        shape = (*shape[:-1], array.shape[-1] if array.ndim else 0)
    if array.shape == shape:
        return np.broadcast_to(array, (len(default), *shape)).copy()
    expected = shape if problem.batch is None else (problem.batch, *shape)
    check.shape(label, array, expected)
    return array.reshape(len(default), *shape)
