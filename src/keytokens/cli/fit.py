"""keytokens fit: from a file of labelled texts to a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keytokens.cli._columns import Data

if TYPE_CHECKING:
    from keytokens.classifier import KeyTokenClassifier
    from keytokens.classifier.findings import Accuracy


@click.command()
@click.argument("data", type=Data())
@click.option("--text", "column", metavar="COLUMN", help="The column that holds the texts.")
@click.option("--label", metavar="COLUMN", help="The column that holds the labels.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The model to write.")
@click.option("--test", type=Data(), help="Measure accuracy on these labelled texts.")
@click.option("--ngrams", default=2, type=click.IntRange(1, 9), help="Longest n-gram  [2]")
@click.option("--min-count", type=click.IntRange(1), help="Texts an n-gram must occur in  [auto]")
@click.option("--max-features", type=click.IntRange(1), help="At most so many n-grams.")
@click.option("--training", default="joint", help="joint, one_step, two_stage or network  [joint]")
@click.option("--selectivity", default=0.0, help="0: even attention; 1: one token decides  [0]")
@click.option("--balanced", is_flag=True, help="Weigh every class the same.")
@click.option("--seed", default=0, help="Of the rows held out  [0]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    data: Path,
    column: str | None,
    label: str | None,
    out: Path,
    test: Path | None,
    as_json: bool,
    balanced: bool,
    ngrams: int,
    min_count: int | None,
    seed: int,
    **params: Any,
) -> None:
    """Train on DATA: csv, tsv, jsonl, parquet, fastText lines, or a folder a class."""
    from keytokens._progress import progress
    from keytokens.classifier import KeyTokenClassifier
    from keytokens.classifier.findings import summary
    from keytokens.cli._columns import kept, table
    from keytokens.cli._json import dumps
    from keytokens.model_file import check_target

    kept(out, data, test)
    check_target(out)
    with progress("fit", total=4) as advance:
        train = table(data, column, label)
        held = None if test is None else _test_table(test, column, label, train)
        advance(1)
        model = KeyTokenClassifier(
            ngrams=(1, ngrams),
            min_count=min_count or "auto",
            class_weight="balanced" if balanced else None,
            random_state=seed,
            **params,
        )
        accuracy, how = (None, "") if held else _held_out(model, train)
        advance(1)
        model.fit(train.texts, train.labels)
        advance(1)
        if held is not None:
            accuracy, how = _measured(model, held), f"on {test}"
        tested = None if held is None else held.texts
        told = summary(model, train.texts, train.labels, accuracy, how, tested)
        model.save(out)
        advance(1)
    told["model"] = str(out)
    click.echo(dumps(told, ensure_ascii=False) if as_json else readable(told))


def _test_table(test: Path, column: str | None, label: str | None, train: Any) -> Any:
    """The test texts; refused before any training where a label is none of the model's."""
    from types import SimpleNamespace

    import numpy as np

    from keytokens.cli._columns import table
    from keytokens.explain.evaluate import check_labels

    held = table(test, column, label)
    check_labels(SimpleNamespace(classes_=np.unique(train.labels)), held.labels)
    return held


def _measured(model: "KeyTokenClassifier", held: Any) -> "Accuracy":
    """Labels are the same where they read the same: "1" of one file is 1 of another."""
    from keytokens.classifier.findings import accuracy_of

    pairs = zip(model.predict(held.texts).tolist(), held.labels.tolist(), strict=True)
    return accuracy_of(sum(str(a) == str(b) for a, b in pairs) / len(held), len(held))


def _held_out(model: "KeyTokenClassifier", train: Any) -> "tuple[Accuracy | None, str]":
    """Accuracy on a tenth of the rows that a first model has not seen; none below 50 rows."""
    import numpy as np
    from sklearn.base import clone

    from keytokens.embedding.heldout import held_out_rows
    from keytokens.text import Table

    codes = np.unique(train.labels, return_inverse=True)[1]
    out = held_out_rows(codes, model.random_state + 1)
    if len(train) < 50 or len(np.unique(codes[~out])) < 2:
        return None, ""
    inside, held = (
        Table([t for t, k in zip(train.texts, keep, strict=True) if k], train.labels[keep])
        for keep in (~out, out)
    )
    first = clone(model).fit(inside.texts, inside.labels)
    return _measured(first, held), "by a first model on a tenth held out"


def readable(told: dict[str, Any]) -> str:
    """The summary as a few lines."""
    classes = ", ".join(f"{name} {size:,}" for name, size in list(told["classes"].items())[:8])
    lines = [
        f"data        {told['texts']:,} texts: {classes}",
        f"vocabulary  {told['vocabulary']:,} n-grams of up to {told['ngrams'][1]} tokens",
        f"training    {told['training']}: {told['reason']}",
    ]
    if told["accuracy"]:
        lines.append(f"accuracy    {_accuracy(told['accuracy'])}")
    lines.append(
        f"attention   {told['effective_tokens']:.1f} effective of {told['tokens_per_text']:.0f} "
        f"tokens a text; {told['tokens_carrying_80']:.0f} carry 80 % of the decision"
    )
    for name, grams in list(told["key_tokens"].items())[:8]:
        lines.append(f"for {name:<8}{' · '.join(grams)}")
    lines += [f"careful     {warning}" for warning in told["warnings"]]
    return "\n".join([*lines, f"model       {told['model']}"])


def _accuracy(found: dict[str, Any]) -> str:
    from keytokens.classifier.findings import Accuracy

    measured = found["measured"]
    return f"{Accuracy(**{k: v for k, v in found.items() if k != 'measured'})}, {measured}"
