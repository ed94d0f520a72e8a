"""Benchmark silu(x) * y, with the result returned or written to a given array."""

import numpy as np
import pytest

from . import gated


@pytest.mark.silu_and_mul
def test_silu_and_mul():
    """Return silu(x) * y."""
    gated.PairBenchmark("silu_and_mul", gated.SILU.whole, gated.SILU.blocked).run()


@pytest.mark.silu_and_mul_out
def test_silu_and_mul_out():
    """Write silu(x) * y to an array made beforehand."""

    def whole(x, y):
        return gated.SILU.whole_into(x, y, np.empty_like(x))

    def blocked(x, y):
        return gated.SILU.blocked_into(x, y, np.empty_like(x))

    gated.PairBenchmark("silu_and_mul_out", whole, blocked).run()
