"""Benchmark the sum over the experts of each token, written to a given array."""

import numpy as np
import pytest

from . import base, blocks, sizes

EXPERTS, HIDDEN = 4, 4096


class MoeSumBenchmark(base.GenericBenchmarkExcluse1D):
    """Measure over shapes (tokens, experts, hidden) or (tokens, hidden) with one expert."""

    def accepts(self, shape):
        """Take two or three axes."""
        return len(shape) in (2, 3)

    def core_shapes(self, itemsize):
        """Return two shapes inside the caches and one well beyond."""
        large = sizes.rows_beyond_cache(EXPERTS * HIDDEN, HIDDEN, itemsize=itemsize)
        return [(64, 2, 64), (256, EXPERTS, 1024), (large, EXPERTS, HIDDEN)]

    def more_shapes(self, itemsize):
        """Return more experts, and an odd width."""
        return [(128, 8, 1024), (333, 6, 257)]

    def input_fn(self, shape, dtype):
        """Make (input, output)."""
        tokens, experts, hidden = shape if len(shape) == 3 else (shape[0], 1, shape[1])
        yield base.normal((tokens, experts, hidden), dtype), np.zeros((tokens, hidden), dtype)


def whole(x, out):
    """Write the sum over axis 1 to ``out``."""
    out[...] = x.sum(axis=1, dtype=np.float32)


def blocked(x, out):
    """Write the sum over axis 1 to ``out`` by blocks of tokens."""

    def work(span):
        total = out[span] if out.dtype == np.float32 else blocks.scratch(0, out[span].shape)
        np.sum(x[span], axis=1, dtype=np.float32, out=total)
        if total.dtype != out.dtype:
            np.copyto(out[span], total, casting="same_kind")

    blocks.ranges(work, len(out), blocks.BLOCK // max(1, out.shape[1]))


@pytest.mark.moe_sum
def test_moe_sum():
    """Overwrite the output array."""
    MoeSumBenchmark("moe_sum", whole, blocked, is_inplace=True).run()
