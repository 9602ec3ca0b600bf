r"""The smallest set that alone keeps a decision, and the smallest whose removal flips it.

With one attention map, class c beats its rival k on the kept tokens exactly when

    sum_{s kept} g_s > 0,   g_s = e^{a_s} N(s) (b_cs - b_ks + bias_c - bias_k),

because the denominator of the softmax is positive: among sets of one size the best keeps (or
removes) the largest g. So the smallest set is a prefix of the order by g, found by bisection:
exact for a flip (the best rival's prefix), and for sufficiency with two classes. Several rivals
must be held off at once: a valid set is found first, then all smaller ones are searched, exactly
but for a bound on the work. With several maps there is no such sum: what is found is valid, and
proven smallest where every smaller set could be tried.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.explain.bag import Bag
from keytokens.explain.covers import smallest_cover

Places = Integers | None
_TRIES = 500  # smaller sets tried with several maps, at most
_PREFIXES = 100  # of these, the first prefixes of the order one by one


@dataclass(frozen=True, eq=False)
class TokenSet:
    """Places of the tokens among the text's distinct ones, most important first.

    exact: proven smallest. logits: what is left when the set alone stays, or when it is gone.
    """

    places: Integers
    exact: bool
    logits: Floats

    def __len__(self) -> int:
        return len(self.places)


Margin = Callable[[Booleans], float]


def flipping_set(bag: Bag) -> TokenSet | None:
    """The smallest set whose removal changes the decision; None where no removal does.

    With several maps None says that none was found.
    """
    found = [_flip(bag, rival) for rival in _rivals(bag)]
    places = min((one for one in found if one is not None), key=len, default=None)
    exact = len(bag.attention) == 1
    if not exact:
        decision = bag.decide(bag.logits)
        places, exact = _try_smaller(
            bag, places, lambda s: bag.decide(bag.kept_logits(_without(bag, s))) != decision
        )
    if places is None:
        return None
    return TokenSet(places, exact, bag.kept_logits(_without(bag, places)))


def sufficient_set(bag: Bag) -> TokenSet:
    """The smallest set that alone (with <cls>, which always stays) keeps the decision."""
    rivals = _rivals(bag)
    alone = [_keep(bag, rival) for rival in rivals]
    places = alone[0] if len(rivals) == 1 else _hold_all(bag, rivals)
    least = max(map(len, alone)) if len(bag.attention) == 1 else 0
    places, exact = _search_smaller(bag, rivals, places, least)
    return TokenSet(places, exact, bag.kept_logits(_only(bag, places)))


def _search_smaller(
    bag: Bag, rivals: list[Floats], places: Integers, least: int
) -> tuple[Integers, bool]:
    """The smallest sufficient set, no larger than the one at hand; is it proven smallest?"""

    def holds(s: Integers) -> bool:
        keep = _only(bag, s)
        return all(_beaten(bag, rival, keep) for rival in rivals)

    if len(places) <= least:
        return places, True
    if len(bag.attention) > 1:
        found, proven = _try_smaller(bag, places, holds)
    else:
        sizes = range(least, len(places))
        found, proven = smallest_cover(*_gains(bag, rivals), sizes, holds)
    return (places if found is None else found), proven


def _try_smaller(
    bag: Bag, places: Places, holds: Callable[[Integers], bool]
) -> tuple[Places, bool]:
    """Every set of every smaller size, of any size where none is at hand; while they are few."""
    tries = 0
    for size in range(bag.size + 1 if places is None else len(places)):
        tries += comb(bag.size, size)
        if tries > _TRIES:
            return places, False
        for chosen in combinations(range(bag.size), size):
            if holds(np.array(chosen, np.int64)):
                return np.array(chosen, np.int64), True
    return places, True


def _gains(bag: Bag, rivals: list[Floats]) -> tuple[Floats, Floats]:
    """g_s against each rival, in units of the heaviest token; what <cls> gives. (R, F), (R,)"""
    a = bag.attention[0]
    e = np.exp(a - a.max())
    g = np.array([rival @ (bag.value[0] + bag.bias[:, None]) for rival in rivals]) * e
    return g[:, :-1], g[:, -1]


def _rivals(bag: Bag) -> list[Floats]:
    """Each rival as the signs d (K,) such that <d, logits> > 0 means that it is beaten."""
    c, K = bag.decide(bag.logits), len(bag.bias)
    if K == 1:
        return [np.array([1.0 if c else -1.0])]
    return [np.eye(K)[c] - np.eye(K)[k] for k in range(K) if k != c]


def _beaten(bag: Bag, rival: Floats, keep: Booleans) -> bool:
    """Does the decision hold against this rival? Equal logits go to the first class."""
    margin = float(rival @ bag.kept_logits(keep))
    wins_ties = rival[0] < 0 if len(rival) == 1 else rival.argmax() < rival.argmin()
    return margin > 0 or (margin == 0 and bool(wins_ties))


def _order(bag: Bag, rival: Floats) -> Integers:
    """Tokens that speak against the rival, the largest g first; by log g, so none underflows."""
    d = np.einsum("k,mks->ms", rival, bag.value)[:, :-1] + rival @ bag.bias
    if len(d) > 1:
        return _first_order(bag, rival)
    with np.errstate(divide="ignore"):
        log_g = bag.attention[0, :-1] + np.log(np.maximum(d[0], 0.0))
    order = np.argsort(-log_g, kind="stable")
    return order[d[0, order] > 0]


def _first_order(bag: Bag, rival: Floats) -> Integers:
    """Several maps: by what removing one token alone would cost, sum_m w (d - f_m) / (1 - w)."""
    d = np.einsum("k,mks->ms", rival, bag.value)
    f = (bag.weights * d).sum(axis=1, keepdims=True)
    w = bag.weights[:, :-1]
    cost = (w * (d[:, :-1] - f) / np.maximum(1.0 - w, 1e-12)).sum(axis=0)
    return np.argsort(-cost, kind="stable")


def _flip(bag: Bag, rival: Floats) -> Integers | None:
    order = _order(bag, rival)

    def flips(k: int) -> bool:
        return not _beaten(bag, rival, _without(bag, order[:k]))

    size = _first(len(order), flips)
    if len(bag.attention) > 1:  # a longer prefix may undo what a shorter one did
        size = next(filter(flips, range(min(len(order) + 1, _PREFIXES))), size)
    return None if size is None else order[:size]


def _keep(bag: Bag, rival: Floats) -> Integers:
    order = _order(bag, rival)
    size = _first(len(order), lambda k: _beaten(bag, rival, _only(bag, order[:k])))
    return order[:size] if size is not None else np.arange(bag.size)


def _first(stop: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest k in 0..stop from which `holds` is true; None where it never is."""
    if not holds(stop):
        return None
    low, high = 0, stop
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _hold_all(bag: Bag, rivals: list[Floats]) -> Integers:
    """Add the best token against the rival that is worst held, until every rival is beaten."""
    orders = [list(_order(bag, rival)) for rival in rivals]
    places: list[int] = []
    while True:
        keep = _only(bag, np.array(places, int))
        open_ = [r for r, rival in enumerate(rivals) if not _beaten(bag, rival, keep)]
        if not open_:
            return np.array(places, int)
        logits = bag.kept_logits(keep)
        worst = min(open_, key=lambda r: float(rivals[r] @ logits))
        left = [s for s in orders[worst] if s not in places]
        if not left:
            return np.arange(bag.size)
        places.append(left[0])


def _without(bag: Bag, places: Integers) -> Booleans:
    keep = bag.everything.copy()
    keep[places] = False
    return keep


def _only(bag: Bag, places: Integers) -> Booleans:
    keep = np.zeros(bag.size, bool)
    keep[places] = True
    return keep
