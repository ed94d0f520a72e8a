"""What a child left is read whole, however damaged."""

from __future__ import annotations

import json
import math

import pytest

from fusion import records
from fusion.journal import Attempt

from .conftest import RESOURCES

STARTED = {"event": "case", "case": 0, "dtype": "float32", "shape": [[2]], "state": "started"}
MEASURED = {**STARTED, "state": "measured", "latency_ms": 1.5, "logical_bytes": 8}


@pytest.fixture
def attempt(tmp_path):
    return Attempt(tmp_path)


def write(attempt, *events, tail=b""):
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    attempt.cases.write_bytes(lines + tail)


def test_absent_files_are_empty_records(attempt):
    """A child that left nothing has no cases and has not ended."""
    assert records.read(attempt) == records.Records(source="cases.jsonl")


def test_last_line_about_a_case_counts(attempt):
    """A case is what its last line says."""
    write(attempt, STARTED, MEASURED)
    (case,) = records.read(attempt).cases
    assert (case.state, case.latency_ms, case.metric, case.logical) == (
        "measured",
        1.5,
        "logical_bytes",
        8,
    )
    assert case.problem is None


def test_torn_and_foreign_lines_are_read_past(attempt):
    """Damage in a line costs that line alone."""
    write(attempt, {"event": "case"}, [1], MEASURED, tail=b'\xff\xfe\n{"event": "case", "ca')
    assert len(records.read(attempt).measured) == 1


def test_pinning_that_changes_until_the_end_is_known(attempt):
    """What was in force at the start is kept, and beside it what was another at the end."""
    start = {"cpus": "0-3", "memory_policy": "bind:0"}
    session = {"event": "session", "pinning": start}
    for end, found in (
        ({"event": "end", "pinning": start}, start),
        ({"event": "end", "pinning": {**start, "cpus": "0"}}, {**start, "cpus_at_end": "0"}),
        ({"event": "end"}, start),
        ({"event": "other"}, start),
    ):
        write(attempt, session, MEASURED, end)
        assert records.read(attempt).pinning == found


def test_case_that_was_running_is_known(attempt):
    """The case without an end is the one that was running."""
    write(attempt, MEASURED, {**STARTED, "case": 1})
    read = records.read(attempt)
    assert read.running.number == 1
    assert not read.ended


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"latency_ms": "nan"}, "the latency is nan ms"),
        ({"latency_ms": "inf"}, "the latency is inf ms"),
        ({"latency_ms": 0}, "the latency is 0.0 ms"),
        ({"latency_ms": -1}, "the latency is -1.0 ms"),
        ({"latency_ms": None}, "the latency is missing"),
        ({"latency_ms": "soon"}, "the latency is nan ms"),
        ({"error": "no memory"}, "no memory"),
        ({"error": ""}, "the benchmark failed without a message"),
        ({"logical_bytes": None}, "no logical_flops or logical_bytes was recorded"),
        ({"logical_bytes": 1.5}, "no logical_flops or logical_bytes was recorded"),
        ({"logical_bytes": None, "formula_error": "no input"}, "formula: no input"),
    ],
)
def test_problem_of_a_case(attempt, facts, problem):
    """What keeps a case from being a full result is said in its own words."""
    write(attempt, {**MEASURED, **facts})
    (case,) = records.read(attempt).cases
    assert case.problem == problem


def test_record_log_stands_in_for_a_missing_case_file(attempt):
    """Without a case file the suite's own record gives the cases."""
    text = (RESOURCES / "records" / "silu_and_mul.log").read_text()
    attempt.record.write_text(text)
    read = records.read(attempt)
    assert read.source == "record.log"
    assert len(read.cases) == 15
    assert read.cases[0].dtype == "float16"
    assert read.cases[0].shape == [[1073741824], [1073741824]]
    assert read.cases[0].latency_ms == 1.5264639854431152


def test_case_file_comes_first(attempt):
    """The record log is not read where the case file has cases."""
    write(attempt, MEASURED)
    attempt.record.write_text((RESOURCES / "records" / "silu_and_mul.log").read_text())
    assert len(records.read(attempt).cases) == 1


def test_record_log_with_bare_nan_is_read(attempt):
    """FlagGems writes NaN bare; the case is then an error and its neighbours are kept."""
    result = [{"shape_detail": [float("inf")], "latency": math.nan}, {"latency": 2.0}]
    record = {"op_name": "x", "dtype": "torch.float32", "result": result}
    attempt.record.write_text("[INFO] " + json.dumps(record) + "\n")
    first, second = records.read(attempt).cases
    assert first.problem == "the latency is nan ms"
    assert first.shape == ["Infinity"]
    assert second.is_measured


def test_record_log_may_carry_logical_values(attempt):
    """A suite with its own evaluator is taken at its word."""
    result = [{"latency": 2.0, "logical_flops": 12}]
    record = {"op_name": "x", "dtype": "torch.float32", "result": result}
    attempt.record.write_text("[INFO] " + json.dumps(record) + "\n")
    (case,) = records.read(attempt).cases
    assert (case.metric, case.logical, case.problem) == ("logical_flops", 12, None)


def test_every_recorded_log_is_read(shared):
    """All logs that FlagGems wrote on an accelerator give usable cases."""
    for path in sorted((shared / "records").glob("*.log")):
        cases = records.from_record_log(path)
        assert cases, path.name
        assert all(case.is_measured or case.error is not None for case in cases), path.name
