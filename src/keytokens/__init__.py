"""Which tokens does attention select, and can you prove it?

Every public name is imported when it is first used, so that `import keytokens` is instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# The one list of public names, sorted, and the module each lives in.
_HOME = {
    "AttentionScores": "embedding.scores",
    "Certificate": "certification",
    "EmbeddingProblem": "problem",
    "Explanation": "explain",
    "Explanations": "explain",
    "FileError": "errors",
    "GradientDescent": "dynamics",
    "GradientFlow": "dynamics",
    "InputError": "errors",
    "KeyTokenClassifier": "classifier",
    "KeytokensError": "errors",
    "MLPHead": "heads",
    "MirrorDescent": "dynamics",
    "MissingExtra": "errors",
    "NextTokenProblem": "problem",
    "NormalizedDescent": "dynamics",
    "PolyakDescent": "dynamics",
    "RankOne": "svm.grams",
    "Reason": "dynamics",
    "RegularizationPath": "dynamics",
    "ReluHead": "heads",
    "SelectionClassifier": "classifier",
    "Solution": "svm.solution",
    "TokenProblem": "problem",
    "Trajectory": "dynamics",
    "att_svm": "svm.att",
    "certify": "certification",
    "contextual_problem": "problem",
    "corpus_att_svm": "svm.corpus",
    "early_law": "dynamics.laws",
    "embedding_problem": "problem",
    "equivalent_W": "dynamics.laws",
    "equivalent_method": "dynamics.laws",
    "growth_law": "dynamics.laws",
    "joint_svm": "svm.label",
    "key_inequality": "dynamics.laws",
    "label_svm": "svm.label",
    "load": "classifier",
    "local_selections": "svm.selections",
    "optimal_tokens": "problem",
    "orthonormal_problem": "problem",
    "random_problem": "problem",
    "saturation_law": "dynamics.laws",
    "svm_certificate": "svm.verify",
    "tied_tokens": "svm.att",
    "token_scores": "problem",
    "train": "dynamics",
}
__all__ = [*_HOME]

if TYPE_CHECKING:  # the same list for editors and type checkers
    from keytokens.certification import Certificate as Certificate
    from keytokens.certification import certify as certify
    from keytokens.classifier import KeyTokenClassifier as KeyTokenClassifier
    from keytokens.classifier import SelectionClassifier as SelectionClassifier
    from keytokens.classifier import load as load
    from keytokens.dynamics import GradientDescent as GradientDescent
    from keytokens.dynamics import GradientFlow as GradientFlow
    from keytokens.dynamics import MirrorDescent as MirrorDescent
    from keytokens.dynamics import NormalizedDescent as NormalizedDescent
    from keytokens.dynamics import PolyakDescent as PolyakDescent
    from keytokens.dynamics import Reason as Reason
    from keytokens.dynamics import RegularizationPath as RegularizationPath
    from keytokens.dynamics import Trajectory as Trajectory
    from keytokens.dynamics import train as train
    from keytokens.dynamics.laws import early_law as early_law
    from keytokens.dynamics.laws import equivalent_method as equivalent_method
    from keytokens.dynamics.laws import equivalent_W as equivalent_W
    from keytokens.dynamics.laws import growth_law as growth_law
    from keytokens.dynamics.laws import key_inequality as key_inequality
    from keytokens.dynamics.laws import saturation_law as saturation_law
    from keytokens.embedding.scores import AttentionScores as AttentionScores
    from keytokens.errors import FileError as FileError
    from keytokens.errors import InputError as InputError
    from keytokens.errors import KeytokensError as KeytokensError
    from keytokens.errors import MissingExtra as MissingExtra
    from keytokens.explain import Explanation as Explanation
    from keytokens.explain import Explanations as Explanations
    from keytokens.heads import MLPHead as MLPHead
    from keytokens.heads import ReluHead as ReluHead
    from keytokens.problem import EmbeddingProblem as EmbeddingProblem
    from keytokens.problem import NextTokenProblem as NextTokenProblem
    from keytokens.problem import TokenProblem as TokenProblem
    from keytokens.problem import contextual_problem as contextual_problem
    from keytokens.problem import embedding_problem as embedding_problem
    from keytokens.problem import optimal_tokens as optimal_tokens
    from keytokens.problem import orthonormal_problem as orthonormal_problem
    from keytokens.problem import random_problem as random_problem
    from keytokens.problem import token_scores as token_scores
    from keytokens.svm.att import att_svm as att_svm
    from keytokens.svm.att import tied_tokens as tied_tokens
    from keytokens.svm.corpus import corpus_att_svm as corpus_att_svm
    from keytokens.svm.grams import RankOne as RankOne
    from keytokens.svm.label import joint_svm as joint_svm
    from keytokens.svm.label import label_svm as label_svm
    from keytokens.svm.selections import local_selections as local_selections
    from keytokens.svm.solution import Solution as Solution
    from keytokens.svm.verify import svm_certificate as svm_certificate


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'keytokens' has no attribute {name!r}")
    value = getattr(import_module(f"keytokens.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
