"""Benchmarks are found from their text: markers, files, functions."""

from __future__ import annotations

import pytest

from fusion import suite

from .conftest import RESOURCES

SOURCE = b'''
import pytest

pytestmark = [pytest.mark.whole, pytest.mark.skipif(True, reason="x")]


@pytest.mark.first
@pytest.mark.parametrize(
    "dtype",
    [1, 2],
)
@pytest.mark.first_too
def test_first(dtype):
    x = """
@pytest.mark.not_a_marker
"""


def helper():
    pass


@pytest.mark.lost
class Helper:
    pass


@pytest.mark.grouped
class TestGroup:
    @pytest.mark.inner
    def test_inner(self):
        pass


def test_plain():
    pass
'''


def test_functions_with_their_markers():
    """Decorators belong to the function below them, module marks to all."""
    found = dict(suite.functions_of(SOURCE))
    assert found["test_first"][:3] == ("first", "parametrize", "first_too")
    assert "lost" not in found["test_plain"]
    assert set(found["TestGroup"]) >= {"grouped", "inner", "whole"}
    assert "whole" in found["test_plain"]
    assert set(found) == {"test_first", "TestGroup", "test_plain"}


@pytest.fixture
def small():
    return suite.scan(RESOURCES / "suites" / "current", False, "")


def test_marker_comes_before_file_name(small):
    """An operator is found by its marker, and by its file where it has none."""
    assert small.find(["good"]) == suite.Benchmark("good", ("benchmark/test_good.py",))
    assert small.find(["product"]) == suite.Benchmark(None, ("benchmark/test_product.py",))
    assert small.find(["product", "good_too"]).marker == "good_too"
    assert small.find(["nowhere"]) is None


def test_steering_marks_name_no_operator(small):
    """xfail and its like are no operators."""
    assert small.find(["xfail"]) is None


def test_tests_narrow_a_shared_marker(small):
    """Where an operator names its test functions, only those are selected."""
    found = small.find(["good"], ("test_good",))
    assert found == suite.Benchmark("good", ("benchmark/test_good.py",), ("test_good",))


def test_suite_tells_modes_and_unit(small):
    """What --mode takes and what --warmup counts is read from the suite itself."""
    assert small.modes == ("kernel", "operator", "wrapper")
    assert small.time_unit == "milliseconds"
    older = suite.scan(RESOURCES / "suites" / "older", False, "")
    assert (older.modes, older.time_unit) == ((), "counts")


def test_folder_without_git_has_no_known_revision(tmp_path):
    """Without git the revision is said to be unknown."""
    assert suite.revision(tmp_path) == "unknown revision"
