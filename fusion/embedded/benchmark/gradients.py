"""Gradients of gated activations activation(a) * b, with respect to both halves of [a, b]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import base, blocks, gated


class TexGluBackwardBenchmark(gated.TexGluBenchmark):
    """Measure an operator of the result's gradient [.., H] and the input [.., 2 H]."""

    halves = 5

    def input_fn(self, shape: Any, dtype: str) -> Iterator[tuple[Any, ...]]:
        """Make (gradient, x, None): the quantizer is absent."""
        half = (*shape[:-1], shape[-1] // 2)
        yield base.normal(half, dtype, seed=1), base.normal(shape, dtype, seed=2), None


class Gradient:
    """Compute the gradient of a gated activation, whole or by blocks, in float32.

    ``whole(a)`` returns the activation and its slope; ``block(a, active, slope)`` leaves them in
    the two arrays, which are no parts of a, and may use the scratch slots from 5 on.
    """

    def __init__(
        self, whole: Callable[[Any], tuple[Any, Any]], block: Callable[[Any, Any, Any], None]
    ) -> None:
        self._whole = whole
        self._block = block

    def whole(self, gradient: Any, x: Any, quantizer: None = None) -> Any:
        """Return [gradient * b * slope(a), gradient * activation(a)] as one expression."""
        gradient = gated.single(gradient)
        a, b = np.split(gated.single(x), 2, axis=-1)
        active, slope = self._whole(a)
        found = np.concatenate([gradient * b * slope, gradient * active], axis=-1)
        return found.astype(x.dtype, copy=False)

    def blocked(self, gradient: Any, x: Any, quantizer: None = None) -> Any:
        """Return [gradient * b * slope(a), gradient * activation(a)] by blocks of rows."""
        out, width = np.empty_like(x), x.shape[-1]
        rows = gradient.reshape(-1, width // 2), x.reshape(-1, width), out.reshape(-1, width)
        blocks.rows(self._chain, *rows)
        return out

    def _chain(self, gradient: Any, x: Any, out: Any) -> None:
        half = x.shape[1] // 2
        active, slope = (blocks.scratch(slot, gradient.shape) for slot in (0, 1))
        a, b = blocks.loaded(x[:, :half], 2), blocks.loaded(x[:, half:], 3)
        gradient = blocks.loaded(gradient, 4)
        self._block(a, active, slope)
        np.multiply(gradient, active, out=out[:, half:], casting="same_kind")
        np.multiply(slope, b, out=slope)
        np.multiply(slope, gradient, out=out[:, :half], casting="same_kind")


def _relu(a: Any) -> tuple[Any, Any]:
    return np.maximum(a, 0), (a > 0).astype(np.float32)


def _relu_block(a: Any, active: Any, slope: Any) -> None:
    np.maximum(a, 0, out=active)
    np.greater(a, 0, out=slope, casting="unsafe")


def _gelu_by_tanh(a: Any) -> tuple[Any, Any]:
    bent = gated.gelu_tanh(a)
    inner = gated.TANH_SCALE * (1 + 3 * gated.TANH_CUBE * a * a)
    return 0.5 * a * (1 + bent), 0.5 * (1 + bent) + 0.5 * a * (1 - bent * bent) * inner


def _gelu_by_tanh_block(a: Any, active: Any, slope: Any) -> None:
    bent, inner = (blocks.scratch(slot, a.shape) for slot in (5, 6))
    gated.gelu_tanh_block(a, bent)
    np.multiply(a, a, out=inner)
    np.multiply(inner, 3 * gated.TANH_CUBE, out=inner)
    np.add(inner, 1, out=inner)
    np.multiply(inner, a, out=inner)
    np.multiply(inner, 0.5 * gated.TANH_SCALE, out=inner)
    np.multiply(bent, bent, out=slope)
    np.subtract(1, slope, out=slope)
    np.multiply(slope, inner, out=slope)
    np.add(bent, 1, out=bent)
    np.multiply(bent, 0.5, out=bent)
    np.add(slope, bent, out=slope)
    np.multiply(bent, a, out=active)


RELU = Gradient(_relu, _relu_block)
GELU_TANH = Gradient(_gelu_by_tanh, _gelu_by_tanh_block)
