"""Gated activations: activation(x) * y, with x and y apart or as halves of one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import base, blocks, sizes

# erf to 1.5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
_ERF_SCALE = 0.3275911
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ROOT_HALF = 0.7071067811865476
# Of gelu's approximation by tanh: the root of 2 / pi, and the factor of the cube.
TANH_SCALE, TANH_CUBE = 0.7978845608028654, 0.044715
_WIDTH = 4096


class PairBenchmark(base.GenericBenchmark):
    """Measure an operator of two arrays (x, y) of one shape."""

    def core_shapes(self, itemsize: int) -> list[Any]:
        """Return two shapes inside the caches and one well beyond."""
        large = sizes.rows_beyond_cache(_WIDTH, _WIDTH, _WIDTH, itemsize=itemsize)
        return [(64, 64), (1024, 1024), (large, _WIDTH)]

    def more_shapes(self, itemsize: int) -> list[Any]:
        """Return a vector, an odd matrix and a stack of matrices."""
        return [(1 << 20,), (1000, 257), (16, 128, 512)]

    def input_fn(self, shape: Any, dtype: str) -> Iterator[tuple[Any, ...]]:
        """Make (x, y)."""
        yield base.normal(shape, dtype, seed=1), base.normal(shape, dtype, seed=2)


class TexGluBenchmark(base.GenericBenchmark):
    """Measure an operator of the halves of the last axis: [.., 2 H]."""

    # Halves of a row that are read or written.
    halves = 3

    def accepts(self, shape: Any) -> bool:
        """Leave out what has no halves."""
        return len(shape) > 0 and shape[-1] % 2 == 0

    def core_shapes(self, itemsize: int) -> list[Any]:
        """Return two shapes inside the caches and one well beyond."""
        large = sizes.rows_beyond_cache(self.halves * _WIDTH, itemsize=itemsize)
        return [(64, 64), (1024, 1024), (large, 2 * _WIDTH)]

    def more_shapes(self, itemsize: int) -> list[Any]:
        """Return an odd matrix and a stack of matrices."""
        return [(1000, 258), (16, 128, 512)]


class TexGluForwardBenchmark(TexGluBenchmark):
    """Measure an operator of one array [.., 2 H] and an absent quantizer; its result is [.., H]."""

    def input_fn(self, shape: Any, dtype: str) -> Iterator[tuple[Any, ...]]:
        """Make (x, None)."""
        yield base.normal(shape, dtype), None


class Gate:
    """Compute a gated activation, whole or by blocks, in float32 whatever the arrays hold.

    ``whole(x)`` returns the activation; ``block(x, out)`` leaves it in ``out``, which is no part
    of x, and may use the scratch slots from 2 on.
    """

    def __init__(self, whole: Callable[[Any], Any], block: Callable[[Any, Any], None]) -> None:
        self._whole = whole
        self._block = block

    def whole(self, x: Any, y: Any) -> Any:
        """Return activation(x) * y as one expression."""
        return (self._whole(single(x)) * y).astype(x.dtype, copy=False)

    def blocked(self, x: Any, y: Any) -> Any:
        """Return activation(x) * y."""
        return self.blocked_into(x, y, np.empty_like(x))

    def whole_into(self, x: Any, y: Any, out: Any) -> Any:
        """Write activation(x) * y to ``out``."""
        return np.multiply(self._whole(single(x)), y, out=out, casting="same_kind")

    def blocked_into(self, x: Any, y: Any, out: Any) -> Any:
        """Write activation(x) * y to ``out`` by blocks."""
        blocks.elements(self._multiply, x, y, out)
        return out

    def whole_halves(self, x: Any, quantizer: None = None) -> Any:
        """Return activation(first half of each row) * second half."""
        first, second = np.split(x, 2, axis=-1)
        return self.whole(first, second)

    def blocked_halves(self, x: Any, quantizer: None = None) -> Any:
        """Return activation(first half of each row) * second half, by blocks of rows."""
        half = x.shape[-1] // 2
        out = np.empty((*x.shape[:-1], half), x.dtype)
        flat = x.reshape(-1, 2 * half)
        blocks.rows(self._multiply, flat[:, :half], flat[:, half:], out.reshape(-1, half))
        return out

    def _multiply(self, x: Any, y: Any, out: Any) -> None:
        active = blocks.scratch(0, x.shape)
        self._block(blocks.loaded(x, 1), active)
        np.multiply(active, y, out=out, dtype=np.float32, casting="same_kind")


def single(x: Any) -> Any:
    """Return an array in float32."""
    return x.astype(np.float32, copy=False)


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _silu_block(x: Any, out: Any) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.divide(x, out, out=out)


def _erf(x: Any) -> Any:
    t = 1 / (1 + _ERF_SCALE * np.abs(x))
    a, b, c, d, e = _ERF
    return np.copysign(1 - ((((a * t + b) * t + c) * t + d) * t + e) * t * np.exp(-x * x), x)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + _erf(x * _ROOT_HALF))


def _gelu_block(x: Any, out: Any) -> None:
    z, t, tail = (blocks.scratch(slot, x.shape) for slot in (2, 3, 4))
    np.multiply(x, _ROOT_HALF, out=z)
    np.abs(z, out=t)
    np.multiply(t, _ERF_SCALE, out=t)
    np.add(t, 1, out=t)
    np.divide(1, t, out=t)
    np.multiply(t, _ERF[0], out=out)
    for factor in _ERF[1:]:
        np.add(out, factor, out=out)
        np.multiply(out, t, out=out)
    np.multiply(z, z, out=tail)
    np.negative(tail, out=tail)
    np.exp(tail, out=tail)
    np.multiply(out, tail, out=out)
    np.subtract(1, out, out=out)
    np.copysign(out, z, out=out)
    _half_gated(x, out)


def gelu_tanh(x: Any) -> Any:
    """Return the hyperbolic tangent inside gelu's approximation 0.5 x (1 + tanh(..))."""
    return np.tanh(TANH_SCALE * x * (1 + TANH_CUBE * x * x))


def gelu_tanh_block(x: Any, out: Any) -> None:
    """Leave in ``out`` what ``gelu_tanh`` returns."""
    np.multiply(x, x, out=out)
    np.multiply(out, TANH_CUBE, out=out)
    np.add(out, 1, out=out)
    np.multiply(out, x, out=out)
    np.multiply(out, TANH_SCALE, out=out)
    np.tanh(out, out=out)


def _gelu_by_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + gelu_tanh(x))


def _gelu_by_tanh_block(x: Any, out: Any) -> None:
    gelu_tanh_block(x, out)
    _half_gated(x, out)


def _half_gated(x: Any, out: Any) -> None:
    np.add(out, 1, out=out)
    np.multiply(out, x, out=out)
    np.multiply(out, 0.5, out=out)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _relu_block(x: Any, out: Any) -> None:
    np.maximum(x, 0, out=out)


SILU = Gate(_silu, _silu_block)
GELU = Gate(_gelu, _gelu_block)
GELU_TANH = Gate(_gelu_by_tanh, _gelu_by_tanh_block)
RELU = Gate(_relu, _relu_block)
