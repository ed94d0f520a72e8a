"""Benchmark the gradient of reglu: of both halves of each row."""

import pytest

from . import gradients


@pytest.mark.dreglu
def test_dreglu():
    """Return rows of twice the gradient's length."""
    gradient = gradients.RELU
    gradients.TexGluBackwardBenchmark("dreglu", gradient.whole, gradient.blocked).run()
