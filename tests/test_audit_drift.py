"""Another revision is compared with the formulas from its text."""

from __future__ import annotations

import pytest

from fusion import formulas
from fusion.audit import drift
from fusion.audit.drift import Change

FORMULAS = """
version: 1
formulas:
  first: &entry
    category: memory
    metric: logical_bytes
    inputs: {x: {position: 0}}
    expression: nbytes(x)
    aliases: [first_too]
    source: src/flag_gems/fused/first.py
    reference: "-"
  second:
    <<: *entry
    aliases: []
    source: src/flag_gems/fused/second.py
"""
FIRST = "def first(x, *, scale=1.0) -> int:\n    pass\n"


@pytest.fixture
def catalogue(tmp_path):
    path = tmp_path / "formulas.yaml"
    path.write_text(FORMULAS)
    return formulas.load(path)


@pytest.fixture
def checkout(tmp_path):
    files = {
        "src/flag_gems/fused/__init__.py": '__all__ = ["first", "second"]\n',
        "src/flag_gems/fused/first.py": FIRST,
        "src/flag_gems/fused/second.py": "def second(\n    x,\n    y=(1, 2),\n):\n    pass\n",
        "benchmark/test_first.py": "@pytest.mark.first\ndef test_first():\n    pass\n",
        "benchmark/test_second.py": "@pytest.mark.second\ndef test_second():\n    pass\n",
    }
    for name, text in files.items():
        path = tmp_path / "FlagGems" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "FlagGems"


def rewrite(checkout, name, text):
    (checkout / name).write_text(text)


def test_the_known_revision_has_no_drift(catalogue, checkout):
    """A checkout in which everything is found is not told of."""
    assert drift.drift(catalogue, checkout) == ()
    assert drift.table(()).startswith("No difference")


def test_new_export_is_told(catalogue, checkout):
    """An export without a formula is new."""
    rewrite(checkout, "src/flag_gems/fused/__init__.py", '__all__ = ["first", "third"]\n')
    assert drift.drift(catalogue, checkout) == (
        Change("new", "third", "exported without a formula"),
    )


def test_operator_without_a_benchmark_is_gone(catalogue, checkout):
    """An operator whose benchmark was removed is gone, whatever became of its kernel."""
    (checkout / "benchmark/test_second.py").unlink()
    (checkout / "src/flag_gems/fused/second.py").unlink()
    (change,) = drift.drift(catalogue, checkout)
    assert (change.kind, change.operator) == ("gone", "second")


def test_moved_kernel_is_renamed(catalogue, checkout):
    """A kernel file that is elsewhere is told by its old path."""
    (checkout / "src/flag_gems/fused/first.py").unlink()
    (change,) = drift.drift(catalogue, checkout)
    assert (change.kind, change.operator) == ("renamed", "first")
    assert "first.py is no longer there" in change.told


def test_lost_parameter_is_told_with_those_that_are_left(catalogue, checkout):
    """An input that is no parameter any more does not bind."""
    rewrite(checkout, "src/flag_gems/fused/first.py", FIRST.replace("x,", "input,"))
    (change,) = drift.drift(catalogue, checkout)
    assert change == Change("arguments", "first", "x not among input, scale")


def test_known_differences_are_not_told_again(catalogue, checkout):
    """What differs in the checkout in use as well is no drift."""
    rewrite(checkout, "src/flag_gems/fused/first.py", FIRST.replace("x,", "input,"))
    known = drift.drift(catalogue, checkout)
    assert drift.drift(catalogue, checkout, known) == ()
