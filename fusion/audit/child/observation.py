"""Run one call of an operator and tell what it touched."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from fusion.audit.bitmap import strided
from fusion.audit.child.hooks import active, tensors_of
from fusion.audit.child.memory import Memory, Storage, layout
from fusion.audit.child.operators import Operators
from fusion.audit.child.products import Products

Named = list[tuple[str, torch.Tensor]]


class OutOfTime(BaseException):
    """The call took longer than it was given. Not an Exception: no one on the way may catch it."""


def observe(
    call: Callable[[], Any], arguments: Named, replaced: set[str], seconds: float
) -> dict[str, Any]:
    """Run a call and return what it read, wrote and multiplied, as plain values."""
    memory, products = Memory(), Products()
    for _, tensor in arguments:
        memory.meet(tensor)
    operators = Operators(memory, products, replaced)
    started = time.perf_counter()
    with _observing(memory, products), _limited(seconds), operators:
        result = call()
    elapsed = time.perf_counter() - started
    return {
        **_touched(memory, arguments, _results(result, arguments)),
        "multiply_adds": products.dots,
        "multiply_adds_of_sums": products.sums,
        "multiply_adds_executed": products.executed,
        "stray": memory.stray,
        "operators": list(operators.seen),
        "unobserved": list(operators.unobserved),
        "seconds": round(elapsed, 3),
    }


@contextmanager
def _observing(memory: Memory, products: Products) -> Iterator[None]:
    active.memory, active.products = memory, products
    conversions = {name: getattr(torch.Tensor, name) for name in ("tolist", "numpy", "__array__")}
    for name, convert in conversions.items():
        setattr(torch.Tensor, name, _read_whole(convert, memory))
    try:
        yield
    finally:
        active.memory = active.products = None
        for name, convert in conversions.items():
            setattr(torch.Tensor, name, convert)


def _read_whole(convert: Callable[..., Any], memory: Memory) -> Callable[..., Any]:
    """Note the conversions to Python and NumPy, which pass by PyTorch's dispatcher."""

    def converted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        memory.read(tensor)
        return convert(tensor, *args, **kwargs)

    return converted


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def expire(*_: Any) -> None:
        raise OutOfTime(f"more than {seconds:g} s in the interpreter")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _results(result: Any, arguments: Named) -> Named:
    given = {tensor.untyped_storage().data_ptr() for _, tensor in arguments}
    returned = tensors_of(result)
    return [
        ("result" if len(returned) == 1 else f"result[{place}]", tensor)
        for place, tensor in enumerate(returned)
        if tensor.untyped_storage().data_ptr() not in given
    ]


def _touched(memory: Memory, arguments: Named, results: Named) -> dict[str, Any]:
    extents: dict[int, tuple[Storage, Any]] = {}
    rows = []
    for role, named in (("argument", arguments), ("result", results)):
        for name, tensor in named:
            storage = memory.meet(tensor)
            if storage is not None and tensor.numel():
                extent = _extent(storage, tensor)
                rows.append({"name": name, "role": role, **_row(storage, tensor, extent)})
                _, union = extents.setdefault(storage.address, (storage, np.zeros_like(extent)))
                union |= extent
    return {
        "read": sum(_flagged(storage.bitmap.read, union) for storage, union in extents.values()),
        "written": sum(_flagged(s.bitmap.written, union) for s, union in extents.values()),
        "beyond": _beyond(extents),
        "tensors": rows,
        "captured": _captured(memory, extents),
    }


def _extent(storage: Storage, tensor: torch.Tensor) -> Any:
    """Flag the bytes of a storage that a tensor covers."""
    extent = np.zeros(storage.size, np.uint8)
    strided(extent, *layout(tensor))[...] = 1
    return extent


def _flagged(flags: Any, extent: Any) -> int:
    return int(np.count_nonzero(flags & extent))


def _row(storage: Storage, tensor: torch.Tensor, extent: Any) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).rpartition(".")[2],
        "bytes": int(np.count_nonzero(extent)),
        "read": _flagged(storage.bitmap.read, extent),
        "written": _flagged(storage.bitmap.written, extent),
    }


def _beyond(extents: dict[int, tuple[Storage, Any]]) -> int:
    """Count bytes touched in the storages of arguments, yet outside every view that was given."""
    return sum(
        _flagged(storage.bitmap.read | storage.bitmap.written, 1 - union)
        for storage, union in extents.values()
        if not storage.made
    )


def _captured(memory: Memory, extents: dict[int, tuple[Storage, Any]]) -> list[dict[str, int]]:
    """Tell of tensors that are neither arguments nor results and existed before the call."""
    return [
        {"bytes": storage.size, "read": read, "written": written}
        for storage in memory.outside()
        if storage.address not in extents
        for read in [int(storage.bitmap.read.sum())]
        for written in [int(storage.bitmap.written.sum())]
        if read or written
    ]
