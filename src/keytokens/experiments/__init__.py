"""Experiments: parameters x seeds -> rows -> verdicts and figures. One file and one line each.

`EXPERIMENTS` is the only registry: a name, and the module of this folder and the object in it
that is the experiment of that name. The order is the page's.
"""

from importlib import import_module

from keytokens.errors import raise_input
from keytokens.experiments.experiment import Experiment as Experiment
from keytokens.experiments.finish import read_rows as read_rows
from keytokens.experiments.runner import run_experiment as run_experiment
from keytokens.experiments.runner import run_experiments as run_experiments
from keytokens.experiments.verdict import Verdict as Verdict
from keytokens.experiments.verdict import at_least as at_least
from keytokens.experiments.verdict import at_most as at_most

EXPERIMENTS = {
    "one-input": "one_input:EXPERIMENT",
    "several-inputs": "several_inputs:DIRECTIONS",
    "probability": "several_inputs:PROBABILITY",
    "losses": "losses:EXPERIMENT",
    "key-inequality": "key_inequality:EXPERIMENT",
    "counterexample": "counterexample:EXPERIMENT",
    "basins": "basins:EXPERIMENT",
    "percentages": "percentages:EXPERIMENT",
    "joint": "joint:EXPERIMENT",
    "contextual": "contextual:EXPERIMENT",
    "order-of-limits": "limits:ORDER",
    "regularisation-path": "limits:PATHS",
    "rates": "rates:EXPERIMENT",
    "random-w": "random_w:EXPERIMENT",
    "mirror": "mirror:EXPERIMENT",
    "kept-tokens": "kept_tokens:EXPERIMENT",
    "next-token": "next_token:EXPERIMENT",
    "svm-rank": "svm_rank:EXPERIMENT",
    "one-step": "one_step:EXPERIMENT",
    "early-p": "early_p:EXPERIMENT",
    "train-p": "train_p:EXPERIMENT",
    "corpus-margin": "corpus_margin:EXPERIMENT",
    "deeper": "deeper:EXPERIMENT",
    "assumptions": "assumptions:EXPERIMENT",
    "one-step-reviews": "one_step:REVIEWS",
    "early-p-reviews": "early_p:REVIEWS",
    "reviews": "reviews:EXPERIMENT",
    "reviews-band": "reviews_band:EXPERIMENT",
    "reviews-margin": "reviews_margin:EXPERIMENT",
    "deeper-reviews": "deeper:REVIEWS",
    "five-stars": "five_stars:EXPERIMENT",
    "assumptions-reviews": "assumptions:REVIEWS",
    "vit": "vit:EXPERIMENT",
}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise_input("NAME", f"be one of {', '.join(EXPERIMENTS)}", repr(name))
    module, _, attribute = EXPERIMENTS[name].partition(":")
    found: Experiment = getattr(import_module(f"keytokens.experiments.{module}"), attribute)
    return found
