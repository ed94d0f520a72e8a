"""A comparison passes or fails by what --fail-on names, and says what it does not count."""

from __future__ import annotations

import json

import pytest

from fusion.comparison import gate, verdict
from fusion.comparison.verdict import CompareError
from fusion.results import Results


def made(rows):
    """Make results of rows by operator: a median of nine samples, a list of samples, or cells."""
    return Results(
        {("t.csv", name, "float32", "[]", 0): cells(row) for name, row in rows.items()}, {}, {}
    )


def cells(row):
    if isinstance(row, dict):
        return row
    samples = row if isinstance(row, list) else [row * (1 + step / 1000) for step in range(-4, 5)]
    return {"latency_ms": str(samples[len(samples) // 2]), "latencies_ms": json.dumps(samples)}


def test_failures_are_named_by_a_list():
    """The names may come in any order, twice, with blanks and in several options."""
    assert gate.fail_on(["missing, slower,missing"]) == ("missing", "slower")
    assert gate.fail_on(["slower", "missing"]) == ("slower", "missing")
    assert gate.fail_on([]) == ()


@pytest.mark.parametrize("text", ["", " ", ","])
def test_option_that_names_no_failure_is_refused(text):
    """A gate of a variable that is not set would let everything pass."""
    with pytest.raises(CompareError, match=r"--fail-on: expected names .* found none"):
        gate.fail_on([text])


def test_unknown_failure_is_refused_with_the_nearest():
    """An unknown name is answered by the one that was probably meant."""
    with pytest.raises(CompareError, match=r"--fail-on: .*'slow' \(did you mean slower\?\)"):
        gate.fail_on(["faster,slow"])


def test_missing_is_what_a_measured_and_b_did_not():
    """Rows only in A and rows that lost their latency are missing; what A lacked is not."""
    a = made(
        {
            "gone": [1.0],
            "lost": [1.0],
            "kept": [1.0],
            "never": {"latency_ms": ""},
            "no": {"latency_ms": ""},
        }
    )
    b = made(
        {"lost": {"latency_ms": "nan"}, "kept": [1.0], "never": {"latency_ms": ""}, "n": [1.0]}
    )
    found = verdict.compare(a, b)
    assert {row.key[1] for row in gate.failures(found, ("missing",))} == {"gone", "lost"}
    assert gate.failures(found, ()) == gate.failures(found, ("slower", "faster")) == ()


def test_slower_and_faster_rows_fail_where_asked():
    """Each verdict fails only where it is named."""
    a = made({"x": 1.0, "y": 1.0})
    b = made({"x": 2.0, "y": 0.5})
    found = verdict.compare(a, b)
    assert [row.key[1] for row in gate.failures(found, ("slower",))] == ["x"]
    assert [row.key[1] for row in gate.failures(found, ("faster",))] == ["y"]


def test_gate_says_what_failed_and_what_was_not_asked_for():
    """Who gates on slower alone is told of the rows that B lost and of those nobody can tell."""
    a = made({"slow": 1.0, "once": [1.0], "gone": 1.0})
    found = verdict.compare(a, made({"slow": 2.0, "once": [2.0]}))
    assert gate.told(found, ("slower",)) == (
        "--fail-on slower: failed, 1 slower; rows compared: 2; not asked for: 1 missing, 1 untold"
    )
    assert gate.told(found, ("missing", "untold")) == (
        "--fail-on missing,untold: failed, 1 missing, 1 untold; rows compared: 2"
    )
    assert gate.told(verdict.compare(made({"x": 1.0}), made({"x": 1.0})), ("slower",)) == (
        "--fail-on slower: passed, 0 slower; rows compared: 1"
    )
