"""Benchmark gelu(x) * y with the exact gelu."""

import pytest

from . import gated


@pytest.mark.gelu_and_mul
def test_gelu_and_mul():
    """Return gelu(x) * y."""
    gated.PairBenchmark("gelu_and_mul", gated.GELU.whole, gated.GELU.blocked).run()
