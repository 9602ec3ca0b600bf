"""The gradient flow against its bar, and beside other integrators: python benchmarks/flow.py.

200 problems over p (n=4, T=5, d=32) and 200 over W (n=6, T=8, d=10) to norm 1e5. Among those that
saturate on one token per input: 1 - correlation with the Att-SVM of an independent solver (cvxopt)
at the end, and the slope of its fall in log-norm.
"""

import argparse
import sys
import time
from collections import Counter
from typing import Any

import cvxopt
import cvxopt.solvers
import numpy as np

import keytokens as kt
from keytokens.certification import misalignment

cvxopt.solvers.options.update(show_progress=False, abstol=1e-13, reltol=1e-13, feastol=1e-13)
SHAPES = {"p": dict(n=4, T=5, d=32), "W": dict(n=6, T=8, d=10)}
MEDIAN, Q95, SLOPE = 1e-8, 1e-6, 0.1


def features(problem: Any, over: str) -> Any:
    """phi[i, t], with logits <phi, w>."""
    if over == "p":
        return problem.X
    pairs = problem.X[..., :, None] * problem.query[:, None, None, :]
    return pairs.reshape(problem.n, problem.T, -1)


def att_svm(problem: Any, over: str, selected: Any) -> Any:
    """argmin ||w|| s.t. rows >= 1, by cvxopt in the span of its rows."""
    phi = features(problem, over)
    chosen = np.arange(problem.T) == selected[:, None]
    rows = (phi[chosen][:, None] - phi)[~chosen]
    basis = np.linalg.svd(rows, full_matrices=False)[2]
    k = len(basis)
    program = (np.eye(k), np.zeros(k), -rows @ basis.T, -np.ones(len(rows)))
    found = cvxopt.solvers.qp(*(cvxopt.matrix(part) for part in program))
    x = np.array(found["x"]).ravel()
    return basis.T @ x if (rows @ basis.T @ x > 1 - 1e-9).all() else None


def flow(problem: Any, over: str, tolerance: float = 1e-6, save: int = 200) -> tuple[Any, float]:
    """The batch's runs and their seconds of processor time."""
    start = time.process_time()
    run = kt.train(problem, over, kt.GradientFlow(norm=1e5, tolerance=tolerance), save=save)
    return run, time.process_time() - start


def is_saturated(run: Any, k: int) -> bool:
    """One token per input holds all the weight."""
    return run.reason[k] is kt.Reason.NORM and bool(
        (run.attention[k].max(axis=-1) > 1 - 1e-6).all()
    )


def measure(problem: Any, over: str, run: Any) -> tuple[Any, Any]:
    """(1 - correlation at the end, slope over 1e2 .. 1e5) of every saturated run."""
    ends, slopes = [], []
    for k in filter(lambda k: is_saturated(run, k), range(len(problem))):
        goal = att_svm(problem[k], over, run.selected[k])
        if goal is None:
            continue
        far = run.norms[k] > 99
        errors = [misalignment(w, goal) for w in run.path[k][far]]
        slopes.append(np.polyfit(np.log(run.norms[k][far]), np.log(errors), 1)[0])
        ends.append(errors[-1])
    return np.array(ends), np.array(slopes)


def judge(over: str, count: int) -> bool:
    """Print one shape's figures; whether they meet the bar."""
    problem = kt.random_problem(**SHAPES[over], seed=0, batch=count)
    flow(kt.random_problem(**SHAPES[over], seed=1, batch=2), over)  # compile before timing
    run, seconds = flow(problem, over)
    ends, slopes = measure(problem, over, run)
    half, _ = flow(problem, over, tolerance=5e-7)
    moved = [
        np.linalg.norm(a / np.linalg.norm(a) - b / np.linalg.norm(b))
        for a, b, r in zip(run.params, half.params, run.reason, strict=True)
        if r is kt.Reason.NORM
    ]
    median, q95, slope = np.median(ends), np.quantile(ends, 0.95), np.median(slopes)
    ok = median <= MEDIAN and q95 <= Q95 and abs(slope + 2) <= SLOPE and max(moved) < 1e-8
    print(f"over {over}: {dict(Counter(r.name for r in run.reason))}, {len(ends)} saturated")
    print(f"  1 - correlation: median {median:.2e}, 95 % {q95:.2e}, largest {ends.max():.2e}")
    print(f"  slope: median {slope:.3f}, 5-95 % {np.quantile(slopes, [0.05, 0.95]).round(3)}")
    print(f"  halving the tolerance moves the direction by {max(moved):.1e} at most")
    print(
        f"  {1e3 * seconds / count:.1f} ms a problem; bar {'met' if ok else 'MISSED'}", flush=True
    )
    return bool(ok)


def beside_others(count: int) -> None:
    """The same flow without stops on the way, by SciPy's Radau and by diffrax's Kvaerno5."""
    from scipy.integrate import solve_ivp

    from keytokens.dynamics.flow_fields import linear_field
    from keytokens.dynamics.flow_span import span_of_differences
    from keytokens.losses import LOSSES

    problem = kt.random_problem(**SHAPES["p"], seed=2, batch=count)
    run, ours = flow(problem, "p", save=2)
    goals = [att_svm(problem[k], "p", run.selected[k]) for k in range(count)]
    start, ends = time.process_time(), []
    for k in range(count):
        one = problem[k]
        Q, K = span_of_differences(one.X, None)
        data = {"X": one.X, "y": one.y, "v": one.v}
        field, jacobian = linear_field(K, data, LOSSES["logistic"])

        def far(t: float, y: Any) -> float:
            return float(np.linalg.norm(y)) - 1e5

        far.terminal = True  # type: ignore[attr-defined]
        options = dict(method="Radau", rtol=1e-6, atol=1e-6, events=far)
        found = solve_ivp(lambda t, y, f=field: f(y)[0], (0, 40), np.zeros(K.shape[-1]),
                          jac=lambda t, y, J=jacobian: J(y), **options)  # fmt: skip
        ends.append(Q @ found.y[:, -1])
    radau = time.process_time() - start
    theirs, seconds = diffrax_run(problem)
    for name, spent, answers in (
        ("keytokens", ours, run.params),
        ("SciPy's Radau on the same compiled field", radau, ends),
        ("diffrax's Kvaerno5, one batch, warm", seconds, theirs),
    ):
        errors = [
            misalignment(w, goal)
            for w, goal in zip(answers, goals, strict=True)
            if goal is not None and np.isfinite(w).all()
        ]
        norms = np.median([np.linalg.norm(w) for w in answers])
        print(f"  {name:42s} {1e3 * spent / count:8.1f} ms a problem, norm {norms:.1e}, "
              f"1 - correlation {np.median(errors):.1e} ({len(errors)} of {count})")  # fmt: skip


def diffrax_run(problem: Any) -> tuple[Any, float]:
    """Ends and seconds of a second call (compiled) for the batch under vmap, to norm ~ 1e5."""
    import diffrax
    import jax

    from keytokens.dynamics.kinds import KINDS, with_batch
    from keytokens.dynamics.models import TokenModel
    from keytokens.dynamics.objective import Objective
    from keytokens.losses import LOSSES

    with jax.enable_x64(True):
        jnp = jax.numpy
        objective = Objective(TokenModel("p"), LOSSES["logistic"])
        arrays = with_batch(KINDS["tokens"].data(problem, "p"), problem.batch)
        data = {name: jnp.asarray(a) for name, a in arrays.items()}

        def field(t: Any, p: Any, data: Any) -> Any:
            g = objective.gradient({"p": p}, data)[0]["p"]
            return -g / jnp.sqrt(g @ g) * jnp.sqrt(1 + p @ p)

        def solve(p: Any, data: Any) -> Any:
            control = diffrax.PIDController(rtol=1e-6, atol=1e-6)
            event = diffrax.Event(lambda t, y, args, **rest: jnp.linalg.norm(y) > 1e5)
            term, solver = diffrax.ODETerm(field), diffrax.Kvaerno5()
            return diffrax.diffeqsolve(term, solver, 0.0, 40.0, 1e-3, p, args=data, event=event,
                                       stepsize_controller=control, throw=False).ys  # fmt: skip

        many = jax.jit(jax.vmap(solve))
        zeros = jnp.zeros((len(problem), problem.d))
        many(zeros, data).block_until_ready()
        start = time.process_time()
        ends = many(zeros, data).block_until_ready()
        return np.asarray(ends)[:, -1], time.process_time() - start


def main() -> None:
    """Exit with 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--peers", type=int, default=8)
    options = parser.parse_args()
    met = [judge(over, options.problems) for over in SHAPES]
    if options.peers:
        beside_others(options.peers)
    sys.exit(not all(met))


if __name__ == "__main__":
    main()
