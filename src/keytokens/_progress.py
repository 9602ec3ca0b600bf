"""Progress for long work: a bar on a terminal, nothing in a pipe."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


@contextmanager
def progress(label: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """Yield `advance(amount, label=None)`; draws on stderr only when stderr is a terminal.

    Without a total the number done so far stands where the bar would be.
    """
    if not sys.stderr.isatty():
        yield lambda amount, label=None: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    counting = TextColumn("{task.description} {task.completed:,.0f}"), TimeElapsedColumn()
    columns = Progress.get_default_columns() if total is not None else counting
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount, label=None: bar.update(task, advance=amount, description=label)


def track(items: Iterable[Item], label: str, total: float | None = None) -> Iterator[Item]:
    """Iterate over `items`, showing how far we are."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(label, total) as advance:
        for item in items:
            yield item
            advance(1)
