"""The model in one page: type a text and see it tokenised, classified and marked, with no server.

The page holds the cut model itself: its numbers exactly (float32 where the model was rounded to
it, else float64), its vocabulary, and the tokeniser's JavaScript twin.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens import _files
from keytokens._checks import Floats
from keytokens.errors import raise_input
from keytokens.explain.formats import storable
from keytokens.pages import Markup, Section, facts, fragment, note, paragraphs, render, resource
from keytokens.text import Tokenizer
from keytokens.text.javascript import JAVASCRIPT

_PACKAGE = "keytokens.explain"
_SCRIPTS = ("model.js", "dom.js", "marks.js", "marked.js", "try.js", "vocabulary.js", "examples.js")
_STYLES = ("highlight.css", "model_page.css")
SIZE = 5_000_000
_EXAMPLES = 500  # at most this many examples, and at most a fifth of the page
_SHARE = 0.2
_COST = 1_000  # bytes kept for the figures on the cut's cost


@dataclass(frozen=True)
class Examples:
    """The examples a page shows, out of how many, and what the cut changed on all of them."""

    texts: list[str]
    labels: list[int | None]
    total: int
    cost: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Shown:
    """The page's heading, what it calls the classes, and the certificate's box."""

    title: str
    classes: list[str]
    certificate: Any = None


def write_page(
    model: Any,
    path: str | Path,
    texts: Sequence[str] | None = None,
    labels: Any = None,
    size: int = SIZE,
    certificate: Any = None,
    title: str = "",
    names: Mapping[str, str] | None = None,
) -> Path:
    """Write the model as one page of at most `size` bytes; see `build_page`."""
    _files.write_text(path, build_page(model, texts, labels, size, certificate, title, names))
    return Path(path)


def build_page(
    model: Any,
    texts: Sequence[str] | None = None,
    labels: Any = None,
    size: int = SIZE,
    certificate: Any = None,
    title: str = "",
    names: Mapping[str, str] | None = None,
) -> str:
    """The page as text: the model cut until all fits `size` bytes, and the cost of the cut said.

    names: what the page calls a class, by its label: {"0": "negative", "1": "positive"}.
    The first try gives the model the whole size; each further one takes off what was too much.
    """
    check.integer("size", size, least=100_000)
    _default_tokenizer(model)
    title = title or "Which tokens decide?"
    shown = Shown(title, _named(model, names or {}), certificate)
    examples = _examples(model, texts, labels, size)
    cut, budget = _fitting(model, examples, shown, size)
    if examples:
        examples = replace(examples, cost=_cost(model, cut, list(map(str, texts or ())), labels))
    return _page(model, cut, budget, examples, shown)


def _named(model: Any, names: Mapping[str, str]) -> list[str]:
    """The classes as the page calls them."""
    labels = [str(label) for label in model.classes_]
    for label in names:
        check.one_of("names", str(label), labels)
    by_label = {str(label): str(name) for label, name in names.items()}
    return [by_label.get(label, label) for label in labels]


def _fitting(model: Any, examples: Examples | None, shown: "Shown", size: int) -> tuple[Any, int]:
    """The largest cut whose page fits, and its budget."""
    budget = size
    for _ in range(6):
        cut = model.cut(budget)
        page = _page(model, cut, budget, examples, shown)
        taken = len(page.encode("utf-8")) + _COST
        if taken <= size:
            return cut, budget
        budget = int(budget * min(0.97, 0.98 * size / taken))
    return raise_input("size", "leave room for the page itself", size)


def _default_tokenizer(model: Any) -> None:
    if not isinstance(model.counter_.tokenizer, Tokenizer):
        raise_input(
            "model", "use the built-in tokeniser to run in a page", "a tokeniser of its own"
        )


def model_data(model: Any) -> dict[str, Any]:
    """Everything the page needs to decide as the model does."""
    scores, counter = model.scores_, model.counter_
    size = 4 if _fits_float32(scores.attention) and _fits_float32(scores.value) else 8
    return {
        "classes": [str(label) for label in model.classes_],
        "ngrams": [int(n) for n in counter.ngrams],
        "binary": bool(counter.binary),
        "punctuation": bool(counter.tokenizer.punctuation),
        "shape": [scores.n_maps, scores.n_outputs, scores.n_features],
        "float": size,
        "attention": _packed(scores.attention, size),
        "value": _packed(scores.value, size),
        "bias": scores.bias.tolist(),
        "vocabulary": [str(gram) for gram in counter.vocabulary_],
    }


def _fits_float32(array: Floats) -> bool:
    with np.errstate(over="ignore"):
        return bool((array.astype(np.float32).astype(np.float64) == array).all())


def _packed(array: Floats, size: int) -> str:
    return base64.b64encode(array.astype(f"<f{size}").tobytes()).decode("ascii")


def _examples(model: Any, texts: Any, labels: Any, size: int) -> Examples | None:
    """An even sample of the texts that fits."""
    if texts is None or not len(texts):
        return None
    listed, known = [str(text) for text in texts], _places(model, labels, len(texts))
    chosen = _even(listed, size)
    return Examples([listed[k] for k in chosen], [known[k] for k in chosen], len(listed))


def _places(model: Any, labels: Any, n: int) -> list[int | None]:
    """Each label's place among the classes; None without labels."""
    if labels is None:
        return [None] * n
    check.shape("labels", np.asarray(labels), (n,), "(n,)")
    classes = [str(label) for label in model.classes_]
    for label in set(np.asarray(labels).tolist()):
        check.one_of("labels", str(label), classes)
    return [classes.index(str(label)) for label in np.asarray(labels).tolist()]


def _even(texts: list[str], size: int) -> list[int]:
    """Places of an even sample: at most _EXAMPLES texts and _SHARE of the page's bytes."""
    mean = sum(len(text.encode("utf-8")) for text in texts) / len(texts) + 30
    count = max(1, min(len(texts), _EXAMPLES, int(_SHARE * size / mean)))
    return [k * len(texts) // count for k in range(count)]


def _cost(model: Any, cut: Any, texts: list[str], labels: Any) -> tuple[tuple[str, str], ...]:
    """What the cut changes on all the examples, in figures."""
    full, short = np.asarray(model.predict(texts)), np.asarray(cut.predict(texts))
    told = [("Decisions the cut left as they were", _percent(full == short))]
    if labels is not None:
        right = np.asarray(model.classes_)[np.array(_places(model, labels, len(texts)), int)]
        for name, decided in (("full", full), ("cut", short)):
            told.append((f"Accuracy, {name} model", _percent(decided == right)))
    return tuple(told)


def _percent(right: Any) -> str:
    return f"{100 * float(np.mean(right)):.2f} %"


def _page(model: Any, cut: Any, budget: int, examples: Examples | None, shown: Shown) -> str:
    data = model_data(cut) | {"classes": shown.classes}
    data["examples"] = (
        [{"text": t, "label": k} for t, k in zip(examples.texts, examples.labels, strict=True)]
        if examples
        else []
    )
    names = dict(classes=data["classes"], examples=examples)
    text = storable(examples.texts[0]) if examples else _opening(cut)
    sections = [Section("Try it", _part("try", **names, text=text), "try-it")]
    if examples:
        told = _told(examples)
        sections.append(Section("Examples", _part("examples", **names, told=told)))
    sections.append(Section("Tokens", _part("vocabulary", **names)))
    sections.append(Section("The model", _about(model, cut, budget, examples, shown), "model"))
    return render(
        shown.title,
        sections,
        lead="The whole model is inside this file: nothing you type leaves it.",
        data=data,
        script="\n".join([JAVASCRIPT, *(resource(_PACKAGE, name) for name in _SCRIPTS)]),
        style="\n".join(resource(_PACKAGE, name) for name in _STYLES),
    )


def _part(part: str, **names: object) -> Markup:
    return fragment(resource(_PACKAGE, "model_page.html.j2"), part=part, **names)


def _told(examples: Examples) -> str:
    if len(examples.texts) == examples.total:
        return f"All {examples.total} examples."
    return f"An even sample of {len(examples.texts)} of {examples.total} examples."


def _opening(cut: Any) -> str:
    """A text to begin with: the words that speak most for and against, by value."""
    words = [k for k, gram in enumerate(cut.counter_.vocabulary_) if gram.isalpha()]
    if not words:
        return ""
    scores = cut.scores_
    pull = scores.value[0, 0, words] * np.exp(
        scores.attention[0, words] - scores.attention[0].max()
    )
    order = np.argsort(-pull, kind="stable")
    chosen = [words[k] for k in dict.fromkeys([*order[:4], *order[-2:]])]
    return " ".join(str(cut.counter_.vocabulary_[k]) for k in chosen)


def _about(model: Any, cut: Any, budget: int, examples: Examples | None, shown: Shown) -> Markup:
    """What is in the page, what the cut cost, and the certificate."""
    scores, full = cut.scores_, model.scores_.n_features
    low, high = cut.counter_.ngrams
    body = facts(
        [
            ("Classes", ", ".join(shown.classes)),
            ("N-grams", f"{low} to {high}" if high > low else str(low)),
            ("Attention maps", scores.n_maps),
            ("Vocabulary in this page", f"{scores.n_features:,} of {full:,} n-grams"),
            ("The same model in Python", f"model.cut({budget})"),
            *(examples.cost if examples else ()),
        ]
    )
    if examples is None and scores.n_features < full:
        body += note("The cost of the cut is not known: no examples were given.")
    return body + _rules() + _certified(shown.certificate)


def _rules() -> Markup:
    return paragraphs(
        "Each token s has an attention logit a and a value b. Attention weights are "
        "w = N(s) e^a / Z over the text's tokens; the logit is the bias plus the sum of w b.",
    )


def _certified(certificate: Any) -> Markup:
    """The certificate box: what is proven about the selection, sentence by sentence."""
    if certificate is None:
        return Markup()
    optimality = str(getattr(certificate, "optimality", ""))
    kind = "good" if optimality in {"global", "local"} else "plain"
    return Markup("<h3>Certificate of the uncut model on the examples</h3>") + note(
        str(certificate), kind
    )
