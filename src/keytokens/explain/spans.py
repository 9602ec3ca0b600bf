"""From distinct tokens to places in the text: occurrences, and words that share n-grams."""

from dataclasses import dataclass

import numpy as np

from keytokens._checks import Floats, Integers


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Every place of every known token: feature (O,) its place among the distinct ones."""

    feature: Integers
    starts: Integers
    ends: Integers

    def split(self, credit: Floats) -> Floats:
        """A distinct token's credit, shared equally by its occurrences. (..., F) -> (..., O)"""
        times = np.bincount(self.feature, minlength=credit.shape[-1])
        return credit[..., self.feature] / times[self.feature]


def share_on_words(occurrences: Occurrences, credit: Floats, words: Integers) -> Floats:
    """An n-gram's credit, shared equally by its words, so that none is counted twice.

    credit (O,) of the occurrences, words (N, 2) the start and end of each word -> (N,)
    """
    first = np.searchsorted(words[:, 0], occurrences.starts)
    last = np.searchsorted(words[:, 1], occurrences.ends, side="right") - 1
    length = last - first + 1
    shared = np.zeros(len(words))
    for step in range(int(length.max(initial=0))):
        long = length > step
        np.add.at(shared, first[long] + step, credit[long] / length[long])
    return shared
