"""Problems: what is to be learnt, and nothing of how. Frozen, checked once at the door."""

from keytokens.problem.embedding import EmbeddingProblem as EmbeddingProblem
from keytokens.problem.next_token import NextTokenProblem as NextTokenProblem
from keytokens.problem.synthetic import contextual_problem as contextual_problem
from keytokens.problem.synthetic import embedding_problem as embedding_problem
from keytokens.problem.synthetic import orthonormal_problem as orthonormal_problem
from keytokens.problem.synthetic import random_problem as random_problem
from keytokens.problem.synthetic import unit as unit
from keytokens.problem.tokens import TokenProblem as TokenProblem
from keytokens.problem.tokens import optimal_tokens as optimal_tokens
from keytokens.problem.tokens import token_scores as token_scores
