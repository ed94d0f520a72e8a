"""Benchmark the in-place addition of a residual with the RMS norm of the sum."""

import pytest

from . import norms


@pytest.mark.fused_add_rms_norm
def test_fused_add_rms_norm():
    """Overwrite x and residual."""
    norms.FusedAddRmsNormBenchmark(
        "fused_add_rms_norm",
        norms.fused_add_rms_norm_whole,
        norms.fused_add_rms_norm_blocked,
        is_inplace=True,
    ).run()
