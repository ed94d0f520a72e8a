"""Count the multiply-adds of matrix products, less those that the kernel's own masks exclude.

Where a call has no ``tl.dot``, its matrix products are sums over products of blocks that were
broadcast against each other; the two are counted apart.

Each block of values carries which of its lanes are *live*. A masked load gives dead lanes; lanes
stay dead through elementwise work and through changes of shape. A multiply-add of a product counts
when both of its factors are live. It is taken back when its lane of the result is excluded later:
when ``tl.where`` puts a large negative constant there (or zero, under a condition that does not
come from data), when a mask of such constants is added, or when no store writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

LIVE, ORIGINS, CONSTANT, MEASURED, SPREAD, PAIR = (
    "audit.live",
    "audit.origins",
    "audit.constant",
    "audit.measured",
    "audit.spread",
    "audit.pair",
)
EXCLUDING = -1e4


class Product:
    """The multiply-adds behind one block of results: of ``tl.dot``, or of a sum over products."""

    def __init__(self, shape: tuple[int, ...], by_dot: bool) -> None:
        self.shape = shape
        self.by_dot = by_dot
        self.counts = np.zeros(shape)
        self.dead = np.zeros(shape, bool)
        self.kept: Any = None

    @property
    def total(self) -> int:
        """The multiply-adds that nothing excluded."""
        used = ~self.dead if self.kept is None else ~self.dead & self.kept
        return round(float(self.counts[used].sum()))


class Products:
    """Collect the products of one call."""

    def __init__(self) -> None:
        self._open: list[Product] = []
        self._dots = 0
        self._sums = 0
        self.executed = 0

    @property
    def dots(self) -> int:
        """Multiply-adds of ``tl.dot`` and of PyTorch's products that no mask excludes."""
        return self._dots + sum(each.total for each in self._open if each.by_dot)

    @property
    def sums(self) -> int:
        """Multiply-adds of sums over products that no mask excludes."""
        return self._sums + sum(each.total for each in self._open if not each.by_dot)

    def settle(self) -> None:
        """Sum up the products of a finished program, whose blocks no longer exist."""
        self._dots, self._sums = self.dots, self.sums
        self._open = []

    def add(self, count: int) -> None:
        """Count a whole product at once, as PyTorch does it."""
        self.executed += count
        self._dots += count

    def dot(self, a: Any, b: Any, d: Any, result: Any) -> None:
        """Count a ``tl.dot`` of a [.., M, K] and b [.., K, N], accumulated on d."""
        depth = a.data.shape[-1]
        self.executed += result.data.size * depth
        counts = np.matmul(_weights(a), _weights(b))
        self._record(result, counts, d, by_dot=True)
        live = counts > 0
        if ORIGINS in d.attr:
            live |= d.attr.get(LIVE, True)
        _set_live(result, live)

    def contraction(self, operand: Any, axis: int | None, result: Any) -> None:
        """Count a sum over products of blocks that were spread against each other."""
        pair = operand.attr.get(PAIR)
        if pair is None or axis is None or not _contracts(pair, axis % operand.data.ndim):
            return
        live = np.broadcast_to(operand.attr.get(LIVE, True), operand.data.shape)
        counts = live.sum(axis=axis, keepdims=result.data.ndim == operand.data.ndim)
        self._record(result, counts.reshape(result.data.shape), None, by_dot=False)

    def _record(self, result: Any, counts: Any, accumulator: Any, by_dot: bool) -> None:
        shape = result.data.shape
        known = accumulator.attr.get(ORIGINS, ()) if accumulator is not None else ()
        alike = (each for each in known if each.shape == shape and each.by_dot == by_dot)
        product = next(alike, None)
        if product is None:
            product = Product(shape, by_dot)
            self._open.append(product)
        product.counts += counts
        result.attr[ORIGINS] = (product, *(each for each in known if each is not product))


def _weights(handle: Any) -> Any:
    live = handle.attr.get(LIVE)
    return np.broadcast_to(1.0 if live is None else live.astype(np.float64), handle.data.shape)


def _contracts(pair: tuple[frozenset[int], frozenset[int]], axis: int) -> bool:
    left, right = pair
    return axis not in left | right and bool(left | right)


def _set_live(handle: Any, live: Any) -> None:
    if live is not None and not np.all(live):
        handle.attr[LIVE] = np.broadcast_to(live, handle.data.shape)


def _kill(handle: Any, lanes: Any) -> None:
    """Take back the multiply-adds of these lanes."""
    for product in handle.attr.get(ORIGINS, ()):
        if product.shape == handle.data.shape:
            product.dead |= lanes


def elementwise(result: Any, *operands: Any) -> None:
    """Carry what is known of the operands of an elementwise operation to its result."""
    known = [each for each in operands if each.attr]
    if not known:
        return
    live = None
    for each in known:
        if LIVE in each.attr and (each.data.size > 1 or result.data.size == 1):
            live = each.attr[LIVE] if live is None else live & each.attr[LIVE]
    if live is not None:
        _set_live(result, live)
        for each in known:
            if ORIGINS in each.attr:
                _kill(each, ~np.broadcast_to(live, result.data.shape))
    _carry_kinds(result, operands)


def _carry_kinds(result: Any, operands: tuple[Any, ...]) -> None:
    origins = tuple(
        dict.fromkeys(
            product
            for each in operands
            for product in each.attr.get(ORIGINS, ())
            if product.shape == result.data.shape
        )
    )
    if origins:
        result.attr[ORIGINS] = origins
    if all(CONSTANT in each.attr for each in operands):
        result.attr[CONSTANT] = True
    if any(MEASURED in each.attr for each in operands):
        result.attr[MEASURED] = True
    spread = frozenset.intersection(*(_spread(each, result) for each in operands))
    if spread:
        result.attr[SPREAD] = spread
    for each in operands:
        if PAIR in each.attr and each.data.shape == result.data.shape:
            result.attr[PAIR] = each.attr[PAIR]


def _spread(handle: Any, result: Any) -> frozenset[int]:
    if CONSTANT in handle.attr or handle.data.size == 1:
        return frozenset(range(result.data.ndim))
    spread: frozenset[int] = handle.attr.get(SPREAD, frozenset())
    return spread


def multiplied(result: Any, left: Any, right: Any) -> None:
    """Remember along which axes each factor of an elementwise product merely repeats."""
    if left.data.size > 1 and right.data.size > 1 and CONSTANT not in left.attr | right.attr:
        result.attr[PAIR] = (_spread(left, result), _spread(right, result))


def selected(result: Any, condition: Any, chosen: Any, other: Any) -> None:
    """Follow ``tl.where``: lanes that get an excluding constant die."""
    _carry_kinds(result, (chosen, other))
    shape = result.data.shape
    where = np.broadcast_to(condition.data.astype(bool), shape)
    live = np.where(where, chosen.attr.get(LIVE, True), other.attr.get(LIVE, True))
    if MEASURED not in condition.attr:
        for side, lanes, rival in ((chosen, where, other), (other, ~where, chosen)):
            dead = lanes & _excluding(side, rival)
            if dead.any():
                live = live & ~dead
                _kill(rival, dead)
    result.attr.pop(LIVE, None)
    _set_live(result, live)


def _excluding(side: Any, rival: Any) -> Any:
    if CONSTANT not in side.attr or not side.dtype.scalar.is_floating():
        return np.False_
    values = as_float(side)
    if CONSTANT in rival.attr:
        return values <= EXCLUDING
    return (values <= EXCLUDING) | (values == 0)


def as_float(handle: Any) -> Any:
    """Return the values of a floating-point constant, bfloat16 included."""
    if handle.dtype.scalar == tl.bfloat16:
        return (handle.data.astype(np.uint32) << 16).view(np.float32)
    return handle.data


def reshaped(result: Any, operand: Any, change: Callable[[Any], Any]) -> None:
    """Carry liveness through a change of shape; ``change`` does to an array what was done."""
    if not operand.attr:
        return
    live = operand.attr.get(LIVE)
    if live is not None:
        _set_live(result, change(np.broadcast_to(live, operand.data.shape)))
    for key in (CONSTANT, MEASURED):
        if key in operand.attr:
            result.attr[key] = True
    if ORIGINS in operand.attr and operand.data.shape == result.data.shape:
        result.attr[ORIGINS] = operand.attr[ORIGINS]


def stored(value: Any, mask: Any) -> None:
    """Keep the lanes of a product that a store writes; those no store writes are excluded."""
    for product in value.attr.get(ORIGINS, ()):
        if product.shape == value.data.shape == mask.shape:
            product.kept = mask | (False if product.kept is None else product.kept)
