"""Benchmark the weight norm g v / |v|, the norms taken along the first or the last axis."""

import threading

import numpy as np
import pytest

from . import base, blocks, norms


class WeightNormBenchmark(norms.NormBenchmark):
    """Measure with one norm for each index of the first axis, or of the last."""

    arrays = 2

    def __init__(self, last, *args):
        """Choose the axis, before what every benchmark is made of."""
        super().__init__(*args)
        self._last = last

    def input_fn(self, shape, dtype):
        """Make (v, g, axis), where g has v's length in that axis and 1 in the others."""
        axis = len(shape) - 1 if self._last else 0
        kept = tuple(length if index == axis else 1 for index, length in enumerate(shape))
        yield base.normal(shape, dtype, seed=1), base.normal(kept, dtype, seed=2), axis


def whole(v, g, axis):
    """Return g v / |v| as one expression."""
    others = tuple(index for index in range(v.ndim) if index != axis)
    x = v.astype(np.float32, copy=False)
    return (x * (g / np.sqrt((x * x).sum(axis=others, keepdims=True)))).astype(v.dtype, copy=False)


def blocked(v, g, axis):
    """Return g v / |v| by blocks of rows."""
    out = np.empty_like(v)
    if axis == 0:
        by_rows(v.reshape(len(v), -1), g.reshape(-1, 1), out.reshape(len(v), -1))
    else:
        by_columns(v.reshape(-1, v.shape[-1]), g.reshape(-1), out.reshape(-1, v.shape[-1]))
    return out


def by_rows(v, g, out):
    """Scale each row; a block is read once from memory."""

    def work(v, g, out):
        x = blocks.loaded(v, 0)
        scale = g / np.sqrt(np.einsum("rc,rc->r", x, x))[:, None]
        np.multiply(x, scale, out=out, casting="same_kind")

    blocks.rows(work, v, g, out)


def by_columns(v, g, out):
    """Scale each column: one pass for the norms, one for the result."""
    total, adding = np.zeros(v.shape[1], np.float32), threading.Lock()

    def gather(v):
        x = blocks.loaded(v, 0)
        squares = np.einsum("rc,rc->c", x, x)
        with adding:
            np.add(total, squares, out=total)

    def scale(v, out):
        np.multiply(v, factor, out=out, dtype=np.float32, casting="same_kind")

    blocks.rows(gather, v)
    factor = g / np.sqrt(total)
    blocks.rows(scale, v, out)


@pytest.mark.weight_norm
def test_weight_norm_dim0():
    """Return an array like v, normed along its first axis."""
    WeightNormBenchmark(False, "weight_norm", whole, blocked).run()


@pytest.mark.weight_norm
def test_weight_norm_dim_last():
    """Return an array like v, normed along its last axis."""
    WeightNormBenchmark(True, "weight_norm", whole, blocked).run()
