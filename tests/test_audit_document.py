"""The reference of the formulas is generated, complete, and has no unexplained difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusion import formulas
from fusion.audit import document

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def catalogue():
    return formulas.load(ROOT / "formulas" / "fusion_metrics_formulas.yaml")


@pytest.fixture(scope="module")
def verdicts():
    return json.loads((ROOT / "docs" / "verdicts.json").read_text())


def test_document_is_what_the_formulas_and_verdicts_give(catalogue, verdicts):
    """docs/formulas.md is up to date; `inv audit --document` makes it."""
    assert (ROOT / "docs" / "formulas.md").read_text() == document.render(catalogue, verdicts)


def test_every_enabled_formula_is_exact_or_explained(catalogue, verdicts):
    """A formula that differs from what its kernel touches says why."""
    for formula in catalogue.formulas.values():
        if formula.enabled:
            verdict = verdicts["operators"][formula.operator]
            assert verdict["kind"] == "exact" or formula.explanation, formula.operator


def test_forty_operators_and_more_are_proven_by_running(verdicts):
    """The proof is of many operators, all on one revision."""
    exact = [name for name, told in verdicts["operators"].items() if told["kind"] == "exact"]
    assert len(exact) >= 40
    assert verdicts["revision"] == "ed2508bcb5a0"


def test_every_formula_names_its_kernel_and_reasoning(catalogue):
    """Each entry has a source and a reference."""
    for formula in catalogue.formulas.values():
        assert formula.source, formula.operator
        assert formula.reference, formula.operator
