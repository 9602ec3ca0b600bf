"""JSON as every program reads it: null stands for what is not a number."""

import json
import math
from typing import Any


def dumps(told: Any, **how: Any) -> str:
    """As json.dumps, with null for NaN and the infinities, which JSON does not have."""
    return json.dumps(_finite(told), allow_nan=False, **how)


def _finite(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _finite(value) for name, value in told.items()}
    if isinstance(told, (list, tuple)):
        return [_finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told
