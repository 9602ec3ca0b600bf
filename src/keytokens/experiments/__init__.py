"""Experiments: parameters x seeds -> rows -> verdicts and figures. One file and one line each.

`EXPERIMENTS` is the only registry: a name, and the module of this folder that holds the
`EXPERIMENT` of that name. The order is the page's.
"""

from importlib import import_module

from keytokens.errors import raise_input
from keytokens.experiments.experiment import Experiment as Experiment
from keytokens.experiments.runner import read_rows as read_rows
from keytokens.experiments.runner import run_experiment as run_experiment
from keytokens.experiments.runner import run_experiments as run_experiments
from keytokens.experiments.verdict import Verdict as Verdict
from keytokens.experiments.verdict import at_least as at_least
from keytokens.experiments.verdict import at_most as at_most

EXPERIMENTS = {
    "one-input": "one_input",
    "losses": "losses",
    "counterexample": "counterexample",
}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise_input("NAME", f"be one of {', '.join(EXPERIMENTS)}", repr(name))
    found: Experiment = import_module(f"keytokens.experiments.{EXPERIMENTS[name]}").EXPERIMENT
    return found
