"""The Att-SVM beside its peers, in one run: python benchmarks/svm.py [--fuzz 100000].

Times are processor time a problem, the best of several rounds; peers get rows that are already
built, keytokens gets the problem and gives certified solutions back.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import clarabel  # noqa: F401  (imported before anything is timed)
import cvxopt
import cvxpy
import daqp
import numpy as np
from scipy.optimize import linprog

import keytokens as kt
from keytokens.svm.rows import build_rows

TOLERANCES = dict(primal_tol=1e-12, dual_tol=1e-12)
NORMS = ("nuclear", 1.75, 3)


def seconds(call: Callable[[], Any], rounds: int) -> float:
    """The least processor time of one call."""
    best = np.inf
    for _ in range(rounds):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def rows_of(problem: kt.TokenProblem, selected: Any, over: str) -> Any:
    """G (B, m, k): the constraint vectors of every problem."""
    no = np.zeros((problem.batch, problem.n, problem.T), bool)
    return build_rows(problem, selected, over, no, no).matrix(slice(None))


def bare_daqp(G: Any) -> None:
    h, upper, sense = np.ones(len(G[0])), np.full(len(G[0]), 1e30), np.zeros(len(G[0]), np.intc)
    for one in G:
        daqp.solve(None, None, one, upper, h, sense, **TOLERANCES)


def cvxopt_qp(G: Any) -> list[Any]:
    """The papers' way; a selection without direction raises or runs into its limit."""
    cvxopt.solvers.options["show_progress"] = False
    m, k = G[0].shape
    P, q, h = (cvxopt.matrix(x) for x in (np.eye(k), np.zeros(k), -np.ones(m)))
    found = []
    for one in G:
        try:
            answer = cvxopt.solvers.qp(P, q, cvxopt.matrix(-one), h)
            found.append(np.array(answer["x"]).ravel() if answer["status"] == "optimal" else None)
        except (ValueError, ArithmeticError):
            found.append(None)
    return found


def cvxpy_loop(problem: kt.TokenProblem, selected: Any, over: str, norm: Any = "l2") -> list[float]:
    """The published way: one constraint for every pair of tokens. The norms of the answers."""
    sizes = []
    for k in range(len(problem)):
        one = problem[k]
        w = cvxpy.Variable((one.d, one.d) if over == "W" else one.d)
        rows = []
        for i, s in enumerate(selected[k]):
            along = w @ one.query[i] if over == "W" else w
            rows += [(one.X[i, s] - one.X[i, t]) @ along >= 1 for t in range(one.T) if t != s]
        order = {"nuclear": "nuc", "l2": 2}.get(norm, norm)
        flat = w if order == "nuc" or over == "p" else cvxpy.vec(w, order="C")
        sizes.append(cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(flat, order)), rows).solve("CLARABEL"))
    return sizes


def part(problem: kt.TokenProblem, count: int) -> kt.TokenProblem:
    fields = (problem.X, problem.y, problem.v, problem.query)
    return kt.TokenProblem(*(field[:count] for field in fields))


def least_squares(size: int, over: str) -> None:
    """2,000 problems: time, gap, violation, agreement."""
    problem = kt.random_problem(n=6, T=8, d=10, seed=0, batch=size)
    selected = kt.optimal_tokens(problem)
    G = rows_of(problem, selected, over)
    few, some = min(10, size), min(100, size)
    times = {
        "keytokens": seconds(lambda: kt.att_svm(problem, selected, over), 5) / size,
        "daqp": seconds(lambda: bare_daqp(G), 5) / size,
        "cvxopt": seconds(lambda: cvxopt_qp(G[:some]), 2) / some,
        "cvxpy": seconds(lambda: cvxpy_loop(part(problem, few), selected, over), 1) / few,
    }
    print(f"\nover {over}: n=6, T=8, d=10, {size} problems; microseconds a problem")
    for name, value in times.items():
        ratio = value / times["keytokens"]
        print(f"  {name:<10}{value * 1e6:>12.1f}{ratio:>10.2f} x keytokens")
    quality(problem, selected, over, G)


def quality(problem: kt.TokenProblem, selected: Any, over: str, G: Any) -> None:
    found = kt.att_svm(problem, selected, over)
    solved = found.is_feasible
    gap = np.abs(found.certificate.gap[solved]).max()
    print(f"  {solved.sum()} solved: gap <= {gap:.1e}, ", end="")
    print(f"violation <= {found.certificate.violation[solved].max():.1e}; ", end="")
    proofs = [found.conflict[k].is_proof for k in np.flatnonzero(~solved)]
    print(f"{len(proofs)} infeasible, {sum(proofs)} proved")
    errors = [
        np.linalg.norm(found.direction[k].ravel() - p) / np.linalg.norm(p)
        for k in np.flatnonzero(solved)
        if (p := least_distance(G[k])) is not None
    ]
    print(f"  {len(errors)} directions agree with least-distance NNLS to {max(errors):.1e}")


def least_distance(G: Any) -> Any:
    """Lawson and Hanson's way, polished on the rows it names."""
    from scipy.optimize import nnls

    target = np.append(np.zeros(G.shape[1]), 1.0)
    u, _ = nnls(np.concatenate([G, np.ones((len(G), 1))], axis=1).T, target)
    return np.linalg.lstsq(G[u > 0], np.ones((u > 0).sum()), rcond=None)[0]


def other_norm(size: int, norm: Any) -> None:
    """The nuclear norm or l_q: time and objective beside cvxpy with Clarabel."""
    problem = kt.random_problem(n=6, T=8, d=10, seed=0, batch=size)
    selected = kt.optimal_tokens(problem)
    found = kt.att_svm(problem, selected, "W", norm=norm)
    ours = seconds(lambda: kt.att_svm(problem, selected, "W", norm=norm), 1) / size
    theirs: list[float] = []
    loop = seconds(lambda: theirs.extend(cvxpy_loop(problem, selected, "W", norm)), 1) / size
    off = np.abs(1 / found.margin / theirs - 1).max()
    worst = np.abs(found.certificate.gap).max(), found.certificate.violation.max()
    print(f"  {norm!s:<8}{ours * 1e3:>8.1f}   cvxpy {loop * 1e3:>8.1f}   ", end="")
    print(f"objective differs {off:.0e}, gap {worst[0]:.0e}, violation {worst[1]:.0e}")


def fuzz(size: int) -> None:
    """Integer problems, half of them infeasible: statuses beside a linear program's."""
    rng = np.random.default_rng(0)
    counts: Counter[tuple[str, bool]] = Counter()
    worst = [0.0, 0.0]
    while counts.total() < size:
        problem, how = integer_batch(rng, 250)
        found = kt.att_svm(problem, **how)
        for k, feasible in enumerate(lp_statuses(problem, how)):
            counts[found.status[k].split(":")[0].split()[0], feasible] += 1
        certificate, solved = found.certificate, found.is_feasible
        worst[0] = max(worst[0], np.abs(certificate.gap[solved]).max(initial=0))
        worst[1] = max(worst[1], certificate.violation[solved].max(initial=0))
    right = {("Solved", True), ("No", True), ("Infeasible", False)}
    wrong = sum(n for key, n in counts.items() if key not in right)
    print(
        f"\n{counts.total()} integer problems (status, feasible by linear program): {dict(counts)}"
    )
    print(f"  {wrong} wrong; gap <= {worst[0]:.1e}, violation <= {worst[1]:.1e}")


def integer_batch(rng: np.random.Generator, size: int) -> tuple[kt.TokenProblem, dict[str, Any]]:
    n, T, d, top = (int(rng.integers(1, stop)) for stop in (5, 6, 5, 4))
    shape = (size, n, T)
    selected, mask = rng.integers(T, size=shape[:2]), rng.random(shape) < 0.85
    np.put_along_axis(mask, selected[..., None], True, axis=2)
    X, query = (rng.integers(-top, top + 1, (*s, d)) for s in (shape, shape[:2]))
    relax, equal = (rng.random(shape) < rng.choice(odds) for odds in ((0, 0.3), (0, 0.15, 0.5)))
    problem = kt.TokenProblem(X, np.ones(shape[:2]), np.ones((size, d)), query, mask)
    over = str(rng.choice(["p", "W"]))
    return problem, dict(selected=selected, relax=relax, equal=equal, over=over)


def lp_statuses(problem: kt.TokenProblem, how: dict[str, Any]) -> list[bool]:
    rows = build_rows(problem, *(how[name] for name in ("selected", "over", "relax", "equal")))
    G = rows.matrix(slice(None))
    return [
        lp_feasible(G[k][here], rows.h[k].ravel()[here], rows.equal[k].ravel()[here])
        for k, here in enumerate(rows.present.reshape(len(G), -1))
    ]


def lp_feasible(G: Any, h: Any, equal: Any) -> bool:
    if not h.any():
        return True
    limits = dict(A_ub=-G[~equal], b_ub=-h[~equal], A_eq=G[equal], b_eq=h[equal])
    found = linprog(np.zeros(G.shape[1]), **limits, bounds=(None, None))
    assert found.status in (0, 2), found.message
    return bool(found.status == 0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2000, help="problems solved in one call")
    parser.add_argument("--fuzz", type=int, default=0, help="integer problems checked by an LP")
    chosen = parser.parse_args(arguments)
    for over in ("p", "W"):
        least_squares(chosen.size, over)
    print("\nother norms over W, 20 problems; milliseconds a problem")
    for norm in NORMS:
        other_norm(20, norm)
    if chosen.fuzz:
        fuzz(chosen.fuzz)


if __name__ == "__main__":
    main()
