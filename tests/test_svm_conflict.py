"""att_svm where there is no direction: proofs, shortest cycles, what rounding decides."""

import numpy as np
import pytest
from arrays import problem_of

import keytokens as kt


def test_two_opposite_wishes_are_a_conflict() -> None:
    X = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]]
    found = kt.att_svm(problem_of(X), [0, 0])
    assert found.direction is None
    assert found.margin == 0
    assert not found.is_locally_optimal
    assert found.conflict.is_proof
    assert np.allclose(found.conflict.vector, [[0, 0.5], [0, 0.5]])
    assert found.conflict.pairs == [(0, 0, 1), (1, 0, 1)]
    assert "weighted sum of these differences is zero" in str(found.conflict)


def test_the_shortest_cycle_is_named() -> None:
    a, b, c, e = np.eye(4)
    X = [[a, b, e], [b, c, e], [c, a, e], [b, e, c]]
    found = kt.att_svm(problem_of(X), [0, 0, 0, 0])
    cycle = found.conflict.shortest_cycle
    assert sorted(edge.input for edge in cycle) == [0, 1, 2]
    assert "a token would stand above itself" in str(found.conflict)


def test_cycles_are_the_shortest_by_brute_force() -> None:
    """Small token graphs: a cycle through k tokens is a closed walk of k edges."""
    rng = np.random.default_rng(0)
    lengths = set()
    for _ in range(60):
        ids = np.array([rng.permutation(6)[:2] for _ in range(rng.integers(2, 9))])
        found = kt.att_svm(problem_of(np.eye(6)[ids]), np.zeros(len(ids), int))
        walks, step = np.zeros((6, 6)), np.eye(6)
        for a, b in ids:
            walks[a, b] = 1
        closed = [k for k in range(1, 7) if (step := step @ walks).trace()]
        assert (found.direction is None) == bool(closed)
        if closed:
            cycle = found.conflict.shortest_cycle
            assert len(cycle) == closed[0]
            ends = [(ids[e.input][e.selected], ids[e.input][e.other]) for e in cycle]
            assert [b for _, b in ends] == [a for a, _ in ends[1:] + ends[:1]]
            lengths.add(len(cycle))
    assert lengths >= {2, 3, 4}


def test_tokens_with_the_same_key_cannot_be_told_apart() -> None:
    W = np.array([[1.0], [0.0]])
    found = kt.att_svm(problem_of([[[1.0, 0.0], [1.0, 5.0]]], W=W), [0])
    assert found.direction is None
    assert str(found.conflict).endswith("but the two look the same.")


def test_nearly_infeasible_is_never_rounded() -> None:
    for slope in 10.0 ** -np.arange(2, 17):
        X = [[[1.0, slope], [0.0, 0.0]], [[-1.0, slope], [0.0, 0.0]]]
        found = kt.att_svm(problem_of(X), [0, 0])
        if found.direction is None:
            assert slope < 1e-13
            assert found.status.startswith("Nearly infeasible")
            assert np.isnan(found.margin)
            assert not found.conflict.is_proof
            assert found.conflict.least_norm > 1e12
            continue
        assert found.margin == pytest.approx(slope, rel=1e-9)
        assert ("nearly infeasible" in found.status) == (slope < 1.5e-6)
