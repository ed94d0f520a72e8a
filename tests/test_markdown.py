"""Formulas are written in PyTorch's terms, in a table that never breaks."""

from __future__ import annotations

import builtins
import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.formulas import markdown
from fusion.formulas.catalogue import Catalogue
from fusion.formulas.expression import parse

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
    lines = markdown.render(Catalogue.load(OWN)).splitlines()
    assert lines[0] == "| Product function | Category | Formula | Status |"
    for line in lines:
        assert len(re.split(r"(?<!\\)\|", line)) == 6, line
    assert len(lines) == 2 + len(Catalogue.load(OWN).formulas)


def test_status_tells_why_a_formula_is_disabled(tmp_path):
    """A disabled formula has its reason in the table, pipes escaped."""
    path = tmp_path / "formulas.yaml"
    path.write_text(
        "version: 1\nformulas:\n  op:\n    category: memory\n    metric: logical_bytes\n"
        "    inputs: {}\n    expression: 1\n    enabled: false\n    exclude_reason: a | b\n"
    )
    assert r"| disabled: a \| b |" in markdown.render(Catalogue.load(path))


class Tensor:
    """What the written forms take a tensor for: PyTorch's names, on a NumPy array."""

    def __init__(self, array):
        self.array = np.asarray(array)
        self.shape, self.dtype, self.ndim = self.array.shape, self.array.dtype, self.array.ndim

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def count_nonzero(self):
        return np.count_nonzero(self.array)

    def unique(self):
        return Tensor(np.unique(self.array))

    def sum(self):
        return int(self.array.sum())

    def reshape(self, *shape):
        return self.array.reshape(*shape)

    def item(self):
        return self.array.item()

    def tolist(self):
        return self.array.tolist()

    def __getitem__(self, index):
        found = self.array[getattr(index, "array", index)]
        return Tensor(found) if found.ndim else found.item()

    def __iter__(self):
        return iter(self.tolist())

    def __ge__(self, other):
        return Tensor(self.array >= other)

    def __eq__(self, other):
        return Tensor(self.array == other)

    def __ne__(self, other):
        return Tensor(self.array != other)

    __hash__ = None


def flat(values):
    return [int(value) for value in np.asarray(getattr(values, "array", values)).reshape(-1)]


def broadcast(queries, keys):
    queries, keys = flat(queries), flat(keys)
    return zip(queries * len(keys) if len(queries) == 1 else queries, keys, strict=True)


# The words of the document that are neither Python nor PyTorch.
WORDS = {
    "product": lambda shape: math.prod(getattr(shape, "shape", shape)),
    "diff": lambda ends: [b - a for a, b in itertools.pairwise(flat(ends))],
    "ceil": lambda value: math.ceil(value),
    "counts": lambda values: Counter(flat(values)).values(),
    "broadcast": broadcast,
    "rows": lambda *lengths: [(i, *each) for i, each in enumerate(zip(*map(flat, lengths)))],
    "sum": lambda values: sum(flat(values) if isinstance(values, (Tensor, list)) else values),
}
VALUES = {
    "x": Tensor(np.arange(12, dtype=np.float16).reshape(3, 4)),
    "y": Tensor(np.zeros((3, 5), np.float32)),
    "i": Tensor([[0, 1, -1], [2, 2, 5]]),
    "q": Tensor(np.zeros((6, 4, 8), np.float16)),
    "t": Tensor([[0, 1, 2, 3], [4, 5, 1, 7]]),
    "k": Tensor([5, 7]),
    "starts": Tensor([0, 2, 6]),
    "indices": Tensor([[[0, 1, 2, -1]], [[3, -1, -1, -1]]]),
    "n": 3,
    "m": 7,
    "yes": True,
}


@pytest.mark.parametrize(
    "text",
    [
        "numel(x if yes else y)",
        "nbytes(y if not yes else x) + 1",
        "2 * nbytes(x) // 3",
        "100 % nbytes(x)",
        "element_size(x) * 2",
        "dim(x if yes else y, n - 4)",
        "dim(x, 0 if yes else 1)",
        "ndim(x)",
        "shape_numel([n + 1, m])",
        "shape_numel(x)",
        "tensor_sum(k)",
        "count_nonzero(x if yes else y)",
        "count_at_least(x, n + 1)",
        "count_at_least(x if yes else i, n)",
        "count_at_least(i, 0 if yes else 2)",
        "count_equal(i, 5 if not yes else 2)",
        "count_equal(i if yes else x, 2)",
        "distinct(i)",
        "distinct_at_least(i, 0)",
        "distinct_at_least(i if yes else x, 0 if yes else 1)",
        "group_blocks(i, n - 1)",
        "differences(starts)[1]",
        "min_of(n, m)",
        "max_of(n + m, 2)",
        "ceil_div(n + m, n)",
        "ceil_div(m, n - 1) * 2",
        "ceil_div(m // 2, n * 1)",
        "100 // ceil_div(m, n)",
        "output_nbytes_like(x, n + 1)",
        "output_nbytes_like(x if yes else y, n if yes else 1)",
        "100 // output_nbytes_like(x, n)",
        "expected_nnz(x, 0.5) * 2",
        "expected_nnz(x, 0.5 - 0.25) * 2",
        "30 / expected_nnz(x, 0.5)",
        "attention_pairs(differences(starts), k, yes)",
        "attention_pairs([n], k, False, 2, 1)",
        "varlen_attention_flops(q, starts, k, yes, (-1, -1))",
        "varlen_attention_flops(q, starts, k, not yes, (n - 1, 0))",
        "sparse_mla_flops(q, indices, n + 1)",
        "flash_mla_flops(256 + m, n, 1 + n, 2, 5, n)",
        "row(starts, 1)[0] if False else 1",
        "paged_rows(t, k, 2)",
        "paged_entries(t, k, n - 1)",
        "paged_entries(t, k, 2, k)",
        "compressed_keys(starts, k, n - 1, m if yes else 0)",
        "distinct_pairs(i)",
        "distinct_pairs(i, n - 1)",
        "distinct_pairs(i, 2, k)",
        "count_leading(i)",
        "count_leading(i if yes else x)",
        "n if 1 < n < 5 and not m == 3 else 0",
        "1 if (yes or False) and n in [1, 3] else 0",
        "(1 if yes else 2) + 3",
        "(m if yes else n) * 2 - (n if not yes else 1)",
        "m - (n - 1) - -1",
        "m * (n / 2) * 2",
        "(0 if yes else 1) or 4",
        "5 if (1 if yes else 0) == 1 else 6",
    ],
)
def test_written_form_means_what_is_computed(text):
    """Read as Python with PyTorch's names, what the document says has the formula's value."""
    written = markdown.written(parse(text, VALUES))
    read = eval(written, {"__builtins__": builtins, **VALUES, **WORDS})
    assert read == parse(text, VALUES).evaluate(VALUES), written


SIDES = st.sampled_from(["-1", "left", "left - 2"])


@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from(["True", "False", "causal", "causal == 1", "True if causal else False"]),
    st.booleans(),
    SIDES,
    st.sampled_from(["-1", "right", "0 if causal else right"]),
    st.integers(-1, 7),
    st.integers(-1, 7),
)
def test_written_pairs_are_those_that_are_counted(
    queries, keys, mask, causal, before, after, left, right
):
    """The sum in the document counts the pairs that the function counts."""
    values = {"q": queries, "k": keys, "causal": causal, "left": left, "right": right}
    text = f"attention_pair_count(q, k if 1 else 0, {mask}, {before}, {after})"
    written = markdown.written(parse(text, values))
    assert eval(written, values) == parse(text, values).evaluate(values), written
