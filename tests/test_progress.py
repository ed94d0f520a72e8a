"""A run's progress is told in plain lines, and the time left estimated from earlier runs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import progress
from fusion.estimate import duration, time_left
from fusion.outcome import Outcome, Tried
from fusion.plan import Job
from fusion.runner import Event


def job(operator, binding=0):
    return Job(
        operator=operator,
        category="memory",
        metric="logical_bytes",
        source="s",
        pipeline="SVE",
        dtype="float32",
        explicit_dtype=False,
        target=1.0,
        marker=None,
        files=(),
        tests=(),
        binding=binding,
    )


JOBS = [job("a"), job("b"), job("c", 1)]


def test_time_left_is_that_of_the_busiest_binding():
    """Bindings work side by side, and the run ends with the last of them."""
    assert time_left(JOBS, {}, {"a": 10.0, "b": 5.0, "c": 12.0}) == 15
    assert time_left(JOBS, {}, {"a": 1.0, "b": 5.0, "c": 12.0}) == 12


def test_running_job_counts_for_what_remains_of_it():
    """The seconds that a job has run are off, but it never takes less than nothing."""
    seconds = {"a": 10.0, "b": 5.0, "c": 1.0}
    assert time_left(JOBS, {"a": 4.0}, seconds) == 11
    assert time_left(JOBS, {"a": 40.0}, seconds) == 5


def test_unknown_job_counts_as_the_mean_of_the_known():
    """A job that never ran is taken to last as long as the others do."""
    assert time_left(JOBS, {}, {"a": 10.0, "c": 2.0}) == 16


@pytest.mark.parametrize("jobs", [JOBS, []])
def test_nothing_known_is_no_estimate(jobs):
    """Without an earlier run of these operators, no time is made up."""
    assert time_left(jobs, {}, {"another": 3.0}) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (9.4, "0:09"),
        (59.6, "1:00"),
        (61, "1:01"),
        (3599.7, "1:00:00"),
        (3723, "1:02:03"),
        (360000, "100:00:00"),
    ],
)
def test_durations_read_like_a_clock(seconds, text):
    """Minutes and seconds have two digits behind a colon."""
    assert duration(seconds) == text


@given(st.integers(0, 10**7))
def test_duration_loses_no_second(seconds):
    """The parts of a duration add up to it, and none exceeds 59 but the first."""
    first, *others = map(int, duration(seconds).split(":"))
    total = first
    for part in others:
        assert 0 <= part < 60
        total = 60 * total + part
    assert total == seconds


def ended(*tried, status="PASSED", reason=""):
    attempts = tuple(
        Tried(i, dtype, 0, seconds, status, reason, 1, 0)
        for i, (dtype, seconds) in enumerate(tried)
    )
    return Outcome(1, "a", status, reason, 0, attempts, "then", "now")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Event("started", JOBS[0], "float32", None), "a: started with float32"),
        (Event("started", JOBS[0], None, None), "a: started with the benchmark's own dtypes"),
        (
            Event("fallback", JOBS[0], "bfloat16", None, "no\n such dtype"),
            "a: no such dtype; falling back to bfloat16",
        ),
        (
            Event("ended", JOBS[0], None, None, outcome=ended(("float32", 1.25), (None, 2.5))),
            "a: PASSED in 3.8 s",
        ),
        (
            Event("ended", JOBS[0], None, None, outcome=ended((None, 1.0), status="X", reason="y")),
            "a: X in 1.0 s: y",
        ),
    ],
)
def test_elsewhere_than_on_a_terminal_lines_are_plain_with_a_time(capsys, event, text):
    """Each event is one line with date and time, without control characters."""
    with progress.shown(None, {}, {}) as watcher:
        watcher.event(event)
    line = capsys.readouterr().out
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d " + re.escape(text) + "\n", line)


def test_what_a_run_waits_for_is_told_with_a_time(capsys):
    """A message beside the events is a line like them."""
    with progress.shown(None, {}, {}) as watcher:
        watcher.tell("Waiting for NUMA node 0")
    assert re.fullmatch(r"[-\d]+ [:\d]+ Waiting for NUMA node 0\n", capsys.readouterr().out)
