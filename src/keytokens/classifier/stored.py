"""Saving and loading a fitted KeyTokenClassifier."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keytokens import _checks as check
from keytokens import model_file
from keytokens.classifier.counts import SelectionClassifier
from keytokens.embedding.heldout import HeldOut
from keytokens.embedding.scores import AttentionScores
from keytokens.errors import KeytokensError, raise_input
from keytokens.text import Counter, Tokenizer

if TYPE_CHECKING:
    from keytokens.classifier.texts import KeyTokenClassifier

_SCORES = ("attention", "value", "bias")
_STATISTICS = ("signed_frequency", "posterior_difference", "importance")
_META: dict[str, type | tuple[type, ...]] = {
    "params": dict,
    "counter": dict,
    "classes": list,
    "class_kind": str,
    "iterations": int,
    "seen": float,
    "temperature": float,
    "held_out": (dict, type(None)),
    "reason": str,
}


def save(model: "KeyTokenClassifier", path: str | Path) -> None:
    """Write the fitted model; a tokeniser of your own is code, and stays out."""
    arrays, counter = model.counter_.state()
    core = model.core_
    arrays = {f"counter.{name}": array for name, array in arrays.items()}
    arrays |= {name: getattr(core.scores_, name) for name in _SCORES}
    arrays |= {name: getattr(core, f"{name}_") for name in _STATISTICS}
    meta = {
        "params": _plain(model.get_params()),
        "counter": counter,
        "classes": core.classes_.tolist(),
        "class_kind": core.classes_.dtype.str,
        "iterations": core.n_iter_,
        "seen": core.seen_,
        "temperature": core.temperature_,
        "held_out": None if core.held_out_ is None else asdict(core.held_out_),
        "reason": core.reason_,
    }
    model_file.write(path, {name: _shorter(array) for name, array in arrays.items()}, meta)


def _shorter(array: np.ndarray) -> np.ndarray:
    """float32 where that is the same numbers."""
    if array.dtype != np.float64:
        return array
    with np.errstate(over="ignore"):
        short = array.astype(np.float32)
    return short if np.array_equal(short, array) else array


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    weight, own = params["class_weight"], params["tokenizer"]
    pairs = [list(pair) for pair in weight.items()] if isinstance(weight, dict) else weight
    name = None if own is None else "standard" if isinstance(own, Tokenizer) else "custom"
    return params | {"tokenizer": name, "ngrams": list(params["ngrams"]), "class_weight": pairs}


def load(
    path: str | Path, tokenizer: Callable[[str], list[str]] | None = None
) -> "KeyTokenClassifier":
    """Read a saved model. One trained with a tokeniser of your own needs it again."""
    arrays, meta = model_file.read(path)
    with _understood(path):
        return _model(path, arrays, model_file.take(path, meta, _META), tokenizer)


@contextmanager
def _understood(path: str | Path) -> Iterator[None]:
    """A value that no model has is told as such, whatever it breaks on the way."""
    try:
        yield
    except KeytokensError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise_input(str(path), "hold the values of a model", f"one that breaks it ({error})")


def _model(
    path: str | Path,
    arrays: model_file.Arrays,
    meta: dict[str, Any],
    tokenizer: Callable[[str], list[str]] | None,
) -> "KeyTokenClassifier":
    from keytokens.classifier.texts import KeyTokenClassifier

    known = KeyTokenClassifier().get_params()
    model_file.keys_agree(path, "parameters", set(meta["params"]), set(known), partly=True)
    params = known | meta["params"]  # a parameter younger than the file is at its default
    tokenizer = _tokenizer(params["tokenizer"], meta["counter"]["punctuation"], tokenizer)
    weight = params["class_weight"]
    weight = dict(map(tuple, weight)) if isinstance(weight, list) else weight
    params |= {"tokenizer": tokenizer, "ngrams": tuple(params["ngrams"]), "class_weight": weight}
    model = KeyTokenClassifier(**params)
    parts = {k.removeprefix("counter."): v for k, v in arrays.items() if k.startswith("counter.")}
    model.counter_ = Counter.from_state(parts, meta["counter"], tokenizer)
    model.core_ = _core(path, model._core(), arrays, meta)
    return model


def _tokenizer(
    name: str | None, punctuation: bool | None, given: Callable[[str], list[str]] | None
) -> Callable[[str], list[str]] | None:
    """The model's tokeniser: only one of your own is asked for."""
    if punctuation is None:
        if given is None:
            raise_input("tokenizer", "be given again: the model was trained with your own", "none")
        return given
    check.one_of("punctuation", punctuation, (True, False))
    standard = Tokenizer(punctuation)
    if given is not None and given != standard:
        raise_input("tokenizer", f"be left out: the model has {standard}", f"{given!r:.60}")
    return None if name is None else standard


def _classes(path: str | Path, meta: dict[str, Any]) -> np.ndarray:
    classes = np.array(meta["classes"], dtype=meta["class_kind"])
    if classes.tolist() != meta["classes"]:
        raise_input(f"{path}: class_kind", "hold the classes", repr(meta["class_kind"]))
    if not np.array_equal(np.unique(classes), classes):
        raise_input(f"{path}: classes", "be distinct and sorted", f"{meta['classes']!r:.60}")
    return classes


def _core(
    path: str | Path, core: SelectionClassifier, arrays: model_file.Arrays, meta: dict[str, Any]
) -> SelectionClassifier:
    own = {name for name in arrays if not name.startswith("counter.")}
    model_file.keys_agree(path, "arrays", own, {*_SCORES, *_STATISTICS})
    core.scores_ = AttentionScores(*(arrays[name] for name in _SCORES))
    core.n_features_in_ = core.scores_.n_features
    for name in _STATISTICS:
        if arrays[name].shape[:1] != (core.n_features_in_,):
            raise_input(f"{path}: {name}", f"have {core.n_features_in_} rows", arrays[name].shape)
        setattr(core, f"{name}_", arrays[name].astype(np.float64))
    core.classes_ = _classes(path, meta)
    if core.scores_.n_outputs != {0: 0, 1: 0, 2: 1}.get(len(core.classes_), len(core.classes_)):
        raise_input(f"{path}: classes", "fit the model's outputs", len(core.classes_))
    core.seen_ = check.non_negative(f"{path}: seen", meta["seen"])
    core.temperature_ = check.positive(f"{path}: temperature", meta["temperature"])
    core.held_out_ = None if meta["held_out"] is None else HeldOut(**meta["held_out"])
    core.n_iter_, core.reason_ = meta["iterations"], meta["reason"]
    return core
