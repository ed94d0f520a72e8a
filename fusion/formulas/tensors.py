"""Read tensors, whoever made them: PyTorch, NumPy, or the recording of a call.

A tensor is anything with ``shape`` and ``dtype``. A recorded one offers what is known of its values
as a mapping ``facts`` (values, min, max, sum, nonneg, nnz). Counts are exact; sizes are in bytes.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from fusion.errors import Refusal


class EvaluationError(Refusal):
    """Say why an expression has no value for these arguments."""


def is_tensor(value: Any) -> bool:
    """Tell whether a value has a shape and a dtype."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def dtype_name(dtype: Any) -> str:
    """Return the plain name of a dtype: 'bfloat16' of torch.bfloat16 or of a NumPy dtype."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


def dtype_size(dtype: Any) -> int:
    """Return the bytes of one element; packed types count what one stored element takes."""
    name = dtype_name(dtype)
    if name in _SIZES:
        return _SIZES[name]
    if name.startswith("float8") or name.startswith("float4"):
        return 1
    if found := re.fullmatch(r"(?:u?int|b?float|complex)(8|16|32|64|128)", name):
        return int(found[1]) // 8
    raise EvaluationError(f"expected a dtype of known size, found {name!r}")


_SIZES = {"bool": 1, "bool_": 1, "half": 2, "float": 4, "double": 8, "long": 8, "int": 4}
_SIZES |= {"short": 2, "char": 1, "byte": 1, "cfloat": 8, "cdouble": 16, "qint8": 1, "quint8": 1}


def total_bytes(value: Any) -> int:
    """Return the bytes of all distinct tensors in nested lists, tuples and mappings."""
    found: dict[int, Any] = {}
    _collect(value, found)
    return sum(math.prod(shape_of(each)) * dtype_size(each.dtype) for each in found.values())


def _collect(value: Any, found: dict[int, Any]) -> None:
    if is_tensor(value):
        found[id(value)] = value
    elif isinstance(value, dict):
        _collect(list(value.values()), found)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _collect(each, found)


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, or the length of a list as a shape."""
    if is_tensor(value):
        return tuple(int(size) for size in value.shape)
    if isinstance(value, (list, tuple)):
        return (len(value),)
    raise EvaluationError(f"expected a tensor, found {short(value)}")


def elements(value: Any) -> list[Any]:
    """Return the elements of a tensor or a nested list, flat, as plain numbers."""
    if hasattr(value, "facts"):
        if "values" not in value.facts:
            raise EvaluationError(
                f"expected a tensor whose values were recorded, found {short(value)} without them"
            )
        value = value.facts["values"]
    elif is_tensor(value):
        return list(value.reshape(-1).tolist())
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in elements(part)]
    return [integer(value)]


def integer(value: Any) -> int:
    """Return an exact integer from a number or a tensor of one element."""
    if is_tensor(value):
        if math.prod(shape_of(value)) != 1:
            raise EvaluationError(f"expected one number, found {short(value)}")
        value = elements(value)[0] if hasattr(value, "facts") else value.item()
    if isinstance(value, (int, Fraction)) and value == int(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise EvaluationError(f"expected an integer, found {short(value)}")


def fact(value: Any, name: str) -> int | None:
    """Return an aggregate that was recorded in place of the values, None where there is none."""
    facts = getattr(value, "facts", {})
    return None if "values" in facts else facts.get(name)


def short(value: Any) -> str:
    """Describe a value in a few words, for a message."""
    if is_tensor(value):
        return f"a tensor of shape {list(value.shape)} and dtype {dtype_name(value.dtype)}"
    return repr(value)[:60]
