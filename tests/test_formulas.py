"""The catalogue is checked when it is loaded, and binds a benchmark's arguments."""

from __future__ import annotations

import numpy as np
import pytest

from fusion.errors import Refusal
from fusion.formulas.catalogue import Catalogue, FormulaError, UnknownOperator

ENTRY = """version: 1
formulas:
  op:
    category: memory
    metric: logical_bytes
    inputs: {x: {position: 0}}
    expression: nbytes(x)
"""


def load(tmp_path, text):
    path = tmp_path / "formulas.yaml"
    path.write_text(text)
    return Catalogue.load(path)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("version: 1", "version: 2", "version: expected 1, found 2"),
        ("memory", "io", "op.category: expected memory or compute, found 'io'"),
        ("logical_bytes", "logical_flops", "exactly one metric, logical_bytes"),
        ("logical_bytes", "[logical_bytes, logical_flops]", "exactly one metric"),
        ("    metric", "    metric: logical_flops\n    metric", "duplicate key 'metric'"),
        ("category", "categorie", "unknown key 'categorie' (did you mean category?)"),
        ("{position: 0}", "{position: -1}", "op.inputs.x.position: expected 0 or more"),
        ("{position: 0}", "{place: 0}", "unknown key 'place'"),
        ("{position: 0}", "{}", "expected a position, a keyword or a default"),
        ("{x: {position: 0}}", "[x]", "op.inputs: expected a mapping"),
        ("nbytes(x)", "nbytes(x", "op.expression: column"),
        ("nbytes(x)", "nbites(x)", "unknown function 'nbites' (did you mean nbytes?)"),
        ("nbytes(x)", "nbytes(y)", "unknown name 'y'"),
        ("nbytes(x)", "x.nbytes", "an attribute is not part of the language"),
        ("nbytes(x)", "x.item()", "only functions of the vocabulary can be called"),
        ("nbytes(x)", "open('f')", "unknown function 'open'"),
        ("nbytes(x)", "'[].append(1)'", "only functions of the vocabulary"),
        ("nbytes(x)", "2 ** 9", "this operator is not part of the language"),
        ("nbytes(x)", "'(lambda: 1)()'", "only functions of the vocabulary"),
        ("nbytes(x)", "'[i for i in x]'", "a comprehension is not part"),
        ("nbytes(x)", '""', "an expression's text"),
        ("nbytes(x)", "nbytes(x)\n    enabled: false", "expected an exclude_reason"),
        ("nbytes(x)", "nbytes(x)\n    enabled: maybe", "op.enabled: expected true or false"),
        ("nbytes(x)", "nbytes(x)\n    aliases: [op]", "'op' already names op"),
        ("nbytes(x)", "nbytes(x)\n    aliases: op2", "op.aliases: expected a list of names"),
        ("nbytes(x)", "nbytes(x)\n    dtype: float33", "op.dtype: expected"),
    ],
)
def test_wrong_entry_is_refused_with_file_operator_and_reason(tmp_path, old, new, told):
    """Each error names the file and the entry, and says what was expected and found."""
    with pytest.raises(Refusal) as refusal:
        load(tmp_path, ENTRY.replace(old, new, 1))
    assert str(refusal.value).startswith(str(tmp_path / "formulas.yaml"))
    assert told in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "version: 1\n", "version: 1\nformulas: {}\n"])
def test_file_without_formulas_is_refused(tmp_path, text):
    """An empty file is no catalogue."""
    with pytest.raises(FormulaError, match="expected"):
        load(tmp_path, text)


def test_aliases_clash_across_operators(tmp_path):
    """A name belongs to one operator."""
    second = ENTRY.split("formulas:\n")[1].replace("op:", "other:")
    with pytest.raises(FormulaError, match="'other' already names other"):
        load(tmp_path, ENTRY + "    aliases: [other]\n" + second)


def test_operator_is_found_by_any_of_its_names(tmp_path):
    """An alias leads to the operator; an unknown name is answered with the nearest."""
    catalogue = load(tmp_path, ENTRY + "    aliases: [another]\n")
    assert catalogue.resolve("another").operator == "op"
    assert catalogue.find("nothing") is None
    with pytest.raises(UnknownOperator, match="did you mean another"):
        catalogue.resolve("anothr")


def test_keyword_comes_before_position_and_default_last(tmp_path):
    """An input is taken by keyword, else by position, else it has its default."""
    place = "{position: 1, keyword: n, default: 7}"
    text = ENTRY.replace("{x: {position: 0}}", f"{{n: {place}}}").replace("nbytes(x)", "n")
    formula = load(tmp_path, text).resolve("op")
    assert formula.value((0, 5), {"n": 6}) == 6
    assert formula.value((0, 5), {}) == 5
    assert formula.value((), {}) == 7


def test_missing_argument_names_operator_and_place(tmp_path):
    """A call that lacks an argument is an error that says where it was looked for."""
    formula = load(tmp_path, ENTRY).resolve("op")
    with pytest.raises(FormulaError, match="op: expected input 'x' at position 0"):
        formula.value((), {})


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("1 - nbytes(x)", "expected a non-negative integer"),
        ("nbytes(x) / 3", "expected a non-negative integer, found 32/3"),
        ("numel(x) == 8", "expected a non-negative integer, found True"),
        ("'text'", "expected a non-negative integer, found 'text'"),
        ("nbytes(x) / 0", "nbytes(x) / 0: ZeroDivisionError"),
        ("None + 1", "None + 1: TypeError"),
        ("dim(x, 5)", "expected a dimension 5, found the shape [2, 4]"),
        ("dim(x)", "dim(x): TypeError"),
        ("tensor_sum(x) + x", "TypeError"),
    ],
)
def test_value_that_is_no_count_is_an_error(tmp_path, expression, told):
    """A value is an exact non-negative integer, or says which part of the formula is not."""
    formula = load(tmp_path, ENTRY.replace("nbytes(x)", f'"{expression}"')).resolve("op")
    with pytest.raises(FormulaError) as error:
        formula.value((np.zeros((2, 4), np.float32),), {})
    assert str(error.value).startswith("op: ")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("nbytes(x)", 32),
        ("numel(x) * 9007199254740993 * 9007199254740993", 8 * 9007199254740993**2),
        ("numel(x) / 3 * 3", 8),
        ("numel(x) * 0.125", 1),
        ("numel(x) * 0.1 * 10", 8),
        ("7 // 2 + 7 % 4", 6),
        ("-2 + +3", 1),
        ("dim(x, -1) if dim(x, 0) > 1 and not False else 0", 4),
        ("[5, 6][1]", 6),
        ("1 if x is not None and 2 in (1, 2) else 0", 1),
        ("(dim(x, 0) or 9) + (0 or 3)", 5),
        ("shape_numel([2, 3, 4])", 24),
        ("output_nbytes_like(x, 3)", 12),
    ],
)
def test_arithmetic_is_exact(tmp_path, expression, value):
    """Integers and fractions are never rounded."""
    formula = load(tmp_path, ENTRY.replace("nbytes(x)", f'"{expression}"')).resolve("op")
    assert formula.value((np.zeros((2, 4), np.float32),), {}) == value


def test_version_1_functions_load_and_evaluate(tmp_path):
    """The functions of existing version-1 files keep their names, arguments and values."""
    ones = np.ones((1, 3), np.int32)
    expressions = {
        "dim(x, 1)": 3,
        "numel(x)": 3,
        "nbytes(x)": 12,
        "shape_numel(x)": 3,
        "tensor_sum(x)": 3,
        "count_nonzero(x)": 3,
        "output_nbytes_like(x, 2)": 8,
        "attention_pair_count(2, 3, True, -1, -1)": 5,
        "varlen_attention_flops(q, [0, 2, 3], [2, 4], True, None)": 4 * 2 * 8 * (3 + 4),
        "varlen_attention_flops(q, [0, 3], [3], False, (1, 0))": 4 * 2 * 8 * 5,
        "sparse_mla_flops(q, i, 4)": 2 * 3 * 2 * (8 + 4),
        "flash_mla_flops(1280, 2, 1, 4, 576, 512)": 2 * 4 * (1024 + 1026) * (576 + 512),
        "expected_nnz(x, 0.0) * 2": 3,
    }
    query, indices = np.zeros((3, 2, 8), np.float16), np.array([[[0, 1, 2, -1]]])
    places = "{x: {position: 0}, q: {position: 1}, i: {position: 2}}"
    for expression, value in expressions.items():
        text = ENTRY.replace("{x: {position: 0}}", places)
        formula = load(tmp_path, text.replace("nbytes(x)", f'"{expression}"')).resolve("op")
        assert formula.value((ones, query, indices), {}) == value, expression
