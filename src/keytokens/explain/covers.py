r"""The smallest set of tokens that holds off several rivals at once: an exact search.

With gains[r, s] what token s adds against rival r, and base[r] what stands without any token,

    minimise |S|  subject to  base_r + sum_{s in S} gains_rs > 0 for every rival r.

Depth first over the sets of one size: below a partial set, the largest gains still free bound what
each rival can be held by, and the next token comes from those that help against the worst held.
"""

from collections.abc import Callable

import numpy as np

from keytokens._checks import Booleans, Floats, Integers

_NODES = 2_000  # partial sets looked at, at most: some tens of milliseconds
_SLACK = 1e-9  # sums this near to 0, beside the largest gain, are left to `holds`


class Undecided(Exception):
    """The search stopped before all sets of the size were ruled out."""


def smallest_cover(
    gains: Floats, base: Floats, sizes: range, holds: Callable[[Integers], bool]
) -> tuple[Integers | None, bool]:
    """The first size of `sizes` with a set that `holds`, and is it proven smallest? (R, F), (R,)

    None, True: no set of these sizes holds.
    """
    search = _Search(gains, base, holds)
    try:
        for size in sizes:
            places = search.below(base.copy(), np.ones(gains.shape[1], bool), [], size)
            if places is not None:
                return places, True
    except Undecided:
        return None, False
    return None, True


class _Search:
    def __init__(self, gains: Floats, base: Floats, holds: Callable[[Integers], bool]) -> None:
        self.gains, self.holds, self.left = gains, holds, _NODES
        self.slack = _SLACK * np.maximum(np.abs(gains).max(axis=1, initial=0.0), np.abs(base))

    def below(
        self, reached: Floats, free: Booleans, chosen: list[int], more: int
    ) -> Integers | None:
        """A set that holds: `chosen` and `more` of the free tokens; None where there is none."""
        self.left -= 1
        if self.left < 0:
            raise Undecided
        if more == 0:
            places = np.array(chosen, np.int64)
            return places if self.holds(places) else None
        if (reached + _largest(self.gains[:, free], more) <= -self.slack).any():
            return None
        worst = int(np.argmin(reached / np.maximum(self.slack, 1e-300)))
        return self._one_more(reached, free.copy(), chosen, more, worst)

    def _one_more(
        self, reached: Floats, free: Booleans, chosen: list[int], more: int, worst: int
    ) -> Integers | None:
        """Each free token as the next, those that help most against the worst held first."""
        own = self.gains[worst]
        for s in np.flatnonzero(free)[np.argsort(-own[free], kind="stable")].tolist():
            if reached[worst] + more * own[s] <= -self.slack[worst]:
                return None  # `more` times the best of what is left is not enough
            free[s] = False
            found = self.below(reached + self.gains[:, s], free, [*chosen, s], more - 1)
            if found is not None:
                return found
        return None


def _largest(gains: Floats, size: int) -> Floats:
    """The sum of the `size` largest gains against each rival. (R, F) -> (R,)"""
    if gains.shape[1] <= size:
        return np.asarray(gains.sum(axis=1))
    return np.asarray(np.partition(gains, -size, axis=1)[:, -size:].sum(axis=1))
