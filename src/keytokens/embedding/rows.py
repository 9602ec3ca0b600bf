"""Count matrices as the kernels read them, and work on their blocks of rows.

Blocks depend on the counts alone and sums run over a fixed tree: same bits whatever the threads.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from keytokens._checks import Floats
from keytokens.text._threads import available

_SMALL = 200_000  # non-zeros below which one block (and so one thread) is quickest
_BLOCKS = 4


@dataclass(frozen=True, eq=False)
class Rows:
    """A count matrix as the kernels read it: CSR arrays of fixed types, cut into blocks of rows.

    Unsigned indices spare compiled code the question whether one counts from the end.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: Floats
    n_features: int
    edges: tuple[int, ...]

    @classmethod
    def of(cls, counts: sparse.csr_array) -> "Rows":
        """Views where the types already fit, copies where they do not."""
        indptr = counts.indptr.astype(np.int64, copy=False)
        indices = counts.indices.astype(np.int32, copy=False).view(np.uint32)
        data = counts.data.astype(np.float64, copy=False)
        return cls(indptr, indices, data, counts.shape[1], _edges(indptr))

    @property
    def n(self) -> int:
        """Inputs."""
        return len(self.indptr) - 1

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Row ranges (first, last + 1) of about equally many non-zeros."""
        return list(zip(self.edges[:-1], self.edges[1:], strict=True))


def _edges(indptr: np.ndarray) -> tuple[int, ...]:
    n, total = len(indptr) - 1, int(indptr[-1])
    if total < _SMALL:
        return (0, n)
    inner = np.searchsorted(indptr, np.arange(1, _BLOCKS) * total // _BLOCKS)
    return (0, *map(int, inner), n)


def threads(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for: None or -1 is every core we may use."""
    return n_jobs if n_jobs is not None and n_jobs > 0 else available()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Products of matrices have other bits on other numbers of threads: allow them one."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def run_blocks(work: Callable[[int], Any], count: int, n_jobs: int | None) -> list[Any]:
    """[work(0), ..., work(count - 1)], on threads; the order of the answers is fixed."""
    workers = min(threads(n_jobs), count)
    if workers == 1:
        return [work(k) for k in range(count)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, range(count)))


def tree_sum(parts: Sequence[Any]) -> Any:
    """The sum over a fixed tree of halves."""
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    return tree_sum(parts[:half]) + tree_sum(parts[half:])


def add_blocks(grads: Floats) -> Floats:
    """Sum the blocks' buffers into the first, in the order of a fixed tree."""
    width = len(grads)
    while width > 1:
        half = (width + 1) // 2
        grads[: width - half] += grads[half:width]
        width = half
    return grads[0]
