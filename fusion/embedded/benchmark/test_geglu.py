"""Benchmark gelu (by tanh) of the first half of each row times the second half."""

import pytest

from . import gated


@pytest.mark.geglu
def test_geglu():
    """Return rows of half the length."""
    gate = gated.GELU_TANH
    gated.TexGluForwardBenchmark("geglu", gate.whole_halves, gate.blocked_halves).run()
