"""Checks at the public door: one rule each, one form of message. Inside, code trusts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keytokens.errors import raise_input

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def float_array(name: str, value: object, ndim: int | tuple[int, ...] | None = None) -> Floats:
    """A read-only float64 copy of `value`, finite, with one of the given numbers of axes."""
    array = _as_floats(name, value)
    if ndim is not None:
        axes(name, array, (ndim,) if isinstance(ndim, int) else ndim)
    finite(name, array)
    array.setflags(write=False)
    return array


def _as_floats(name: str, value: object) -> Floats:
    try:
        raw = np.asarray(value)
    except ValueError:
        raise_input(name, "be a rectangular array of numbers", "rows of different lengths")
    if raw.dtype.kind not in "fiub":
        raise_input(name, "hold real numbers", f"dtype {raw.dtype}")
    return np.array(raw, dtype=np.float64, order="C")


def axes(name: str, array: NDArray[Any], allowed: tuple[int, ...]) -> None:
    """The array has one of the allowed numbers of axes."""
    if array.ndim not in allowed:
        rule = f"have {' or '.join(map(str, allowed))} axes"
        raise_input(name, rule, f"{array.ndim} (shape {array.shape})")


def shape(name: str, array: NDArray[Any], expected: tuple[int, ...], letters: str = "") -> None:
    """The array has exactly the expected shape; `letters` names it in the field's words."""
    if array.shape != expected:
        rule = f"have shape {letters + ' = ' if letters else ''}{expected}"
        raise_input(name, rule, array.shape)


def finite(name: str, array: Floats) -> None:
    """No NaN, no infinity; the message says where the first one is."""
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise_input(name, "be finite", f"{array[where]} at index {where}")


def signs(name: str, array: Floats) -> None:
    """Labels are +1 or -1."""
    bad = np.abs(array) != 1
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise_input(name, "hold labels +1 or -1", f"{array[where]} at index {where}")


def indices(
    name: str, value: object, stop: int, what: str = "token", where: str = "input"
) -> Integers:
    """Integers in [0, stop)."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise_input(name, f"be a rectangular array of {what} indices", "rows of different lengths")
    if array.dtype.kind not in "iu":
        raise_input(name, f"hold {what} indices (integers)", f"dtype {array.dtype}")
    bad = (array < 0) | (array >= stop)
    if bad.any():
        first = np.argwhere(bad)[0]
        place = ", ".join(str(int(i)) for i in first)
        raise_input(
            name, f"hold {what} indices in [0, {stop})", f"{array[tuple(first)]} at {where} {place}"
        )
    return array.astype(np.int64)


def boolean_array(name: str, value: object) -> Booleans:
    """A read-only copy of a boolean array (0 and 1 count as booleans)."""
    raw = np.asarray(value)
    if raw.dtype.kind != "b" and not np.isin(raw, (0, 1)).all():
        raise_input(name, "hold booleans", f"dtype {raw.dtype}")
    array = raw.astype(bool)
    array.setflags(write=False)
    return array


def number(name: str, value: object) -> float:
    """A finite real number."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise_input(name, "be a number", repr(value))
    if not math.isfinite(result):
        raise_input(name, "be finite", result)
    return result


def positive(name: str, value: object) -> float:
    """A finite number above zero."""
    result = number(name, value)
    if result <= 0:
        raise_input(name, "be positive", f"{result:g}")
    return result


def non_negative(name: str, value: object) -> float:
    """A finite number, zero or above."""
    result = number(name, value)
    if result < 0:
        raise_input(name, "be zero or positive", f"{result:g}")
    return result


def integer(name: str, value: object, least: int = 0) -> int:
    """A whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise_input(name, "be a whole number", repr(value))
    if value < least:
        raise_input(name, f"be at least {least}", value)
    return int(value)


def one_of(name: str, value: object, choices: Sequence[object]) -> None:
    """The value is one of the listed choices."""
    if value not in choices:
        raise_input(name, f"be one of {', '.join(map(repr, choices))}", repr(value))
