"""Reading what a child of the audit left behind, without torch."""

from __future__ import annotations

import json
from pathlib import Path

from fusion.audit import observation

CASE = {
    "event": "case",
    "operator": "add",
    "op_name": "add",
    "node": "test_add.py::test_add",
    "case": 0,
    "arguments": ["float16[5, 66]", 2],
    "options": {"inplace": True},
    "metric": "logical_bytes",
    "formula": 660,
    "read": 600,
    "written": 60,
    "multiply_adds": 3,
    "multiply_adds_of_sums": 4,
    "multiply_adds_executed": 5,
    "stray": 0,
    "beyond": 0,
    "captured": [{"bytes": 8, "read": 8, "written": 2}],
    "operators": ["empty"],
    "unobserved": ["index_add_"],
    "tensors": [
        {
            "name": "x",
            "role": "argument",
            "shape": [5, 66],
            "dtype": "float16",
            "bytes": 660,
            "read": 600,
            "written": 0,
        }
    ],
    "seconds": 0.5,
}
STARTED = {"event": "test_started", "operator": "add", "node": "test_add.py::test_add"}
ENDED = {**STARTED, "event": "test", "phase": "call", "outcome": "passed", "message": ""}


def lines(*events: dict[str, object]) -> list[str]:
    return [json.dumps(event) for event in events]


def test_a_case_is_read_whole() -> None:
    """Every figure that the child wrote is in the observation."""
    (held,) = observation.parse(lines(STARTED, CASE, ENDED)).observations
    assert (held.read, held.written, held.dots, held.sums, held.executed) == (600, 60, 3, 4, 5)
    assert held.arguments == "float16[5, 66], 2, inplace=True"
    assert (held.captured, held.unobserved) == (10, ("index_add_",))
    assert held.tensors[0].size == 660


def test_a_torn_last_line_is_left_out() -> None:
    """A child that died while writing loses that line alone."""
    journal = observation.parse([*lines(STARTED, CASE), '{"event": "ca'])
    assert len(journal.observations) == 1


def test_a_test_that_did_not_end_is_the_one_that_was_running() -> None:
    """The operator of a dead child is that of the last test begun and not ended."""
    assert observation.parse(lines(STARTED, CASE)).running == "add"
    assert observation.parse(lines(STARTED, CASE, ENDED)).running is None


def test_a_skip_before_the_call_leaves_nothing_running() -> None:
    """A test that was skipped at set-up never began and is not taken for a crash."""
    skipped = {**ENDED, "phase": "setup", "outcome": "skipped", "message": "no"}
    journal = observation.parse(lines(skipped))
    assert journal.running is None
    assert journal.endings[0].message == "no"


def test_a_file_that_could_not_be_collected_keeps_its_reason() -> None:
    """The message of a failed import is kept by file."""
    event = {"event": "collect", "file": "test_add.py", "message": "ImportError"}
    assert observation.parse(lines(event)).uncollected == {"test_add.py": "ImportError"}


def test_a_missing_file_is_an_empty_journal(tmp_path: Path) -> None:
    """A child that never came to writing leaves no observations and no error."""
    assert observation.read(tmp_path / "none.jsonl").observations == ()
