"""Problems: what is to be learnt, and nothing of how. Frozen, checked once at the door."""

from keytokens.problem.tokens import (
    TokenProblem as TokenProblem,
)
from keytokens.problem.tokens import (
    optimal_tokens as optimal_tokens,
)
from keytokens.problem.tokens import (
    random_problem as random_problem,
)
from keytokens.problem.tokens import (
    token_scores as token_scores,
)
from keytokens.problem.tokens import (
    unit as unit,
)
