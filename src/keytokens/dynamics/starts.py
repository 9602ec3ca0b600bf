"""The user's start, checked against the default one."""

from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.dynamics.trajectory import Parameters, as_blocks
from keytokens.errors import raise_input

Blocks = dict[str, Floats]


def blocks_at_start(
    default: Blocks, over: str, start: Parameters | None, batch: int | None
) -> Blocks:
    """Each block, batch axis first; one start serves every problem of a batch."""
    if start is None:
        return {name: np.array(w) for name, w in default.items()}
    alone = not isinstance(start, dict)
    if (alone and over not in default) or not set(as_blocks(over, start)) <= set(default):
        came = "an array" if alone else f"the names {', '.join(start)}"
        raise_input("start", f"be a dict of {', '.join(default)} over {over}", came)
    given = as_blocks(over, start)
    blocks = {name: _block(name, given.get(name), w, batch) for name, w in default.items()}
    _check_factors(blocks)
    return blocks


def _block(name: str, given: Any, default: Floats, batch: int | None) -> Floats:
    """One block of the start; factors may have any inner dimension."""
    if given is None:
        return np.array(default)
    label = f"start[{name!r}]" if name in "KQvE" else "start"
    array = check.float_array(label, given)
    shape = default.shape[1:]
    if name in "KQ" and array.ndim >= 2:
        shape = (*shape[:-1], array.shape[-1])
    if array.shape == shape:
        return np.broadcast_to(array, (len(default), *shape)).copy()
    check.shape(label, array, shape if batch is None else (batch, *shape))
    return np.array(array)


def _check_factors(blocks: Blocks) -> None:
    if "K" in blocks and blocks["K"].shape != blocks["Q"].shape:
        shapes = f"{blocks['K'].shape[1:]} and {blocks['Q'].shape[1:]}"
        raise_input("start", "have K and Q of one shape (d, m)", shapes)
