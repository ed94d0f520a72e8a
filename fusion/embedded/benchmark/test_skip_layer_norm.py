"""Benchmark the layer norm of the sum of x and a residual."""

import pytest

from . import norms


@pytest.mark.skip_layer_norm
def test_skip_layer_norm():
    """Return a new array."""
    norms.SkipLayerNormBenchmark(
        "skip_layer_norm", norms.skip_layer_norm_whole, norms.skip_layer_norm_blocked
    ).run()
