import pytest

from .performance_utils import PairBenchmark


@pytest.mark.good
def test_perf_good():
    PairBenchmark("good", None).run()
