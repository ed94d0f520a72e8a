"""Write the formulas as Markdown, in the operators' own argument names."""

from __future__ import annotations

import ast

from fusion.formulas.catalogue import Catalogue, Formula
from fusion.formulas.expression import ARITHMETIC, COMPARISONS, Expression
from fusion.formulas.notation import ATOM, PRODUCT, SUM, Written
from fusion.formulas.vocabulary import FUNCTIONS

_HEADINGS = ("Product function", "Category", "Formula", "Status")
# Comparisons, logic and conditionals bind looser than a sum.
_LOOSE = 0


def render(catalogue: Catalogue) -> str:
    """Return one table: product function, category, formula, status."""
    lines = [_line(_HEADINGS), _line(("---",) * len(_HEADINGS))]
    lines += [_line(_cells(formula)) for formula in catalogue.formulas.values()]
    return "\n".join(lines) + "\n"


def written(expression: Expression) -> str:
    """Write an expression with its helpers written out in PyTorch's terms."""
    return _written(expression.tree).text


def _cells(formula: Formula) -> tuple[str, str, str, str]:
    status = "enabled" if formula.enabled else f"disabled: {formula.exclude_reason}"
    return (
        formula.operator,
        formula.category,
        f"`{_escaped(written(formula.expression))}`",
        _escaped(status),
    )


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _written(node: ast.expr) -> Written:
    writer = _WRITERS[type(node)]
    return writer(node)  # type: ignore[no-any-return, operator]


def _constant(node: ast.Constant) -> Written:
    return Written(repr(node.value))


def _name(node: ast.Name) -> Written:
    return Written(node.id)


def _sequence(node: ast.List | ast.Tuple) -> Written:
    return Written("[" + ", ".join(_written(item).text for item in node.elts) + "]")


def _unary(node: ast.UnaryOp) -> Written:
    operand = _written(node.operand)
    if isinstance(node.op, ast.Not):
        return Written(f"not {operand.term}", _LOOSE)
    sign = "-" if isinstance(node.op, ast.USub) else "+"
    is_number = isinstance(node.operand, ast.Constant)
    return Written(f"{sign}{operand.atom}", ATOM if is_number else SUM)


def _binary(node: ast.BinOp) -> Written:
    symbol = ARITHMETIC[type(node.op)][0]
    left, right = _written(node.left), _written(node.right)
    if symbol in "+-":
        # What follows a minus keeps its parentheses when it is a sum itself.
        after = right.factor if symbol == "-" else right.term
        return Written(f"{left.term} {symbol} {after}", SUM)
    # A product may follow a product; behind the other operators only an atom may.
    after = right.factor if symbol == "*" and not _divides(node.right) else right.atom
    return Written(f"{left.factor} {symbol} {after}", PRODUCT)


def _divides(node: ast.expr) -> bool:
    """Tell whether a product divides somewhere, so that its grouping matters."""
    if not isinstance(node, ast.BinOp):
        return False
    if isinstance(node.op, ast.Mult):
        return _divides(node.left) or _divides(node.right)
    return isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod))


def _logic(node: ast.BoolOp) -> Written:
    word = " and " if isinstance(node.op, ast.And) else " or "
    return Written(word.join(_nested(value) for value in node.values), _LOOSE)


def _nested(node: ast.expr) -> str:
    text = _written(node).text
    return f"({text})" if isinstance(node, (ast.BoolOp, ast.IfExp)) else text


def _comparison(node: ast.Compare) -> Written:
    parts = [_written(node.left).term]
    for op, operand in zip(node.ops, node.comparators):
        parts += [COMPARISONS[type(op)][0], _written(operand).term]
    return Written(" ".join(parts), _LOOSE)


def _conditional(node: ast.IfExp) -> Written:
    test = _nested(node.test)
    body, other = _written(node.body), _written(node.orelse)
    return Written(f"{body.term} if {test} else {other.term}", _LOOSE)


def _subscript(node: ast.Subscript) -> Written:
    return Written(f"{_written(node.value).atom}[{_written(node.slice).text}]")


def _function(node: ast.Call) -> Written:
    assert isinstance(node.func, ast.Name)
    arguments = [_written(argument) for argument in node.args]
    keywords = {str(item.arg): _written(item.value) for item in node.keywords}
    return FUNCTIONS[node.func.id].written(*arguments, **keywords)


_WRITERS = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _logic,
    ast.Compare: _comparison,
    ast.IfExp: _conditional,
    ast.Subscript: _subscript,
    ast.Call: _function,
}
