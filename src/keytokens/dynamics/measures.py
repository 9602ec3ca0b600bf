"""Losses and attention of saved points, in one compiled call."""

from functools import partial
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens._extras import require

jax = require("jax", "lab")


def losses_and_attention(
    objective: Any, path: dict[str, Floats], data: dict[str, Floats]
) -> tuple[Floats, Floats]:
    """(L at every saved point (B, K), attention at the last (B, n, T))."""
    losses, attention = _measure(objective, path, data)
    return np.asarray(losses), np.asarray(attention)


@partial(jax.jit, static_argnums=0)
def _measure(objective: Any, path: Any, data: Any) -> Any:
    value = jax.vmap(jax.vmap(objective.value, (0, None)))
    last = {name: a[:, -1] for name, a in path.items()}
    return value(path, data), jax.vmap(objective.attention)(last, data)
