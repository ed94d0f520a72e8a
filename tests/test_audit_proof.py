"""A whole audit, on a small checkout with kernels of its own.

The tests that run kernels need a Python with the audit extra: this one, or the one that
FUSION_AUDIT_PYTHON names. They are skipped, saying so, where there is none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusion.audit.plan import Plan, Target
from fusion.audit.proof import (
    AuditRefused,
    Limits,
    check_python,
    command,
    environment,
    find_targets,
    prove,
)
from fusion.audit.verdict import Finding, Kind, summarise
from fusion.formulas.catalogue import Catalogue

RESOURCES = Path(__file__).parent / "resources" / "audit"
CHECKOUT = RESOURCES / "checkout"
FORMULAS = RESOURCES / "formulas.yaml"
PYTHON = os.environ.get("FUSION_AUDIT_PYTHON", sys.executable)


def able() -> bool:
    try:
        check_python(PYTHON)
    except AuditRefused:
        return False
    return True


needs_kernels = pytest.mark.skipif(
    not able(), reason="needs a Python with the audit extra (FUSION_AUDIT_PYTHON names one)"
)


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return prove(CHECKOUT, PYTHON, FORMULAS, limits=Limits(cases=2, seconds=30))


def of(findings: list[Finding], operator: str) -> list[Finding]:
    return [each for each in findings if each.operator == operator]


@needs_kernels
def test_an_elementwise_kernel_is_exact_for_odd_shapes(findings: list[Finding]) -> None:
    """Masked lanes do not count, whatever the mask is made of, and no mark skips the test."""
    assert [each.kind for each in of(findings, "add")] == [Kind.EXACT, Kind.EXACT]
    assert of(findings, "add")[0].observed == 3 * 5 * 66 * 2


@needs_kernels
def test_a_formula_that_is_slightly_off_is_within(findings: list[Finding]) -> None:
    """Two bytes too many are not exact."""
    assert {each.kind for each in of(findings, "add_slack")} == {Kind.WITHIN}


@needs_kernels
def test_a_formula_says_itself_why_it_is_not_exact(findings: list[Finding]) -> None:
    """The explanation of an entry comes with its verdict, and without one it is unexplained."""
    assert of(findings, "add_slack")[0].because.startswith("Two bytes more are counted on purpose")
    assert not of(findings, "add_slack")[0].unexplained
    assert of(findings, "take_rows")[0].unexplained


@needs_kernels
def test_a_table_counted_whole_differs_and_is_named(findings: list[Finding]) -> None:
    """A gather reads the rows of the table that it takes, each once."""
    found = of(findings, "take_rows")[0]
    assert found.kind is Kind.DIFFERS
    assert found.culprits == ("table: 264 of 660 bytes are read",)


@needs_kernels
def test_an_operator_of_pytorch_is_observed(findings: list[Finding]) -> None:
    """What torch.index_select reads is known row by row."""
    assert {each.kind for each in of(findings, "take_rows_on_the_side")} == {Kind.EXACT}


@needs_kernels
def test_an_operator_that_is_not_followed_is_told(findings: list[Finding]) -> None:
    """A verdict that rests on an operator of unknown reach says so."""
    assert "unobserved: index_add_" in of(findings, "spread_rows")[0].notes


@needs_kernels
def test_in_place_counts_the_read_and_the_write(findings: list[Finding]) -> None:
    """A kernel that overwrites its argument reads it and writes it."""
    assert {each.kind for each in of(findings, "double_in_place")} == {Kind.EXACT}


@needs_kernels
def test_masked_attention_counts_the_pairs_that_the_mask_leaves(findings: list[Finding]) -> None:
    """Causal attention in padded tiles has exactly the multiply-adds of its visible pairs.

    Its benchmark also compares the interpreted result with PyTorch's, and would have failed.
    """
    assert [each.kind for each in of(findings, "attention")] == [Kind.EXACT, Kind.EXACT]
    assert any("not masked" in note for note in of(findings, "attention")[0].notes)


@needs_kernels
def test_rows_that_are_computed_twice_and_not_stored_do_not_count(findings: list[Finding]) -> None:
    """A product whose tiles wrap around without a mask counts what its store keeps."""
    assert [each.kind for each in of(findings, "multiply")] == [Kind.EXACT, Kind.EXACT]


@needs_kernels
def test_a_product_by_pytorch_counts(findings: list[Finding]) -> None:
    """torch.mm beside the kernels is part of the matrix work."""
    assert {each.kind for each in of(findings, "multiply_on_the_side")} == {Kind.EXACT}


@needs_kernels
def test_a_sum_over_products_is_a_matrix_product(findings: list[Finding]) -> None:
    """A matrix times a vector written as a sum counts its unmasked multiply-adds."""
    assert {each.kind for each in of(findings, "matrix_times_vector")} == {Kind.EXACT}


@needs_kernels
def test_a_crash_costs_one_operator(findings: list[Finding]) -> None:
    """A kernel that kills its process is named with the signal, and the next operator runs."""
    (crashed,) = of(findings, "crash")
    assert crashed.verdict == "could not run: its process died: SIGSEGV"
    assert of(findings, "attention")


@needs_kernels
def test_a_kernel_that_raises_tells_its_reason(findings: list[Finding]) -> None:
    """The error of the implementation is the reason, in one line."""
    (first, _) = of(findings, "raises")
    assert first.verdict == "could not run: ValueError: this kernel wants another layout"


@needs_kernels
def test_an_implementation_that_its_benchmark_forgets_is_run(findings: list[Finding]) -> None:
    """FlagGems' function of the operator's name runs where the benchmark was handed none."""
    found = of(findings, "never_called")[0]
    assert found.kind is Kind.EXACT
    assert found.notes == ("its benchmark never calls flag_gems.fused.never_called; the audit did",)


@needs_kernels
def test_an_operator_without_a_benchmark_is_told(findings: list[Finding]) -> None:
    """No operator is left out in silence: each has at least one finding."""
    (missing,) = of(findings, "without_benchmark")
    assert missing.kind is Kind.COULD_NOT_RUN
    assert {each.operator for each in summarise(findings)} == set(Catalogue.load(FORMULAS).formulas)


@needs_kernels
def test_one_operator_is_audited_alone() -> None:
    """Only the operators that are named run."""
    found = prove(CHECKOUT, PYTHON, FORMULAS, ["add"], Limits(cases=1))
    assert [(each.operator, each.case) for each in found] == [("add", 0)]


def test_benchmarks_are_found_by_marker() -> None:
    """A target holds the marker and the absolute files of the operator's benchmark."""
    catalogue = Catalogue.load(FORMULAS)
    targets, missing = find_targets(CHECKOUT, catalogue.formulas.values())
    file = str((CHECKOUT / "benchmark" / "test_kernels.py").resolve())
    assert targets[0] == Target("add", "add", (file,))
    assert [each.operator for each in missing] == ["without_benchmark"]


def test_a_python_without_the_extra_is_refused(tmp_path: Path) -> None:
    """The refusal names what is missing and how to install it."""
    bare = tmp_path / "python"
    bare.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S -I \"$@\"\n")
    bare.chmod(0o755)
    with pytest.raises(
        AuditRefused, match=r"no torch, triton.*pip install 'fusion-metrics\[audit\]'"
    ):
        check_python(str(bare))


def test_a_python_that_is_absent_is_refused(tmp_path: Path) -> None:
    """A path at which there is no interpreter is refused and named."""
    with pytest.raises(AuditRefused, match="absent-python"):
        check_python(str(tmp_path / "absent-python"))


def test_the_plan_survives_its_file(tmp_path: Path) -> None:
    """What the child reads is what the parent wrote."""
    target = Target("add", None, ("/a/test_add.py",), ("test_add",))
    plan = Plan((target,), tmp_path / "o.jsonl", None, tmp_path / "s.yaml", 2, 1.5, 64)
    plan.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == plan


def test_the_child_runs_each_file_once_with_the_plugin(tmp_path: Path) -> None:
    """Two operators of one file give one path on the command line."""
    targets = tuple(Target(name, name, ("/a/test_x.py",)) for name in ("a", "b"))
    plan = Plan(targets, tmp_path / "o", None, tmp_path / "s")
    line = command("python3", Path("/checkout"), plan)
    assert line[:3] == ["python3", "-m", "pytest"]
    assert line.count("/a/test_x.py") == 1
    assert "fusion_audit_plugin" in line


def test_the_child_keeps_the_callers_environment(tmp_path: Path) -> None:
    """The caller's PYTHONPATH comes after the checkout's, and the caches are the audit's own."""
    held = environment({"PYTHONPATH": "/mine", "HOME": "/h"}, Path("/checkout"), tmp_path)
    assert held["PYTHONPATH"].split(os.pathsep)[1:] == ["/checkout", "/checkout/src", "/mine"]
    assert (held["HOME"], held["TRITON_INTERPRET"]) == ("/h", "1")
    assert held["TRITON_CACHE_DIR"].startswith(str(tmp_path))


def test_the_parent_needs_no_torch() -> None:
    """Importing the audit imports neither torch nor Triton."""
    code = (
        "import sys, fusion.audit.proof, fusion.audit.report; "
        "sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
