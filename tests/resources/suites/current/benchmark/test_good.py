import pytest

from . import base


@pytest.mark.good
def test_good():
    base.Benchmark("good", [(4, 4), (8, 8)], [(2.0, 1.0), (3.0, 1.5)]).run()


@pytest.mark.only_float16
def test_only_float16():
    base.Benchmark("only_float16", [(4, 4)], [(2.0, 1.0)], ("float16",)).run()
