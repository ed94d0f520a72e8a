"""Operators are measured in several independent children, interleaved, and pooled by case."""

from __future__ import annotations

import json

import pytest

from fusion import history, report, session
from fusion.errors import Refusal


def measured(bench, *operators, repeat="3"):
    options = bench.options(*operators)
    planned = session.prepare(session.Options(**{**vars(options), "repeat": repeat}), bench.around)
    return session.execute(planned, bench.around.environ, bench.watcher)


@pytest.fixture
def thrice(bench):
    return bench, measured(bench, "good", "shouting")


def test_repeats_are_interleaved_children(thrice):
    """Every operator is measured once before any is measured again."""
    bench, found = thrice
    started = [(e.job.operator, e.repeat) for e in bench.events if e.kind == "started"]
    names = [job.operator for job in found.plan.jobs]
    assert started == [(name, repeat) for repeat in range(3) for name in names]
    processes = {
        json.loads(line)["pid"]
        for path in found.journal.folder.glob("ops/**/cases.jsonl")
        for line in path.read_text().splitlines()
        if json.loads(line)["event"] == "session"
    }
    assert len(processes) == 6


def test_rows_pool_the_repeats_of_a_case(thrice):
    """A case is one row with a latency from each repeat."""
    _, found = thrice
    assert {row.count for row in found.rows} == {3}
    assert all(len(row.latencies_ms) == 3 for row in found.rows)
    assert {line.repeats for line in found.coverage if line.status == "PASSED"} == {3}
    once = {(row.operator, row.shape, row.dtype) for row in found.rows}
    assert len(once) == len(found.rows)


def test_state_of_the_machine_is_kept_around_every_repeat(thrice):
    """Each outcome says how the machine was before and after, and what its child was bound to."""
    _, found = thrice
    assert len(found.outcomes) == 6
    for ended in found.outcomes:
        assert ended.before["when"] < ended.after["when"]
        assert ended.after["own_seconds"] > 0
    assert set(found.pinning) == {"good", "shouting"}
    assert found.pinning["good"]["cpus"]


def test_repeats_that_a_run_was_stopped_before_are_owed(bench):
    """Resuming measures what is missing, and the rows then have every sample."""
    found = measured(bench, "good")
    kept = found.journal
    kept.outcome("good", 2).unlink()
    kept.outcome("good", 1).unlink()
    partly = report.load(kept)
    assert [line.status for line in partly.coverage] == ["PARTIAL"]
    assert "1 of 3 repeats ran" in partly.coverage[0].reason
    assert session.left(partly) == {"good": 2}
    resumed = session.resume(kept, bench.around.environ, bench.watcher)
    assert {row.count for row in resumed.rows} == {3}
    assert [line.status for line in resumed.coverage] == ["PASSED"]


def test_operator_of_which_a_repeat_crashed_is_not_listed_as_passed(bench):
    """The list of runs counts an operator as the run's own summary does."""
    found = measured(bench, "good", repeat="2")
    path = found.journal.outcome("good", 1)
    path.write_text(path.read_text().replace("PASSED", "CRASHED"))
    assert report.load(found.journal).coverage[0].status == "PARTIAL"
    (entry,) = history.entries(bench.output)
    assert (entry.passed, entry.other) == (0, 1)


def test_what_measured_nothing_is_not_repeated(bench):
    """What failed once altogether is not waited for again."""
    found = measured(bench, "failing", repeat="2")
    started = [event for event in bench.events if event.kind == "started"]
    assert {event.repeat for event in started} == {0}
    assert session.left(found) == {}


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_number_of_repeats_is_checked(text):
    """It is a whole number of at least 1."""
    with pytest.raises(Refusal, match="--repeat"):
        session.repeats_asked(text)
