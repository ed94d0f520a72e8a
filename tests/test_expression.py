"""The language of formulas: what it takes, what it refuses, and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.formulas.expression import MAX_DEPTH, MAX_LENGTH, ExpressionError, parse
from fusion.formulas.tensors import EvaluationError


def value(text, **values):
    return parse(text, list(values)).evaluate(values)


@pytest.mark.parametrize(
    ("text", "column", "told"),
    [
        ("1 )", 3, "unmatched"),
        ("", 1, ""),
        ("1; 2", 2, "invalid syntax"),
        ("x = 1", 3, "invalid syntax"),
        ("1 + y", 5, "unknown name 'y'"),
        ("1 + xx", 5, "(did you mean x?)"),
        ("2 * nbites(x)", 5, "unknown function 'nbites' (did you mean nbytes?)"),
        ("__import__('os')", 1, "unknown function '__import__'"),
        ("nbytes", 1, "unknown name 'nbytes'"),
        ("x.shape", 1, "an attribute is not part of the language"),
        ("numel(x.data)", 7, "an attribute is not part of the language"),
        ("x.item()", 1, "only functions of the vocabulary can be called"),
        ("x()", 1, "unknown function 'x'"),
        ("numel(x)(1)", 1, "only functions of the vocabulary can be called"),
        ("[numel][0](x)", 1, "only functions of the vocabulary can be called"),
        ("numel(*x)", 7, "'*' is not part of the language"),
        ("numel(**x)", 1, "'**' is not part of the language"),
        ("lambda: 1", 1, "a lambda is not part of the language"),
        ("[i for i in x]", 1, "a comprehension is not part of the language"),
        ("numel(i for i in x)", 6, "a comprehension is not part of the language"),
        ("{1: 2}", 1, "a dictionary is not part of the language"),
        ("{1, 2}", 1, "a set is not part of the language"),
        ("f'{x}'", 1, "an f-string is not part of the language"),
        ("(y := 1)", 2, "':=' is not part of the language"),
        ("x[0:1]", 1, "a slice is not part of the language"),
        ("2 ** 9", 1, "this operator is not part of the language"),
        ("1 << 9", 1, "this operator is not part of the language"),
        ("x @ x", 1, "this operator is not part of the language"),
        ("~1", 1, "this operator is not part of the language"),
        ("b'a'", 1, "a constant such as b'a'"),
        ("2j", 1, "a constant such as 2j"),
        ("...", 1, "a constant such as Ellipsis"),
        ("1e999", 1, "expected a finite number"),
        ("await x", 1, ""),
    ],
)
def test_what_the_language_lacks_is_refused_with_its_column(text, column, told):
    """A text outside the language names the column and what is not part of it."""
    with pytest.raises(ExpressionError) as refusal:
        parse(text, ["x"])
    assert told in str(refusal.value)
    assert refusal.value.column == column
    assert str(refusal.value).startswith(f"column {column}: ")


def test_length_and_depth_are_bounded():
    """A text that is too long or nested too deep is refused, not a crash."""
    with pytest.raises(ExpressionError, match="characters"):
        parse("1+" * MAX_LENGTH + "1", [])
    with pytest.raises(ExpressionError, match="levels of nesting"):
        parse("-" * (MAX_DEPTH + 1) + "1", [])
    with pytest.raises(ExpressionError):
        parse("(" * 4000 + "1" + ")" * 4000, [])
    assert parse("-" * MAX_DEPTH + "1", []).evaluate({}) == 1


def test_names_are_those_that_are_used():
    """An expression knows which of its inputs it reads."""
    assert parse("numel(x) if flag else 0", ["x", "flag", "unused"]).names == {"x", "flag"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("9007199254740993 * 9007199254740993", 9007199254740993**2),
        ("(1 / 3 + 1 / 6) * 2", 1),
        ("7 / 2 * 2", 7),
        ("0.1 * 3 * 10", 3),
        ("0.1 + 0.2 == 0.3 and 5", 5),
        ("7 // 2", 3),
        ("-7 // 2 + 4", 0),
        ("7 / 2 // 1", 3),
        ("-7 % 4", 1),
        ("not 0 and 2", 2),
        ("0 or 3", 3),
        ("None or 4", 4),
        ("0 and 1 / 0", 0),
        ("1 if True else 1 / 0", 1),
        ("1 < 2 < 3 and 6", 6),
        ("1 if 1 < 2 > 3 else 7", 7),
        ("1 if 2 in [1, 2] else 0", 1),
        ("1 if 2 not in (1, 2) else 0", 0),
        ("1 if None is None else 0", 1),
        ("1 if 'a' != 'b' else 0", 1),
        ("[4, 5, 6][-1]", 6),
        ("(4, 5)[0]", 4),
        ("+3 - -4", 7),
        ("dim(x=[1], i=0)", None),
    ],
)
def test_values_are_exact(text, wanted):
    """Arithmetic, logic and indexing give the exact number, or say what they cannot."""
    if wanted is None:
        with pytest.raises(EvaluationError, match="TypeError"):
            value(text)
    else:
        assert value(text) == wanted
        assert type(value(text)) is int


PAIRS = st.tuples(st.integers(-(10**30), 10**30), st.integers(1, 10**20))


@given(PAIRS, PAIRS)
def test_arithmetic_is_that_of_fractions(left, right):
    """No operator loses a digit, whatever the size of its operands."""
    a, b = Fraction(*left), Fraction(*right)
    names = {"p": left[0], "q": left[1], "r": right[0], "s": right[1]}
    text = "1 if (p / q + r / s) * (p / q - r / s) == {} else 0"
    wanted = (a + b) * (a - b)
    assert value(text.format("n / d"), n=wanted.numerator, d=wanted.denominator, **names) == 1
    assert value(text.format("n / d + 1"), n=wanted.numerator, d=wanted.denominator, **names) == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-1", "expected a non-negative integer, found -1"),
        ("1 / 3", "found 1/3"),
        ("1 < 2", "found True"),
        ("'text'", "found 'text'"),
        ("None", "found None"),
        ("[1]", r"found \[1\]"),
        ("0.5", "found 1/2"),
        ("1 + 1 / 0", "1 / 0: ZeroDivisionError"),
        ("2 * ('a' + 1)", "'a' + 1: TypeError: expected a number, found 'a'"),
        ("'a' * 9", "expected a number"),
        ("[1, 2][2] + 1", r"\[1, 2\]\[2\]: IndexError"),
        ("1 if 1 < 'a' else 0", "1 < 'a': TypeError"),
    ],
)
def test_part_without_a_value_is_named(text, told):
    """An error says which part of the expression has no value, and why."""
    with pytest.raises(EvaluationError, match=told.replace("+", r"\+").replace("*", r"\*")):
        value(text)


@pytest.mark.parametrize("held", [np.array(7), np.array([7]), np.array([[7.0]]), np.int32(7)])
@pytest.mark.parametrize("text", ["n", "n * 1", "7 if n == 7 else 0", "n if n else 0", "+n"])
def test_tensor_of_one_element_is_the_number_it_holds(text, held):
    """A scalar that a benchmark keeps in a tensor counts as a number wherever it stands."""
    found = value(text, n=held)
    assert found == 7
    assert type(found) is int


def test_tensor_of_one_element_may_index_and_decide():
    """An index and a condition may be held in a tensor."""
    assert value("[4, 5][i]", i=np.array([1])) == 5
    assert value("1 if flag else 2", flag=np.array(False)) == 2
    assert value("not flag and 3", flag=np.array([0])) == 3


def test_larger_tensor_is_no_number():
    """A tensor of several elements in arithmetic is an error that describes it."""
    with pytest.raises(EvaluationError, match=r"a tensor of shape \[2\] and dtype float32"):
        value("1 + x", x=np.zeros(2, np.float32))


def test_evaluation_changes_nothing():
    """Evaluating twice gives the same, and leaves the values as they were."""
    expression = parse("nbytes(x) + numel(s)", ["x", "s"])
    values = {"x": np.ones((2, 3), np.float16), "s": [2, 5]}
    assert expression.evaluate(values) == expression.evaluate(values) == 22
    assert values["s"] == [2, 5]
