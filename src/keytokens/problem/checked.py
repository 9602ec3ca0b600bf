"""What all problems share: fields set once, checked against one leading batch axis, and files."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from keytokens import _checks as check
from keytokens._arrays import load_arrays, save_arrays
from keytokens.errors import raise_input


class Checked:
    """Base of the frozen problems: arrays as fields, None where a field is left out."""

    kind: ClassVar[str]
    _lead: ClassVar[str]  # the field whose number of axes tells a batch
    _axes: ClassVar[int]  # its number of axes without one

    def _set(self, name: str, array: Any, shape: tuple[int, ...], letters: str) -> None:
        batch = "(B, " + letters[1:] if self.batch is not None else letters
        check.shape(name, array, shape, batch.replace(",)", ")"))
        object.__setattr__(self, name, array)

    @property
    def batch(self) -> int | None:
        """The number of problems, None when there is no batch axis."""
        lead = getattr(self, self._lead)
        return lead.shape[0] if lead.ndim > self._axes else None

    def __len__(self) -> int:
        return self.batch if self.batch is not None else 1

    def __getitem__(self, k: int) -> Self:
        """The k-th problem of a batch."""
        if self.batch is None:
            came = f"{self._lead} of shape {getattr(self, self._lead).shape}"
            raise_input("problem", "have a batch axis to be indexed", came)
        if not -self.batch <= check.integer("index", k, least=-self.batch) < self.batch:
            raise_input("index", f"lie in [0, {self.batch})", k)
        parts = self._arrays()
        return type(self)(**{name: a if a is None else a[k] for name, a in parts.items()})

    def __iter__(self) -> Iterator[Self]:
        """The problems of a batch, one after the other."""
        return (self[k] for k in range(len(self)))

    def _arrays(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def save(self, path: str | Path) -> None:
        """Write one safetensors file."""
        arrays = {name: a for name, a in self._arrays().items() if a is not None}
        save_arrays(path, self.kind + " problem", arrays, {})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        return cls(**load_arrays(path, cls.kind + " problem")[0])


def one_per_input(name: str, array: Any, rule: str) -> None:
    """Every row (last axis) of a boolean array has at least one True."""
    if not array.any(axis=-1).all():
        where = tuple(int(i) for i in np.argwhere(~array.any(axis=-1))[0])
        raise_input(name, rule, f"none at input {where}")
