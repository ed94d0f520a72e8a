import pytest

from . import base


@pytest.mark.good_too
def test_product():
    base.Benchmark("good_too", [(64, 64)], [(2.0, 1.0)]).run()
