"""Keep tensors that are too large for the machine as shapes: PyTorch's meta tensors, no values."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fusion.audit.child.hooks import tensors_of

# From this share of the limit on, an operator's results may pass it.
_WATCHED = 64
# Operators whose results may be many times larger than what they are given.
_GROWING = ("repeat", "repeat_interleave", "tile", "expand_copy", "kron", "cat", "stack")


class TooLargeError(RuntimeError):
    """Say that values are needed of a tensor that was too large to make."""


class Large(TorchDispatchMode):
    """Make every tensor of more than ``limit`` bytes, and what follows from it, without values.

    Raise TooLargeError where such a tensor would change one that has values.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run one operator, on shapes alone where that must be."""
        kwargs = kwargs or {}
        given = tensors_of((args, kwargs))
        if any(tensor.is_meta for tensor in given):
            _refuse_change(function, args, kwargs)
            return _on_shapes(function, args, kwargs)
        if self._may_be_large(function, given):
            result = _attempt(function, args, kwargs)
            if any(_nbytes(tensor) > self._limit for tensor in tensors_of(result)):
                return result
        return function(*args, **kwargs)

    def _may_be_large(self, function: Any, given: list[Any]) -> bool:
        if function._schema.is_mutable or function.is_view:
            return False
        name = function._schema.name.rpartition("::")[2]
        most = max(map(_nbytes, given), default=self._limit)
        return name in _GROWING or most * _WATCHED > self._limit


def _attempt(function: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator on shapes; return None where its result depends on values."""
    try:
        return _on_shapes(function, args, kwargs)
    except (RuntimeError, NotImplementedError):
        return None


def _on_shapes(function: Any, args: Any, kwargs: Any) -> Any:
    options = {key: _meta(value) for key, value in kwargs.items() if key != "generator"}
    takes_device = any(each.name == "device" for each in function._schema.arguments)
    if takes_device:
        options["device"] = torch.device("meta")
    return function(*_meta(args), **options)


def _refuse_change(function: Any, args: Any, kwargs: Any) -> None:
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        changed = kwargs.get(argument.name, args[place] if place < len(args) else None)
        for tensor in tensors_of(changed):
            if not tensor.is_meta:
                raise TooLargeError(
                    f"the values of a tensor of shape {list(tensor.shape)} need those of one that "
                    "is too large to make"
                )


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.is_meta else _like(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_meta(each) for each in value)
    return value


def _like(tensor: Any) -> Any:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _nbytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
