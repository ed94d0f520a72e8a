"""Tables of findings, without torch."""

from __future__ import annotations

import json
from dataclasses import replace

from fusion.audit import report
from fusion.audit.observation import Observation, Touched
from fusion.audit.verdict import could_not_run, judge

MEMORY = Observation(
    operator="take",
    op_name="take",
    node="test_take.py::test_take",
    case=0,
    arguments="uint8[100]",
    metric="logical_bytes",
    formula=300,
    read=200,
    written=100,
    tensors=(Touched("out", "argument", (100,), "uint8", 100, 0, 100),),
)
FINDINGS = [judge(MEMORY), could_not_run("other", "no benchmark")]


def test_each_case_has_a_line_with_formula_observed_ratio_and_verdict() -> None:
    """The table of cases shows what was compared and how it came out."""
    text = report.cases(FINDINGS)
    assert [line.split()[:7] for line in text.splitlines()[2:3]] == [
        ["take", "0", "bytes", "300", "300", "1", "exact"]
    ]
    assert "could not run: no benchmark" in text


def test_each_operator_has_a_line() -> None:
    """The table of operators shows how many of its cases are exact."""
    rows = [line.split()[:3] for line in report.operators(FINDINGS).splitlines()[2:]]
    assert rows == [["take", "1/1", "exact"], ["other", "0/0", "could"]]


def test_the_tensors_of_a_case_are_shown() -> None:
    """The table of a case's tensors has size, bytes read and bytes written."""
    last = report.tensors(FINDINGS[0]).splitlines()[-1].split()
    assert last == ["out", "argument", "uint8", "[100]", "100", "0", "100"]
    assert report.tensors(FINDINGS[1]).splitlines()[-1].strip("- ") == ""


def test_the_summary_counts_operators_by_verdict() -> None:
    """One line says how many operators got which verdict."""
    assert report.summary(FINDINGS) == "2 operators: 1 exact, 1 could not run"
    differs = judge(replace(MEMORY, formula=999))
    assert report.summary([differs]) == "1 operators: 1 differs; unexplained: take"
    explained = replace(differs, explanation="The kernel pads.")
    assert report.summary([explained]) == "1 operators: 1 differs"
    assert report.summary([]) == "no operator was audited"


def test_the_verdicts_are_kept_with_the_revision() -> None:
    """The JSON names the revision that was audited and each operator's verdict."""
    held = json.loads(report.as_json(FINDINGS, "abc123"))
    assert held["revision"] == "abc123"
    assert held["operators"]["take"] == {
        "verdict": "exact",
        "kind": "exact",
        "cases": 1,
        "exact": 1,
        "because": "",
    }
