"""Verdicts on observations, without torch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusion.audit.observation import Observation, Touched
from fusion.audit.verdict import Kind, could_not_run, judge, summarise


def touched(name: str, size: int, read: int = 0, written: int = 0) -> Touched:
    return Touched(name, "argument", (size,), "uint8", size, read, written)


MEMORY = Observation(
    operator="take",
    op_name="take",
    node="test_take.py::test_take",
    case=0,
    arguments="float16[4, 8]",
    metric="logical_bytes",
    formula=300,
    read=200,
    written=100,
    tensors=(
        touched("table", 1000, read=150),
        touched("index", 50, 50),
        touched("out", 100, 0, 100),
    ),
)
COMPUTE = replace(MEMORY, metric="logical_flops", formula=2000, dots=1000, executed=4000)


def test_a_formula_that_equals_reads_plus_writes_is_exact() -> None:
    """In a memory operator the observed value is the bytes read plus the bytes written."""
    finding = judge(MEMORY)
    assert (finding.kind, finding.observed, finding.verdict) == (Kind.EXACT, 300, "exact")


def test_a_multiply_add_is_two_flop() -> None:
    """In a compute operator the observed value is twice the multiply-adds of the dots."""
    finding = judge(COMPUTE)
    assert (finding.kind, finding.observed) == (Kind.EXACT, 2000)


def test_sums_over_products_count_where_there_is_no_dot() -> None:
    """An operator whose products are sums is judged by these, one with dots by its dots alone."""
    assert judge(replace(COMPUTE, dots=0, sums=1000)).kind is Kind.EXACT
    beside = judge(replace(COMPUTE, sums=77))
    assert beside.kind is Kind.EXACT
    assert "77 multiply-adds of sums beside the dots are left out" in beside.notes


def test_a_small_difference_is_given_in_percent() -> None:
    """A formula at most 5 % away is within, with the distance in the verdict."""
    finding = judge(replace(MEMORY, formula=306))
    assert (finding.kind, finding.verdict) == (Kind.WITHIN, "within 2 %")


def test_a_table_counted_whole_is_named() -> None:
    """A formula that counts a whole table of which rows are gathered names that table."""
    finding = judge(replace(MEMORY, formula=300 + 850))
    assert finding.kind is Kind.DIFFERS
    assert finding.culprits == ("table: 150 of 1000 bytes are read",)
    assert finding.ratio == pytest.approx(1150 / 300)


def test_an_argument_left_out_is_named() -> None:
    """A formula that forgets the indices names them."""
    finding = judge(replace(MEMORY, formula=250))
    assert finding.culprits == ("index: its 50 bytes read are left out",)


def test_two_arguments_may_explain_a_difference_together() -> None:
    """A table counted whole and a forgotten result are both named."""
    finding = judge(replace(MEMORY, formula=300 + 850 - 100))
    assert finding.culprits == (
        "table: 150 of 1000 bytes are read",
        "out: its 100 bytes written are left out",
    )


def test_an_unexplained_difference_shows_what_is_touched_in_part() -> None:
    """When no argument accounts for a difference, those touched in part are shown."""
    finding = judge(replace(MEMORY, formula=300 + 13))
    assert finding.culprits == ("table: 150 bytes read and 0 written of 1000",)


def test_masked_work_is_told() -> None:
    """A compute verdict says how much of what the tiles did is masked."""
    assert judge(COMPUTE).notes == (
        "25% of the multiply-adds in the kernel's tiles are not masked",
    )


def test_what_was_not_seen_is_told() -> None:
    """Unobserved operators, captured tensors and stray accesses are in the notes of a verdict."""
    notes = judge(
        replace(MEMORY, unobserved=("index_add_",), captured=8, beyond=4, stray=2, substituted=True)
    ).notes
    assert notes == (
        "its benchmark never calls flag_gems.fused.take; the audit did",
        "unobserved: index_add_",
        "8 bytes of tensors outside the call are not counted",
        "4 bytes around the views of arguments are not counted",
        "the kernel reaches 2 bytes outside every tensor",
    )


def test_an_error_could_not_run_with_its_first_line() -> None:
    """An error of the kernel is the reason, without its traceback."""
    finding = judge(replace(MEMORY, error="ValueError: no\n  File ..."))
    assert finding.verdict == "could not run: ValueError: no"
    assert finding.observed is None


def test_a_formula_that_fails_is_no_formula() -> None:
    """A case whose formula raised is told so, with the observation kept."""
    finding = judge(replace(MEMORY, formula=None, formula_error="missing input x"))
    assert (finding.kind, finding.observed) == (Kind.NO_FORMULA, 300)
    assert finding.verdict == "no formula: missing input x"


def test_nothing_observed_has_no_ratio() -> None:
    """A call that touched nothing differs, and nothing is divided by zero."""
    finding = judge(replace(MEMORY, read=0, written=0))
    assert (finding.kind, finding.ratio, finding.percent) == (Kind.DIFFERS, None, None)


def test_an_operator_stands_as_its_worst_case() -> None:
    """One case that differs outweighs any number of exact ones."""
    found = [
        judge(MEMORY),
        judge(replace(MEMORY, formula=900)),
        judge(replace(MEMORY, formula=303)),
    ]
    (summary,) = summarise(found)
    assert (summary.cases, summary.exact, summary.worst.kind) == (3, 1, Kind.DIFFERS)


def test_a_case_that_could_not_run_does_not_outweigh_those_that_did() -> None:
    """An operator could not run only if none of its cases did."""
    skipped = could_not_run("take", "skipped")
    (summary,) = summarise([skipped, judge(MEMORY)])
    assert (summary.cases, summary.worst.kind) == (1, Kind.EXACT)
    assert summarise([skipped])[0].worst.kind is Kind.COULD_NOT_RUN
