"""Compute cells here, in processes, or on a dask cluster: the rows are the same everywhere."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from keytokens import _extras
from keytokens.errors import raise_input
from keytokens.experiments.cells import Cell, Columns, compute


@dataclass(frozen=True, eq=False)
class Job:
    """A cell, the function that computes it, and what the function is given besides."""

    cell: Cell
    run: Callable[..., Any]
    extra: dict[str, Any]

    def __call__(self) -> Columns | Exception:
        """The rows; or what went wrong, so that one bad cell does not cost the others."""
        try:
            return compute(self.run, self.cell.params, self.cell.rng(), self.extra)
        except Exception as error:
            return error


Done = Iterator[tuple[Job, Columns | Exception]]


def spread(jobs: list[Job], workers: int = 1, scheduler: str | None = None) -> Done:
    """Yield each job with its outcome as it finishes."""
    if scheduler is not None:
        return _on_dask(jobs, scheduler)
    if workers > 1 and len(jobs) > 1:
        return _in_processes(jobs, workers)
    return ((job, job()) for job in jobs)


def _call(job: Job) -> Columns | Exception:
    return job()


def _outcome(future: Any) -> Columns | Exception:
    """What the job returned; or why it could not: its process died, or was out of reach."""
    try:
        found: Columns | Exception = future.result()
    except Exception as error:
        return error
    return found


def _in_processes(jobs: list[Job], workers: int) -> Done:
    """When a process dies (killed, out of memory), what is left goes one by one: then the cell
    that does it is known, and costs only itself.
    """
    lost = []
    for job, outcome in _pool(jobs, workers):
        if isinstance(outcome, BrokenProcessPool):
            lost.append(job)
        else:
            yield job, outcome
    for job in lost:
        yield from _pool([job], 1)


def _pool(jobs: list[Job], workers: int) -> Done:
    """New processes rather than forks: jax runs threads, which do not survive a fork."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_die_on_interrupt)
    try:
        futures = {pool.submit(_call, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], _outcome(future)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _die_on_interrupt() -> None:
    """Ctrl-C reaches every process of the terminal: workers leave without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _on_dask(jobs: list[Job], address: str) -> Done:
    """The cluster's workers need this package; functions travel by value."""
    distributed = _extras.require("distributed", "distributed")
    try:
        connected = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise_input("scheduler", "be the address of a dask scheduler", f"{address!r}: {error}")
    with connected as client:
        futures = [client.submit(_call, job, pure=False) for job in jobs]
        by_key = {future.key: job for future, job in zip(futures, jobs, strict=True)}
        for future in distributed.as_completed(futures):
            yield by_key[future.key], _outcome(future)
