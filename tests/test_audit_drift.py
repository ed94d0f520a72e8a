"""Another revision is compared with the formulas from its text."""

from __future__ import annotations

import pytest

from fusion.audit import drift
from fusion.audit.drift import Change, DriftError
from fusion.formulas.catalogue import Catalogue

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
    return Catalogue.load(path)


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
    told = "exported without a formula; no benchmark has its name"
    assert drift.drift(catalogue, checkout) == (Change("new", "third", told),)


def test_new_export_is_told_with_its_benchmark(catalogue, checkout):
    """A new operator that has a benchmark is worth a formula, and the file is named."""
    rewrite(checkout, "src/flag_gems/fused/__init__.py", '__all__ = []\n__all__ += ["third"]\n')
    rewrite(checkout, "benchmark/test_third.py", "@pytest.mark.third\ndef test_it():\n    pass\n")
    (change,) = drift.drift(catalogue, checkout)
    assert change.told == "exported without a formula; its benchmark is benchmark/test_third.py"


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


def test_lost_parameter_may_be_among_keywords_that_are_not_named(catalogue, checkout):
    """A function that takes any keyword may still take the input; nothing is claimed."""
    rewrite(checkout, "src/flag_gems/fused/first.py", "def first(*args, **kwargs):\n    pass\n")
    assert drift.drift(catalogue, checkout) == ()


def test_shifted_parameter_is_told_with_both_positions(catalogue, checkout):
    """A parameter put before the input makes the formula bind another argument."""
    rewrite(checkout, "src/flag_gems/fused/first.py", FIRST.replace("x,", "out, x,"))
    (change,) = drift.drift(catalogue, checkout)
    assert change == Change("arguments", "first", "x at 1, expected at 0")


def test_operator_whose_benchmark_has_only_an_alias_is_renamed(catalogue, checkout):
    """A benchmark that is found by an alias alone is told by that name."""
    (checkout / "benchmark/test_first.py").unlink()
    text = "@pytest.mark.first_too\ndef test_it():\n    pass\n"
    rewrite(checkout, "benchmark/test_other.py", text)
    (change,) = drift.drift(catalogue, checkout)
    assert change == Change("renamed", "first", "its benchmark is found as first_too")


@pytest.mark.parametrize(
    "name, is_known", [("first", True), ("first_too", True), ("primal", False)]
)
def test_name_in_the_record_is_one_of_the_formula(catalogue, checkout, name, is_known):
    """A benchmark that records its calls by a name that the formula lacks is told."""
    text = f'@pytest.mark.first\ndef test_first():\n    run(op_name="{name}")\n'
    rewrite(checkout, "benchmark/test_first.py", text)
    told = [] if is_known else [Change("renamed", "first", f"its benchmark records it as {name}")]
    assert list(drift.drift(catalogue, checkout)) == told


def test_names_in_a_file_of_several_operators_are_not_judged(catalogue, checkout):
    """Where a file has other operators too, a name in it may be theirs; nothing is claimed."""
    text = '@pytest.mark.first\ndef test_first():\n    run(op_name="other")\n\n\n'
    text += "@pytest.mark.skipif(True)\n@pytest.mark.other\ndef test_other():\n    pass\n"
    rewrite(checkout, "benchmark/test_first.py", text)
    assert drift.drift(catalogue, checkout) == ()


def test_moved_kernel_is_followed_by_the_import(catalogue, checkout):
    """A kernel that moved is told with its new file, and its parameters are compared there."""
    (checkout / "src/flag_gems/fused/first.py").unlink()
    text = 'from flag_gems.fused.moved import first\n__all__ = ["first", "second"]\n'
    rewrite(checkout, "src/flag_gems/fused/__init__.py", text)
    rewrite(checkout, "src/flag_gems/fused/moved.py", "def first(y):\n    pass\n")
    renamed, arguments = drift.drift(catalogue, checkout)
    assert renamed.told.endswith("; now in src/flag_gems/fused/moved.py")
    assert arguments == Change("arguments", "first", "x not among y")


def test_exports_that_are_no_python_are_refused(catalogue, checkout):
    """A checkout whose exports cannot be read is refused by the file's name."""
    rewrite(checkout, "src/flag_gems/fused/__init__.py", "__all__ = [\n")
    with pytest.raises(DriftError, match=r"fused/__init__\.py"):
        drift.drift(catalogue, checkout)


def test_known_difference_stays_known_when_another_parameter_comes(catalogue, checkout):
    """What a formula never found is not told again because its surroundings changed."""
    rewrite(checkout, "src/flag_gems/fused/first.py", FIRST.replace("x,", "input,"))
    known = drift.drift(catalogue, checkout)
    rewrite(checkout, "src/flag_gems/fused/first.py", FIRST.replace("x,", "input, out,"))
    assert drift.drift(catalogue, checkout, known) == ()


def test_known_differences_are_not_told_again(catalogue, checkout):
    """What differs in the checkout in use as well is no drift."""
    rewrite(checkout, "src/flag_gems/fused/first.py", FIRST.replace("x,", "input,"))
    known = drift.drift(catalogue, checkout)
    assert drift.drift(catalogue, checkout, known) == ()
