"""An Explanation as plain values: dict and JSON, ERASER's JSON lines, a DataFrame."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keytokens import _files
from keytokens.explain.explanation import Explanation
from keytokens.explain.sets import TokenSet

_LONE = re.compile("[\ud800-\udfff]")  # half characters, which no UTF-8 file can hold


def to_dict(why: Explanation) -> dict[str, Any]:
    """Everything the explanation says, in plain values."""
    return {
        "text": why.text,
        "label": why.label,
        "explained_class": why.explained_class,
        "logit": why.logit,
        "bias": why.bias,
        "probabilities": [
            {"label": label, "probability": p} for label, p in why.probabilities.items()
        ],
        "classes": [
            {
                "label": side.label,
                "logit": side.logit,
                "for": [{"token": name, "contribution": c} for name, c in side.for_it],
                "against": [{"token": name, "contribution": c} for name, c in side.against],
            }
            for side in why.sides()
        ],
        "effective_tokens": why.effective_tokens,
        "tokens_carrying_80_percent": why.tokens_carrying(0.8),
        "smallest_sufficient_set": _set(why, why.sufficient),
        "smallest_flipping_set": _set(why, why.flipping),
        "tokens": [vars(token).copy() for token in why.tokens],
        "words": [vars(word).copy() for word in why.words],
    }


def _set(why: Explanation, found: TokenSet | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "tokens": why.names(found),
        "proven_smallest": found.exact,
        "logits": found.logits.tolist(),
    }


def to_json(why: Explanation) -> str:
    """The same as one JSON document, one line."""
    return _line(to_dict(why))


def storable(text: str) -> str:
    """The text with U+FFFD for half characters: as long as before, and UTF-8 can hold it."""
    return _LONE.sub("\ufffd", text)


def _line(told: dict[str, Any]) -> str:
    """One line of JSON; half characters as escapes."""
    line = json.dumps(told, ensure_ascii=False, allow_nan=False)
    if _LONE.search(line):
        line = json.dumps(told, allow_nan=False)
    return line


def to_eraser(why: Explanation, name: str) -> dict[str, Any]:
    """One ERASER prediction: soft and hard token rationales over `text.split()`.

    Soft: how much each token, its phrase and its sentence speak for the decision. Hard: the tenth
    of the text that does so most.
    """
    from keytokens.explain.rationales import hard_spans, rationale_scores

    scores = rationale_scores(why)
    places = hard_spans(scores, -(-len(scores) // 10))
    classes = [str(label) for label in why.classes]
    return {
        "annotation_id": name,
        "classification": str(why.label),
        "classification_scores": dict(zip(classes, why.probabilities.values(), strict=True)),
        "rationales": [
            {
                "docid": name,
                "soft_rationale_predictions": scores.tolist(),
                "hard_rationale_predictions": [
                    {"start_token": start, "end_token": end} for start, end in places
                ],
            }
        ],
    }


def write_eraser(
    explanations: Iterable[Explanation], path: str | Path, names: Iterable[str] | None = None
) -> None:
    """One line of JSON a text, as ERASER's scorer reads it."""
    listed = list(explanations)
    labels = list(names) if names is not None else [str(k) for k in range(len(listed))]
    lines = (_line(to_eraser(why, name)) for why, name in zip(listed, labels, strict=True))
    _files.write_text(path, "".join(f"{line}\n" for line in lines))


def to_frame(explanations: Iterable[Explanation]) -> Any:
    """A polars DataFrame: one row a token, with the number of its text."""
    import polars as pl

    names = ["document", "token", "start", "end", "attention", "value", "contribution"]
    kinds = [pl.Int64, pl.String, pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.Float64]
    rows = [
        (k, *vars(token).values()) for k, why in enumerate(explanations) for token in why.tokens
    ]
    rows = [(k, storable(text), *numbers) for k, text, *numbers in rows]
    return pl.DataFrame(rows, schema=list(zip(names, kinds, strict=True)), orient="row")
