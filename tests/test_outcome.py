"""An attempt is judged by what it left, an operator by the best of its attempts."""

from __future__ import annotations

import json
import math

import pytest

from fusion import outcome, records
from fusion.files import FileError
from fusion.outcome import Ending, Tried
from fusion.records import Case, Records

FINE = Ending(0, False, 2.0)


def case(number=0, **facts):
    given = {"state": "measured", "latency_ms": 1.0, "metric": "logical_bytes", "logical": 8}
    return Case(number, "x", "x", "float32", [[4]], **{**given, **facts})


def ran(result="passed", message="", phase="call"):
    return records.Test("benchmark/test_x.py::test_x", phase, result, message)


def judged(*cases, tests=(), ending=FINE, last="", **facts):
    given = {"ended": True, "source": "cases.jsonl", **facts}
    return outcome.judge(Records(tuple(cases), tuple(tests), **given), ending, last)


STARTED = {"state": "started", "latency_ms": None, "metric": None, "logical": None}


@pytest.mark.parametrize(
    ("verdict", "status", "reason"),
    [
        (judged(case(), tests=[ran()]), "PASSED", ""),
        (judged(case(), ending=Ending(1, False, 2.0)), "PASSED", ""),
        (judged(case(), tests=[ran("failed", "no empty_cache", "teardown")]), "PASSED", ""),
        (judged(case(), case(1, latency_ms=math.nan)), "PARTIAL", "the latency is nan ms"),
        (judged(case(), case(1, error="no room")), "PARTIAL", "no room"),
        (judged(case(), tests=[ran("failed", "second dtype broke")]), "PARTIAL", "second dtype"),
        (judged(case(), ended=False), "PARTIAL", "exit code 0 before pytest did after case 0"),
        (judged(case(), ended=False, source="record.log"), "PASSED", ""),
        (judged(case(formula_error="no z", logical=None, metric=None)), "PARTIAL", "formula: no z"),
        (judged(case(error="no room")), "FAILED", "case 0 ([[4]], float32): no room"),
        (judged(tests=[ran("failed", "broken")]), "FAILED", "broken"),
        (judged(tests=[ran("failed", " ")]), "FAILED", "test_x failed without a message"),
        (judged(uncollected=("ImportError: x",)), "FAILED", "ImportError: x"),
        (judged(tests=[ran("xfailed", "reason: known")]), "FAILED", "expected to fail: known"),
        (judged(tests=[ran("skipped", "Skipped: no GPU")]), "SKIPPED", "no GPU"),
        (
            judged(tests=[ran("skipped", "a"), ran("skipped", "b")]),
            "SKIPPED",
            "a (and 1 more)",
        ),
        (judged(tests=[ran(), ran("skipped", "a")]), "NO_DATA", "recorded no case"),
        (judged(tests=[ran("xpassed")]), "NO_DATA", "recorded no case"),
        (judged(ending=Ending(5, False, 1.0)), "NO_DATA", "no test was collected"),
        (judged(ending=Ending(4, False, 1.0), last="usage"), "NO_DATA", "its arguments: usage"),
        (judged(ending=Ending(99, False, 1.0)), "NO_DATA", "exit code 99"),
        (judged(ending=Ending(-11, False, 1.0)), "CRASHED", "SIGSEGV before the first case"),
        (judged(case(), ending=Ending(-9, False, 1.0)), "PARTIAL", "SIGKILL after case 0"),
        (
            judged(case(), case(1, **STARTED), ending=Ending(-9, False, 1.0)),
            "PARTIAL",
            "killed by SIGKILL while running case 1 ([[4]], float32)",
        ),
        (judged(case(**STARTED), ending=Ending(-15, True, 3.2)), "TIMEOUT", "timed out after 3 s"),
        (
            judged(case(), case(1, **STARTED), ending=Ending(-15, True, 3.2)),
            "PARTIAL",
            "timed out after 3 s while running case 1",
        ),
        (judged(case(), ending=Ending(0, True, 3.0)), "PARTIAL", "timed out"),
    ],
)
def test_status_and_reason_of_an_attempt(verdict, status, reason):
    """The cases and tests decide; the exit code is asked only where they say nothing."""
    assert verdict.status == status
    assert reason in verdict.reason
    assert bool(reason) == bool(verdict.reason)


def test_counts_of_a_verdict():
    """Measured cases and cases with a problem are counted apart."""
    verdict = judged(case(), case(1, logical=None, metric=None), case(2, error="x"))
    assert (verdict.measured, verdict.errors) == (2, 2)


def test_refused_dtype_of_a_sweep_is_no_problem_of_what_was_measured():
    """A benchmark that measured its cases passes although another of its tests lacks the dtype."""
    refusal = "ValueError: Given dtype(s) 'x' can't be supported by this op 'y'"
    assert judged(case(), tests=[ran("failed", refusal)]).status == "PASSED"
    assert judged(tests=[ran("failed", refusal)]).status == "FAILED"


def test_a_case_and_its_test_tell_a_message_once():
    """The message with which a case failed is not counted again for its test."""
    verdict = judged(case(error="no room"), tests=[ran("failed", "Failed: no room")])
    assert verdict.reason.endswith(": no room")


@pytest.mark.parametrize(
    ("verdict", "retries"),
    [
        (judged(case(error="no room")), True),
        (judged(ending=Ending(-11, False, 1.0)), True),
        (judged(uncollected=("ModuleNotFoundError: No module named 'x'",)), False),
        (judged(tests=[ran("skipped", "a")]), False),
        (judged(ending=Ending(-15, True, 3.0)), False),
        (judged(case(), case(1, error="no room")), False),
        (judged(case()), False),
        (judged(), False),
    ],
)
def test_only_a_failure_of_the_operator_may_be_the_dtypes(verdict, retries):
    """A skip, a missing package, a time limit and a partial result try no other dtype."""
    assert verdict.is_dtype_failure is retries


def tried(index, status, measured=0, dtype="float32", reason="r"):
    return Tried(index, dtype, 1, 1.0, status, reason, measured, 0)


def concluded(*attempts, earlier=()):
    return outcome.conclude("x", attempts, "then", "now", earlier)


def test_attempt_that_passed_counts():
    """The attempt that passed gives the rows, whatever failed before it."""
    found = concluded(tried(0, "FAILED"), tried(1, "PASSED", 2, "bfloat16", ""))
    assert (found.status, found.counts, found.reason) == ("PASSED", 1, "")


def test_fullest_partial_counts_else_the_first():
    """Without a pass the most measured cases count; without any, the first attempt."""
    found = concluded(tried(0, "PARTIAL", 1), tried(1, "PARTIAL", 3), tried(2, "FAILED"))
    assert found.counts == 1
    assert concluded(tried(0, "CRASHED"), tried(1, "FAILED")).counts == 0


def test_reasons_of_all_attempts_are_told_where_none_has_results():
    """What went wrong with each dtype is said, by name."""
    found = concluded(tried(0, "FAILED", reason="a"), tried(1, "CRASHED", dtype=None, reason="b"))
    assert found.reason == "with float32: a; with the benchmark own dtypes: b"


@pytest.mark.parametrize(
    ("earlier", "later", "counts"),
    [
        (("PARTIAL", 3), ("PARTIAL", 1), 0),
        (("PARTIAL", 3), ("PASSED", 1), 1),
        (("FAILED", 0), ("CRASHED", 0), 1),
        (("PARTIAL", 1), ("FAILED", 0), 0),
        (("PARTIAL", 2), ("PARTIAL", 2), 1),
    ],
)
def test_second_try_counts_unless_it_did_worse(earlier, later, counts):
    """Running again never costs what was measured, and is kept beside it."""
    found = concluded(tried(1, *later), earlier=(tried(0, *earlier),))
    assert found.counts == counts
    assert found.status == (earlier, later)[counts][0]
    assert [attempt.index for attempt in found.attempts] == [0, 1]


def test_outcome_survives_its_file():
    """An outcome read back from JSON is the same, and a newer format is refused."""
    found = concluded(tried(0, "FAILED"), tried(1, "PASSED", 2))
    data = json.loads(json.dumps(outcome.to_json(found)))
    assert outcome.from_json(data) == found
    with pytest.raises(FileError, match="newer version"):
        outcome.from_json({**data, "format": outcome.OUTCOME_FORMAT + 1})


def test_signals_have_names():
    """A signal is named, a number without a name is told as it is."""
    assert outcome.signal_name(11) == "SIGSEGV"
    assert outcome.signal_name(99) == "signal 99"


def test_every_benign_status_is_a_status():
    """What is no failure is one of the statuses that exist."""
    assert set(outcome.BENIGN) < set(outcome.STATUSES)
