"""Formulas are written in PyTorch's terms, in a table that never breaks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import formulas, markdown
from fusion.expression import parse

OWN = Path(__file__).parent.parent / "formulas" / "fusion_metrics_formulas.yaml"


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        ("nbytes(x)", "x.numel() * x.element_size()"),
        ("numel(x)", "x.numel()"),
        ("dim(x, -1)", "x.shape[-1]"),
        ("shape_numel(s)", "product(s)"),
        ("tensor_sum(s)", "sum(s)"),
        ("count_nonzero(x)", "x.count_nonzero()"),
        ("output_nbytes_like(x, 3 + n)", "(3 + n) * x.element_size()"),
        ("2 * (nbytes(x) + 1)", "2 * (x.numel() * x.element_size() + 1)"),
        ("(numel(x) + 1) * 2 - (n - 1)", "(x.numel() + 1) * 2 - (n - 1)"),
        ("n // 2 * 3", "n // 2 * 3"),
        ("3 * (n // 2)", "3 * (n // 2)"),
        ("n / (2 * 3)", "n / (2 * 3)"),
        ("1 if x is None else n", "1 if x is None else n"),
        ("2 * (1 if n else 3)", "2 * (1 if n else 3)"),
    ],
)
def test_helpers_are_written_out_with_the_parentheses_that_are_needed(expression, written):
    """A helper becomes what it stands for, and no parentheses are lost or added."""
    assert markdown.written(parse(expression, ["x", "s", "n"])) == written


NUMBERS = st.integers(1, 9).map(str)
TERMS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=8,
)


@given(TERMS)
def test_written_arithmetic_has_the_same_value(expression):
    """Dropping superfluous parentheses never changes what is computed."""
    try:
        wanted = eval(expression)
    except ZeroDivisionError:
        return
    assert eval(markdown.written(parse(expression, []))) == wanted


def test_table_has_four_columns_in_every_line():
    """No formula or reason breaks the table."""
    lines = markdown.render(formulas.load(OWN)).splitlines()
    assert lines[0] == "| Product function | Category | Formula | Status |"
    for line in lines:
        assert len(re.split(r"(?<!\\)\|", line)) == 6, line
    assert len(lines) == 2 + len(formulas.load(OWN).formulas)


def test_status_tells_why_a_formula_is_disabled(tmp_path):
    """A disabled formula has its reason in the table, pipes escaped."""
    path = tmp_path / "formulas.yaml"
    path.write_text(
        "version: 1\nformulas:\n  op:\n    category: memory\n    metric: logical_bytes\n"
        "    inputs: {}\n    expression: 1\n    enabled: false\n    exclude_reason: a | b\n"
    )
    assert r"| disabled: a \| b |" in markdown.render(formulas.load(path))
