"""An Explanation as plain values: dict and JSON, ERASER's JSON lines, a DataFrame."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from keytokens import _files
from keytokens.explain.explanation import Explanation
from keytokens.explain.sets import TokenSet


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
        "effective_tokens": why.effective_tokens,
        "tokens_carrying_80_percent": why.tokens_carrying(0.8),
        "smallest_sufficient_set": _set(why, why.sufficient),
        "smallest_flipping_set": _set(why, why.flipping),
        "tokens": [asdict(token) for token in why.tokens],
        "words": [asdict(word) for word in why.words],
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
    """The same as one JSON document."""
    return json.dumps(to_dict(why), ensure_ascii=False, allow_nan=False)


def to_eraser(why: Explanation, name: str) -> dict[str, Any]:
    """One ERASER prediction: soft and hard token rationales over `text.split()`.

    Soft: how much each token and its neighbours speak for the decision. Hard: the tenth of the
    text that does so most.
    """
    from keytokens.explain.rationales import hard_spans, phrase_scores, split_scores

    scores = phrase_scores(split_scores(why))
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
    lines = (
        json.dumps(to_eraser(why, name), ensure_ascii=False)
        for why, name in zip(listed, labels, strict=True)
    )
    _files.write_text(path, "".join(f"{line}\n" for line in lines))


def to_frame(explanations: Iterable[Explanation]) -> Any:
    """A polars DataFrame: one row a token, with the number of its text."""
    import polars as pl

    names = ["document", "token", "start", "end", "attention", "value", "contribution"]
    kinds = [pl.Int64, pl.String, pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.Float64]
    rows = [
        (k, *asdict(token).values()) for k, why in enumerate(explanations) for token in why.tokens
    ]
    return pl.DataFrame(rows, schema=list(zip(names, kinds, strict=True)), orient="row")
