"""Rodas4: a linearly implicit, L-stable, stiffly accurate method of order 4 with error estimate.

Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.7. For y' = f(y):

  (I/(h gamma) - J) U_i = f(y + sum_j A[i, j] U_j) + sum_j (C[i, j]/h) U_j,   i = 0 .. 5

No Newton iteration to fail, one factorisation a step, and h may grow without bound near a
finite limit, where a step becomes a Newton step.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from keytokens._checks import Floats

GAMMA = 0.25
A = np.zeros((6, 5))
A[1, :1] = [1.544]
A[2, :2] = [0.9466785280815826, 0.2557011698983284]
A[3, :3] = [3.314825187068521, 2.896124015972201, 0.9986419139977817]
A[4, :4] = [1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950]
A[5] = [*A[4, :4], 1.0]
C = np.zeros((6, 5))
C[1, :1] = [-5.6688]
C[2, :2] = [-2.430093356833875, -0.2063599157091915]
C[3, :3] = [-0.1073529058151375, -9.594562251023355, -20.47028614809616]
C[4, :4] = [7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160]
C[5] = [8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136,
        -6.058818238834054]  # fmt: skip


def rodas_step(
    f: Callable[[Floats], Floats], J: Floats, y: Floats, f0: Floats, h: float
) -> tuple[Floats, Floats]:
    """One step of size h from y, where f(y) = f0 and df/dy = J: the new y, and its error. (D,)"""
    lu, pivots, _ = lapack.dgetrf(np.eye(len(y)) / (h * GAMMA) - J, overwrite_a=1)
    U = np.zeros((6, len(y)))
    for i in range(6):
        f_i = f0 if i == 0 else f(y + A[i, :i] @ U[:i])
        U[i] = lapack.dgetrs(lu, pivots, f_i + (C[i, :i] / h) @ U[:i])[0]
    return y + A[5] @ U[:5] + U[5], U[5]
