"""Check that an operator computed by blocks equals its baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Absolute and relative: sums are taken in another order, and float16 rounds at 2**-11.
TOLERANCE = {"float32": 2e-5, "float16": 2e-3}
_CHUNK = 1 << 22


class MismatchError(AssertionError):
    """An operator computed something else than its baseline."""


def same_results(
    name: str, baseline: Callable[..., Any], candidate: Callable[..., Any], args: Any, kwargs: Any
) -> None:
    """Compare results and, of copied arguments, what became of them.

    Raises MismatchError with the largest error.
    """
    expected, found = (_effects(op, args, kwargs) for op in (baseline, candidate))
    if [array.shape for array in expected] != [array.shape for array in found]:
        shapes = [[array.shape for array in arrays] for arrays in (expected, found)]
        raise MismatchError(f"{name}: the baseline gives the shapes {shapes[0]}, not {shapes[1]}")
    for wanted, got in zip(expected, found):
        _same(name, wanted, got)


def _effects(op: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    copies = [np.copy(arg) if _writable(arg) else arg for arg in args]
    result = op(*copies, **kwargs)
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(array) for array in results if array is not None] + [
        copy for copy in copies if _writable(copy)
    ]


def _writable(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.flags.writeable


def _same(name: str, wanted: Any, got: Any) -> None:
    if wanted.dtype != got.dtype:
        raise MismatchError(f"{name}: the baseline gives {wanted.dtype}, the blocks {got.dtype}")
    allowed = TOLERANCE.get(wanted.dtype.name, 0.0)
    wanted, got = wanted.reshape(-1), got.reshape(-1)
    parts = [slice(start, start + _CHUNK) for start in range(0, wanted.size, _CHUNK)]
    errors = [_errors(wanted[part], got[part], allowed) for part in parts]
    if not all(within for _, within in errors):
        largest = max((error for error, _ in errors), key=lambda e: (np.isnan(e), e))
        raise MismatchError(
            f"{name}: the result computed by blocks differs from the baseline by up to "
            f"{largest:.3g}; allowed is {allowed:g} absolute plus relative"
        )


def _errors(wanted: Any, got: Any, allowed: float) -> tuple[float, bool]:
    wanted, got = wanted.astype(np.float32), got.astype(np.float32)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - wanted)
        error[wanted == got] = 0.0
        return float(error.max()), bool((error <= allowed * (1 + np.abs(wanted))).all())
