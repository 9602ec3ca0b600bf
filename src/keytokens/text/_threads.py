"""Compiled code on several cores: blocks are independent, so results do not know the threads."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")


def available() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def mapped(function: Callable[..., Result], jobs: Iterable[Any], threads: int) -> list[Result]:
    """[function(*job) for job in jobs], on `threads` threads."""
    todo = list(jobs)
    if threads == 1 or len(todo) == 1:
        return [function(*job) for job in todo]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda job: function(*job), todo))


def row_blocks(starts: NDArray[np.int64], blocks: int) -> list[tuple[int, int]]:
    """First and last-plus-one row of blocks of about equal size; `starts` (n + 1,): the rows'."""
    aims = np.linspace(starts[0], starts[-1], blocks + 1)[1:-1]
    edges = [0, *np.searchsorted(starts, aims), len(starts) - 1]
    return [(int(a), int(b)) for a, b in pairwise(edges) if a < b] or [(0, 0)]
