"""From an estimator's parameters to a way of training and its options."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from keytokens import _checks as check
from keytokens.embedding.corpus import Corpus, Fitted
from keytokens.embedding.finite import FiniteOptions, train_finite
from keytokens.embedding.joint import JointOptions, train_joint
from keytokens.embedding.one_step import StageOptions, train_one_step
from keytokens.embedding.p_training import train_two_stage
from keytokens.errors import raise_input


class Training(NamedTuple):
    """A way of training: its options and its function. Adding one is one line below."""

    options: type
    run: Callable[[Corpus, Any], Fitted]


TRAININGS = {
    "joint": Training(JointOptions, train_joint),
    "network": Training(FiniteOptions, train_finite),
    "one_step": Training(StageOptions, train_one_step),
    "two_stage": Training(StageOptions, train_two_stage),
}
_WORDS = {"adam": ("adam", "descent")}  # what else an option may say, by its default
# estimator parameters that only some trainings know, their neutral values, and the option they set
_SHARED = {
    "selectivity": (0.0, "selectivity"),
    "heads": (1, "heads"),
    "attention_per_class": (False, "per_class"),
    "cls_token": (True, "cls_token"),
    "max_iter": (1000, "iterations"),
    "random_state": (0, "seed"),
}


def training_of(params: dict[str, Any]) -> tuple[Training, Any]:
    """The training named in the parameters, and its options; what it does not know is refused."""
    check.one_of("training", params["training"], sorted(TRAININGS))
    _check_values(params)
    training = TRAININGS[params["training"]]
    known = {field.name for field in fields(training.options)}
    free = known - {option for _, option in _SHARED.values()}
    chosen = {}
    for name, (neutral, option) in _SHARED.items():
        if option in known:
            chosen[option] = params[name]
        elif params[name] != neutral and name not in ("random_state", "max_iter", "cls_token"):
            rule = f"be {neutral!r} with training={params['training']!r}"
            raise_input(name, rule, repr(params[name]))
    extra = dict(params["options"] or {})
    if unknown := sorted(set(extra) - free):
        raise_input("options", f"hold only {', '.join(sorted(free))}", ", ".join(unknown))
    for field in fields(training.options):
        if field.name in extra:
            _check_option(field.name, field.default, extra[field.name])
    return training, training.options(**chosen | extra)


def _check_option(name: str, default: Any, value: Any) -> None:
    """A number like the default one; a default of None is a number that may be left open."""
    name = f"options[{name!r}]"
    if isinstance(default, bool):
        check.one_of(name, value, (True, False))
    elif isinstance(default, str):
        check.one_of(name, value, _WORDS[default])
    elif isinstance(default, int) or (value is not None and name == "options['width']"):
        check.integer(name, value, least=0 if default == 0 else 1)
    elif value is not None or default is not None:
        check.non_negative(name, value)


def _check_values(params: dict[str, Any]) -> None:
    if not isinstance(params["options"], dict | None):
        raise_input("options", "be a dictionary", repr(params["options"]))
    if params["n_jobs"] not in (None, -1):
        check.integer("n_jobs", params["n_jobs"], least=1)
    selectivity = check.non_negative("selectivity", params["selectivity"])
    if selectivity > 1:
        raise_input("selectivity", "be between 0 and 1", f"{selectivity:g}")
    check.integer("heads", params["heads"], least=1)
    check.integer("max_iter", params["max_iter"], least=1)
    check.integer("random_state", params["random_state"])
