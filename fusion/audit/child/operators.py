"""Observe the PyTorch operators that an implementation calls beside its kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fusion.audit.child.hooks import tensors_of
from fusion.audit.child.memory import Memory
from fusion.audit.child.products import Products

# Operators that allocate without writing.
_ALLOCATING = frozenset(("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided"))
# Operators that read only the named tensor's elements that their indices select.
_GATHERING = {"index": 0, "index_select": 0, "gather": 0, "take": 0, "embedding": 0}
# In-place operators that write only selected elements of their first argument.
_SCATTERING = frozenset(
    ("index_put_", "_index_put_impl_", "index_copy_", "index_fill_", "scatter_", "masked_fill_")
)
# In-place operators that overwrite without reading what was there.
_OVERWRITING = frozenset(
    (
        "copy_",
        "fill_",
        "zero_",
        "random_",
        "uniform_",
        "normal_",
        "exponential_",
        "resize_",
    )
)
# Operators of which the touched part depends on data in ways that are not followed.
_OPAQUE = frozenset(("scatter_add_", "scatter_reduce_", "index_add_", "masked_scatter_", "set_"))


class Operators(TorchDispatchMode):
    """Note what each operator reads and writes, and count the matrix products among them.

    ``replaced`` names the operators that FlagGems serves itself at the moment: their own inner work
    is observed in place of their meaning.
    """

    def __init__(self, memory: Memory, products: Products, replaced: Iterable[str]) -> None:
        super().__init__()
        self._memory = memory
        self._products = products
        self._replaced = frozenset(replaced)
        self.seen: dict[str, None] = {}
        self.unobserved: dict[str, None] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run one operator and note it."""
        kwargs = kwargs or {}
        if _key(function) in self._replaced:
            with self:
                return function._op_dk(torch._C.DispatchKey.CPU, *args, **kwargs)
        name = function._schema.name.rpartition("::")[2]
        before = tensors_of((args, kwargs))
        if not _is_view(function):
            self.seen[name] = None
            self._read(name, function, args, kwargs)
        result = function(*args, **kwargs)
        if not _is_view(function):
            self._write(name, function, args, kwargs, result, before)
        self._count(name, args)
        return result

    def _read(self, name: str, function: Any, args: Any, kwargs: Any) -> None:
        if name in _ALLOCATING or name.endswith("_like") or name.startswith("new_"):
            return
        if name in _OPAQUE:
            self.unobserved[name] = None
        for place, (argument, value) in enumerate(_bound(function, args, kwargs)):
            writes = argument.alias_info is not None and argument.alias_info.is_write
            skips = writes and (argument.kwarg_only or name in _OVERWRITING | _SCATTERING)
            if skips or not tensors_of(value):
                continue
            if _GATHERING.get(name) == place and isinstance(value, torch.Tensor):
                self._gather(function, args, kwargs)
            else:
                for tensor in tensors_of(value):
                    if tensor.dim() or self._memory.knows(tensor):  # else a wrapped Python number
                        self._memory.read(tensor)

    def _gather(self, function: Any, args: Any, kwargs: Any) -> None:
        chosen = function(_places(args[0]), *args[1:], **kwargs)
        self._memory.touch(args[0], np.unique(np.from_dlpack(chosen)), read=True, write=False)

    def _write(
        self, name: str, function: Any, args: Any, kwargs: Any, result: Any, before: Any
    ) -> None:
        if name in _SCATTERING:
            self._scatter(function, args, kwargs)
        else:
            for argument, value in _bound(function, args, kwargs):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    for tensor in tensors_of(value):
                        self._memory.write(tensor)
        given = {tensor.untyped_storage().data_ptr() for tensor in before}
        for tensor in tensors_of(result):
            if tensor.untyped_storage().data_ptr() not in given:
                self._memory.meet(tensor, made=True)
                if name not in _ALLOCATING:
                    self._memory.write(tensor, made=True)

    def _scatter(self, function: Any, args: Any, kwargs: Any) -> None:
        """Find the written elements: run the operator on zeros with ones as the values."""
        flags = torch.zeros(args[0].shape, dtype=torch.int32)
        values = [_ones(each) for each in args[1:]]
        options = {key: _ones(value) for key, value in kwargs.items()}
        function(flags, *values, **options)
        places = np.from_dlpack(_places(args[0]))[np.from_dlpack(flags) != 0]
        self._memory.touch(args[0], places, read=False, write=True)

    def _count(self, name: str, args: Any) -> None:
        if name in ("mm", "bmm"):
            self._products.add(args[0].numel() * args[1].shape[-1])
        elif name in ("addmm", "baddbmm"):
            self._products.add(args[1].numel() * args[2].shape[-1])
        elif name in ("mv", "dot", "addmv"):
            self._products.add(args[-2].numel())


def _ones(value: Any) -> Any:
    """Replace the values of a scatter, keeping its indices and masks."""
    if isinstance(value, torch.Tensor) and value.dtype not in (torch.int64, torch.bool):
        return torch.ones(value.shape, dtype=torch.int32)
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        return value if isinstance(value, int) and value < 8 else 1
    return value


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Return, in the tensor's shape, the offset of each element within its storage."""
    places = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
    return places.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _bound(function: Any, args: Any, kwargs: Any) -> list[tuple[Any, Any]]:
    """Pair each declared argument of an operator with its value, as far as given."""
    arguments = function._schema.arguments
    given = list(zip(arguments, args))
    return given + [(each, kwargs[each.name]) for each in arguments if each.name in kwargs]


def _is_view(function: Any) -> bool:
    returned = [each.alias_info for each in function._schema.returns]
    return any(info is not None and not info.is_write for info in returned)


def _key(function: Any) -> str:
    name = str(function._schema.name.rpartition("::")[2])
    overload = function._schema.overload_name
    return f"{name}.{overload}" if overload else name
