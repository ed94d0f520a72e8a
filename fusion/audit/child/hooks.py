"""Have Triton's interpreter report to the observation in progress.

Nothing is observed, and nothing but a look-up is paid, while no observation is active.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from fusion.audit.child import products
from fusion.audit.child.memory import Memory
from fusion.audit.child.products import Products


class Active:
    """The observation in progress, if any."""

    memory: Memory | None = None
    products: Products | None = None


active = Active()

_ELEMENTWISE = {
    "ternary_op": 3,
    "unary_op": 1,
    "cast_impl": 1,
    "create_fp_to_fp": 1,
    "create_bitcast": 1,
    "create_idiv": 2,
    "create_fma": 3,
    "create_erf": 1,
    "create_rsqrt": 1,
    "create_fabs": 1,
    "create_umulhi": 2,
}
_CONSTANTS = ("get_fp16", "get_fp32", "get_fp64", "get_null_value")


def install() -> None:
    """Wrap the interpreter's operations. Call once, after the interpreter was prepared."""
    _watch_memory()
    _watch_launches()
    _watch_values()
    _watch_products()


def _wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(owner, name, make(getattr(owner, name)))


def _mask(mask: Any) -> Any:
    return (mask.data if isinstance(mask, TensorHandle) else np.asarray(mask)).astype(bool)


def _width(pointers: Any) -> int:
    return max(1, int(pointers.get_element_ty().primitive_bitwidth) // 8)


def _watch_memory() -> None:
    _wrap(InterpreterBuilder, "create_masked_load", _loading)
    _wrap(InterpreterBuilder, "create_masked_store", _storing)
    _wrap(InterpreterBuilder, "create_atomic_rmw", _changing)
    _wrap(InterpreterBuilder, "create_atomic_cas", _swapping)


def _guarded(pointers: Any, mask: Any, read: bool, write: bool) -> Any:
    """Note an access; return the mask without what lies outside every tensor."""
    lanes = np.broadcast_to(_mask(mask), pointers.data.shape)
    if active.memory is None:
        return TensorHandle(lanes, interpreter.tl.int1)
    exists = active.memory.access(pointers.data, lanes, _width(pointers), read, write)
    return TensorHandle(np.ascontiguousarray(exists), interpreter.tl.int1)


def _loading(load: Any) -> Any:
    def create_masked_load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any) -> Any:
        exists = _guarded(pointers, mask, read=True, write=False)
        result = load(self, pointers, exists, other, *rest)
        if active.products is not None and not exists.data.all():
            result.attr[products.LIVE] = exists.data
        return result

    return create_masked_load


def _storing(store: Any) -> Any:
    def create_masked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        exists = _guarded(pointers, mask, read=False, write=True)
        if active.products is not None:
            products.stored(value, exists.data)
        return store(self, pointers, value, exists, *rest)

    return create_masked_store


def _changing(change: Any) -> Any:
    def create_atomic_rmw(
        self: Any, kind: Any, pointers: Any, value: Any, mask: Any, *r: Any
    ) -> Any:
        exists = _guarded(pointers, mask, read=True, write=True)
        if active.products is not None:
            products.stored(value, exists.data)
        return change(self, kind, pointers, value, exists, *r)

    return create_atomic_rmw


def _swapping(swap: Any) -> Any:
    def create_atomic_cas(self: Any, pointers: Any, *rest: Any) -> Any:
        _guarded(pointers, np.ones(pointers.data.shape, bool), read=True, write=True)
        return swap(self, pointers, *rest)

    return create_atomic_cas


def _watch_launches() -> None:
    def launching(launch: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if active.memory is not None:
                for tensor in tensors_of((args, kwargs)):
                    active.memory.meet(tensor)
            return launch(self, *args, **kwargs)

        return call

    def starting(start: Any) -> Any:
        def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
            if active.products is not None:
                active.products.settle()
            start(self, x, y, z)

        return set_grid_idx

    _wrap(interpreter.GridExecutor, "__call__", launching)
    _wrap(InterpreterBuilder, "set_grid_idx", starting)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value: in sequences, mappings, descriptors and plain objects."""
    found: list[torch.Tensor] = []
    _collect(value, found, depth=0)
    return found


def _collect(value: Any, found: list[torch.Tensor], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        _collect(list(value.values()), found, depth)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _collect(each, found, depth)
    elif depth < 2 and hasattr(value, "__dict__") and not isinstance(value, type):
        _collect(vars(value), found, depth + 1)


def _watch_values() -> None:
    for name, count in _ELEMENTWISE.items():
        _wrap(InterpreterBuilder, name, _following(count))
    _wrap(InterpreterBuilder, "binary_op", _combining)
    _wrap(InterpreterBuilder, "create_select", _selecting)
    for name in _CONSTANTS:
        _wrap(InterpreterBuilder, name, _naming_constant)
    for name in (
        "OLT",
        "OGT",
        "OLE",
        "OGE",
        "OEQ",
        "ONE",
        "ULT",
        "UGT",
        "ULE",
        "UGE",
        "UEQ",
        "UNE",
    ):
        _wrap(InterpreterBuilder, f"create_fcmp{name}", _measuring)
    _watch_shapes()


def _following(count: int) -> Callable[[Any], Any]:
    def wrap(operation: Any) -> Any:
        def followed(self: Any, *args: Any) -> Any:
            result = operation(self, *args)
            if active.products is not None:
                products.elementwise(result, *args[:count])
            return result

        return followed

    return wrap


def _combining(operation: Any) -> Any:
    def binary_op(self: Any, left: Any, right: Any, function: Any) -> Any:
        result = operation(self, left, right, function)
        if active.products is not None:
            products.elementwise(result, left, right)
            if function is np.multiply:
                products.multiplied(result, left, right)
        return result

    return binary_op


def _selecting(select: Any) -> Any:
    def create_select(self: Any, condition: Any, chosen: Any, other: Any) -> Any:
        result = select(self, condition, chosen, other)
        if active.products is not None:
            result.attr.clear()
            products.selected(result, condition, chosen, other)
        return result

    return create_select


def _naming_constant(make: Any) -> Any:
    def constant(self: Any, *args: Any) -> Any:
        result = make(self, *args)
        if active.products is not None:
            result.attr[products.CONSTANT] = True
        return result

    return constant


def _measuring(compare: Any) -> Any:
    def compared(self: Any, left: Any, right: Any) -> Any:
        result = compare(self, left, right)
        if active.products is not None:
            result.attr[products.MEASURED] = True
        return result

    return compared


def _watch_shapes() -> None:
    changes: dict[str, Callable[..., Any]] = {
        "create_reshape": lambda a, shape, *_: a.reshape(shape),
        "create_trans": np.transpose,
        "create_expand_dims": np.expand_dims,
        "create_broadcast": np.broadcast_to,
    }
    for name, change in changes.items():
        _wrap(InterpreterBuilder, name, _reshaping(change))
    _wrap(InterpreterBuilder, "create_broadcast", _spreading)
    _wrap(InterpreterBuilder, "create_splat", _splatting)
    _wrap(InterpreterBuilder, "create_join", _joining(lambda a, b: np.stack([a, b], axis=-1)))
    _wrap(InterpreterBuilder, "create_cat", _joining(lambda a, b: np.concatenate([a, b])))
    _wrap(InterpreterBuilder, "create_split", _splitting)


def _reshaping(change: Callable[..., Any]) -> Callable[[Any], Any]:
    def wrap(operation: Any) -> Any:
        def reshape(self: Any, operand: Any, *args: Any) -> Any:
            result = operation(self, operand, *args)
            if active.products is not None:
                products.reshaped(result, operand, lambda live: change(live, *args))
            return result

        return reshape

    return wrap


def _spreading(broadcast: Any) -> Any:
    def create_broadcast(self: Any, operand: Any, shape: Any) -> Any:
        result = broadcast(self, operand, shape)
        if active.products is not None and operand.data.ndim == result.data.ndim:
            pairs = enumerate(zip(operand.data.shape, result.data.shape))
            repeated = frozenset(axis for axis, (old, new) in pairs if old == 1 < new)
            result.attr[products.SPREAD] = operand.attr.get(products.SPREAD, frozenset()) | repeated
        return result

    return create_broadcast


def _splatting(splat: Any) -> Any:
    def create_splat(self: Any, kind: Any, operand: Any) -> Any:
        result = splat(self, kind, operand)
        if active.products is not None:
            for key in (products.CONSTANT, products.MEASURED):
                if key in operand.attr:
                    result.attr[key] = True
        return result

    return create_splat


def _joining(join: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def wrap(operation: Any) -> Any:
        def joined(self: Any, left: Any, right: Any) -> Any:
            result = operation(self, left, right)
            if active.products is not None and products.LIVE in left.attr | right.attr:
                lanes = [
                    np.broadcast_to(each.attr.get(products.LIVE, True), each.data.shape)
                    for each in (left, right)
                ]
                result.attr[products.LIVE] = join(*lanes)
            return result

        return joined

    return wrap


def _splitting(split: Any) -> Any:
    def create_split(self: Any, operand: Any) -> Any:
        halves = split(self, operand)
        live = operand.attr.get(products.LIVE)
        if active.products is not None and live is not None:
            for place, half in enumerate(halves):
                half.attr[products.LIVE] = live[..., place]
        return halves

    return create_split


def _watch_products() -> None:
    def dotting(dot: Any) -> Any:
        def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
            result = dot(self, a, b, d, *rest)
            if active.products is not None:
                active.products.dot(a, b, d, result)
            return result

        return create_dot

    def summing(total: Any) -> Any:
        def sum_of(self: Any, operand: Any) -> Any:
            result = total(self, operand)
            if active.products is not None:
                active.products.contraction(operand.handle, self.axis, result.handle)
            return result

        return sum_of

    _wrap(InterpreterBuilder, "create_dot", dotting)
    _wrap(interpreter.ReduceOps, "sum", summing)
