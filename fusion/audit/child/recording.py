"""Write one call of a benchmark as a JSON line, as fusion.formulas.recorded reads it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

_MOST_VALUES = 2048


def append(path: Path, benchmark: Any, file: str, args: Any, kwargs: Any) -> None:
    """Append a call: shapes, dtypes, strides, and what can be told of the values.

    Tensors that were too large to make are told by shape and dtype alone.
    """
    call = {
        "benchmark": Path(file).name,
        "op": benchmark.op_name,
        "class": type(benchmark).__name__,
        "args": [told(each) for each in args],
        "kwargs": {key: told(each) for key, each in kwargs.items()},
        "is_backward": bool(benchmark.is_backward),
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(call).encode() + b"\n")
    finally:
        os.close(descriptor)


def told(value: Any) -> Any:
    """Describe an argument in plain JSON values."""
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if isinstance(value, dict):
        return {str(key): told(each) for key, each in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else {"repr": repr(value)}
    return {"repr": repr(value)}


def _tensor(tensor: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "tensor": list(tensor.shape),
        "dtype": str(tensor.dtype).rpartition(".")[2],
    }
    if not tensor.is_contiguous():
        described["stride"] = list(tensor.stride())
    return {**described, **_values(tensor)}


def _values(tensor: Any) -> dict[str, Any]:
    if tensor.is_meta or tensor.is_complex() or tensor.numel() == 0:
        return {}
    if tensor.is_floating_point():
        wide = tensor.float() if tensor.element_size() == 1 else tensor
        return {"nnz": int(torch.count_nonzero(wide))}
    if tensor.numel() <= _MOST_VALUES:
        return {"values": tensor.tolist()}
    wide = tensor.long()
    return {
        "min": int(wide.min()),
        "max": int(wide.max()),
        "sum": int(wide.sum()),
        "nonneg": int((wide >= 0).sum()),
    }
