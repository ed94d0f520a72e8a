"""Benchmark the gradient of geglu: of both halves of each row."""

import pytest

from . import gradients


@pytest.mark.dgeglu
def test_dgeglu():
    """Return rows of twice the gradient's length."""
    gradient = gradients.GELU_TANH
    gradients.TexGluBackwardBenchmark("dgeglu", gradient.whole, gradient.blocked).run()
