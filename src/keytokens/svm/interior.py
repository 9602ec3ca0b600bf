"""How Clarabel is asked: quietly, and on one thread, so that the bits never differ."""

from typing import Any

import clarabel


def settings(tolerance: float) -> Any:
    """Clarabel's settings with one tolerance for gap and feasibility."""
    chosen = clarabel.DefaultSettings()
    chosen.verbose = False
    chosen.max_threads = 1
    chosen.tol_gap_abs = chosen.tol_gap_rel = chosen.tol_feas = tolerance
    return chosen
