"""The functions of formulas count exactly, whoever made the tensors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.formulas.recorded import RecordedTensor
from fusion.formulas.tensors import EvaluationError, dtype_size
from fusion.formulas.vocabulary import FUNCTIONS


def value(name, *args):
    return FUNCTIONS[name].value(*args)


@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
    st.integers(-1, 11),
    st.integers(-1, 11),
)
def test_attention_pairs_are_those_that_the_mask_leaves(queries, keys, causal, left, right):
    """The closed form counts what a right-aligned mask leaves, pair by pair."""
    kept = 0
    for query in range(queries):
        diagonal = query + keys - queries
        for key in range(keys):
            future = causal and key > diagonal
            before = left >= 0 and key < diagonal - left
            after = right >= 0 and not causal and key > diagonal + right
            kept += not (future or before or after)
    assert value("attention_pair_count", queries, keys, causal, left, right) == kept


def test_long_sequences_are_counted_without_a_loop():
    """A sequence of 2^40 tokens has its pairs at once."""
    length = 1 << 40
    pairs = value("attention_pair_count", length, length, True, -1, -1)
    assert pairs == length * (length + 1) // 2


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("float32", 4),
        ("torch.bfloat16", 2),
        (np.dtype("int64"), 8),
        (np.float16, 2),
        ("torch.float8_e4m3fn", 1),
        ("bool", 1),
        ("complex64", 8),
        ("uint16", 2),
    ],
)
def test_element_sizes(dtype, size):
    """A dtype of PyTorch, NumPy or a recording has its size in bytes."""
    assert dtype_size(dtype) == size


def test_unknown_dtype_is_an_error():
    """No size is guessed."""
    with pytest.raises(EvaluationError, match="float33"):
        dtype_size("float33")


def test_recorded_aggregates_answer_what_they_can():
    """A recording without values answers from its aggregates, and says when it cannot."""
    recorded = RecordedTensor((4096,), "int32", {"min": 0, "max": 9, "sum": 12, "nonneg": 4096})
    assert value("numel", recorded) == 4096
    assert value("tensor_sum", recorded) == 12
    assert value("count_at_least", recorded, 0) == 4096
    with pytest.raises(EvaluationError, match="whose values were recorded"):
        value("distinct", recorded)


def test_recorded_values_are_the_same_as_an_array():
    """A recording with values counts as the array would."""
    values = [[3, -1, 3], [0, 7, -1]]
    recorded = RecordedTensor((2, 3), "int64", {"values": values})
    for name, args in [
        ("distinct", ()),
        ("distinct_at_least", (0,)),
        ("count_at_least", (0,)),
        ("count_equal", (3,)),
        ("tensor_sum", ()),
        ("count_nonzero", ()),
        ("max_of", ()),
        ("nbytes", ()),
    ]:
        assert value(name, recorded, *args) == value(name, np.array(values), *args), name


def test_one_element_tensors_are_numbers():
    """A scalar held in a tensor counts as the number it holds."""
    assert value("ceil_div", np.array(7), np.array([2])) == 4
    assert value("attention_pair_count", np.array([2]), 2, np.array(True), -1, -1) == 3


def test_every_function_is_documented():
    """Meaning and written form stand beside the value."""
    for name, function in FUNCTIONS.items():
        assert function.meaning, name
        assert callable(function.written), name
