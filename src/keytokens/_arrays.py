"""Named arrays and a few facts in one safetensors file: nothing that can run code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keytokens._files import write_bytes
from keytokens.errors import FileError


def save_arrays(
    path: str | Path, kind: str, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> None:
    """Write the arrays, whole or not at all; `kind` and `facts` go to the header as JSON."""
    from safetensors.numpy import save

    header = json.dumps({"kind": kind, **facts}, sort_keys=True)
    packed = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    write_bytes(path, save(packed, metadata={"keytokens": header}))


def load_arrays(path: str | Path, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and facts of a file that `save_arrays` wrote for this kind of thing."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {}).get("keytokens", "{}"))
            arrays = {name: file.get_tensor(name) for name in list(file.keys())}
    except (OSError, SafetensorError, ValueError) as error:
        raise FileError(f"{path} must be a readable keytokens {kind}; got: {error}.") from error
    if not isinstance(facts, dict) or facts.get("kind") != kind:
        came = facts.get("kind") if isinstance(facts, dict) else None
        raise FileError(f"{path} must hold a keytokens {kind}; got: {came or 'something else'}.")
    return arrays, facts
