"""Benchmark relu of the first half of each row times the second half."""

import pytest

from . import gated


@pytest.mark.reglu
def test_reglu():
    """Return rows of half the length."""
    gate = gated.RELU
    gated.TexGluForwardBenchmark("reglu", gate.whole_halves, gate.blocked_halves).run()
