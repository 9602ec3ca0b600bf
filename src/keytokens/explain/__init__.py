"""Why a model decided as it did: exact explanations, their formats, and how faithful they are.

Works from the fitted scores and a text's spans alone; the model is asked for nothing else.
"""

from keytokens.explain.batch import Explanations, explain
from keytokens.explain.explanation import Explanation, Token
from keytokens.explain.sets import TokenSet

__all__ = ["Explanation", "Explanations", "Token", "TokenSet", "explain"]
