"""Normalise the rows of x + residual."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import base, blocks, sizes

_WIDTH = 4096
_EPSILON = 1e-5


class NormBenchmark(base.GenericBenchmarkExcluse1D):
    """Measure a normalisation of the last axis, after adding a residual."""

    # How many arrays of x's shape are read or written.
    arrays = 4

    def core_shapes(self, itemsize: int) -> list[Any]:
        """Return two shapes inside the caches and one well beyond."""
        widths = [_WIDTH] * self.arrays
        large = sizes.rows_beyond_cache(*widths, itemsize=itemsize)
        return [(64, 64), (1024, 1024), (large, _WIDTH)]

    def more_shapes(self, itemsize: int) -> list[Any]:
        """Return an odd matrix and a stack of matrices."""
        return [(1000, 257), (16, 128, 512)]


class FusedAddRmsNormBenchmark(NormBenchmark):
    """Measure the RMS norm that works in place: x and residual are each read and written."""

    arrays = 2

    def input_fn(self, shape: Any, dtype: str) -> Iterator[tuple[Any, ...]]:
        """Make (x, residual, normalised shape, weight, epsilon)."""
        width = (shape[-1],)
        x, residual = base.normal(shape, dtype, seed=1), base.normal(shape, dtype, seed=2)
        yield x, residual, width, base.normal(width, dtype, seed=3), _EPSILON


class SkipLayerNormBenchmark(NormBenchmark):
    """Measure the layer norm that returns a new array."""

    arrays = 3

    def input_fn(self, shape: Any, dtype: str) -> Iterator[tuple[Any, ...]]:
        """Make (x, residual, normalised shape, weight, bias)."""
        width = (shape[-1],)
        x, residual = base.normal(shape, dtype, seed=1), base.normal(shape, dtype, seed=2)
        weight, bias = base.normal(width, dtype, seed=3), base.normal(width, dtype, seed=4)
        yield x, residual, width, weight, bias


def fused_add_rms_norm_whole(
    x: Any, residual: Any, normalized_shape: Any, weight: Any, eps: float = _EPSILON
) -> None:
    """Set residual to x + residual, and x to its RMS norm times weight."""
    total = np.add(x, residual, dtype=np.float32)
    residual[...] = total
    mean_square = (total * total).mean(axis=-1, keepdims=True)
    x[...] = total / np.sqrt(mean_square + eps) * weight


def fused_add_rms_norm_blocked(
    x: Any, residual: Any, normalized_shape: Any, weight: Any, eps: float = _EPSILON
) -> None:
    """Set residual to x + residual, and x to its RMS norm times weight, by blocks of rows."""
    weight = weight.astype(np.float32)

    def work(x: Any, residual: Any) -> None:
        total = blocks.scratch(0, x.shape)
        np.add(x, residual, out=total, dtype=np.float32)
        np.copyto(residual, total, casting="same_kind")
        scale = 1 / np.sqrt(_row_squares(total) / x.shape[-1] + eps)
        np.multiply(total, scale, out=total)
        np.multiply(total, weight, out=x, dtype=np.float32, casting="same_kind")

    width = x.shape[-1]
    blocks.rows(work, x.reshape(-1, width), residual.reshape(-1, width))


def skip_layer_norm_whole(
    x: Any, residual: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float = _EPSILON
) -> Any:
    """Return the layer norm of x + residual, times weight, plus bias."""
    total = np.add(x, residual, dtype=np.float32)
    centred = total - total.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    normal = centred / np.sqrt(variance + eps)
    return (normal * weight + bias).astype(x.dtype, copy=False)


def skip_layer_norm_blocked(
    x: Any, residual: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float = _EPSILON
) -> Any:
    """Return the layer norm of x + residual, times weight, plus bias, by blocks of rows."""
    weight, bias = weight.astype(np.float32), bias.astype(np.float32)

    def work(x: Any, residual: Any, out: Any) -> None:
        total = blocks.scratch(0, x.shape)
        np.add(x, residual, out=total, dtype=np.float32)
        np.subtract(total, total.mean(axis=-1, keepdims=True), out=total)
        scale = 1 / np.sqrt(_row_squares(total) / x.shape[-1] + eps)
        np.multiply(total, scale, out=total)
        np.multiply(total, weight, out=total)
        np.add(total, bias, out=out, dtype=np.float32, casting="same_kind")

    width, out = x.shape[-1], np.empty_like(x)
    blocks.rows(work, *(array.reshape(-1, width) for array in (x, residual, out)))
    return out


def _row_squares(rows: Any) -> Any:
    return np.einsum("rc,rc->r", rows, rows)[:, None]
