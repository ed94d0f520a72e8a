"""The reference of the formulas is generated, complete, and has no unexplained difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusion.audit import document
from fusion.formulas.catalogue import Catalogue
from fusion.formulas.markdown import written

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue.load(ROOT / "formulas" / "fusion_metrics_formulas.yaml")


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


def test_counts_tell_apart_what_is_exact_explained_unexplained_and_not_run(catalogue, verdicts):
    """The head never calls a difference explained that is not, nor an operator run that was not."""
    names = [name for name, each in catalogue.formulas.items() if each.enabled]
    unexplained = next(name for name in names if not catalogue.formulas[name].explanation)
    other, absent = [name for name in names if name != unexplained][:2]
    operators = {name: dict(told) for name, told in verdicts["operators"].items()}
    operators[unexplained]["kind"] = "differs"
    operators[other]["kind"] = "could not run"
    del operators[absent]
    text = document.render(catalogue, {**verdicts, "operators": operators})
    assert "1 with a difference that none explains, 1 that could not run, 1 not run." in text


def test_counts_are_those_of_the_verdicts(catalogue, verdicts):
    """The head counts all operators, the enabled, the exact and the explained."""
    enabled = [name for name, each in catalogue.formulas.items() if each.enabled]
    exact = sum(verdicts["operators"][name]["kind"] == "exact" for name in enabled)
    assert (
        f"{len(catalogue.formulas)} operators, {len(enabled)} enabled; {exact} exact, "
        f"{len(enabled) - exact} with a difference that their entry explains."
    ) in document.render(catalogue, verdicts)


def test_entry_holds_formula_category_aliases_reason_and_verdict(catalogue, verdicts):
    """An operator's section says everything that its entry says, and how the audit found it."""
    text = document.render(catalogue, verdicts)
    for formula in catalogue.formulas.values():
        section = text.split(f"## {formula.operator}\n", 1)[1].split("\n## ", 1)[0]
        told = [formula.category, written(formula.expression), formula.reference, *formula.aliases]
        told += [formula.explanation, formula.exclude_reason]
        assert [each for each in told if each and each not in section] == [], formula.operator
        assert "\nAudit: " in section


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
