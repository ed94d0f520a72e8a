"""Check, evaluate and write out the small language of formulas.

Numbers, strings, None, True, False, lists, tuples, names of inputs, ``+ - * / // %``,
comparisons, ``and or not``, ``if-else``, indexing and calls of the vocabulary; nothing else. An
expression is checked when it is loaded and compiled once into nested functions. Arithmetic is
exact: a division of integers and a number with a decimal point become fractions, never floats.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Callable, Collection, Mapping

from fusion.errors import Refusal
from fusion.formulas.tensors import EvaluationError, short
from fusion.formulas.vocabulary import FUNCTIONS
from fusion.text import nearest

MAX_LENGTH, MAX_DEPTH = 10_000, 60
_Step = Callable[[Mapping[str, Any]], Any]


class ExpressionError(Refusal):
    """Refuse a text that is no expression of the language; ``column`` counts from 1."""

    def __init__(self, complaint: str, column: int) -> None:
        super().__init__(f"column {column}: {complaint}")
        self.column = column


def _divided(left: Any, right: Any) -> Any:
    result = Fraction(left) / Fraction(right)
    return result.numerator if result.denominator == 1 else result


ARITHMETIC: Mapping[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", _divided),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
COMPARISONS: Mapping[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda left, right: left in right),
    ast.NotIn: ("not in", lambda left, right: left not in right),
}
_UNARY: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("-", operator.neg),
    ast.UAdd: ("+", operator.pos),
    ast.Not: ("not ", operator.not_),
}


@dataclass(frozen=True)
class Expression:
    """Hold a checked expression: its text, its syntax tree and its compiled form."""

    text: str
    tree: ast.expr = field(repr=False, compare=False)
    names: frozenset[str]
    _step: _Step = field(repr=False, compare=False)

    def evaluate(self, values: Mapping[str, Any]) -> int:
        """Return the exact non-negative integer that the expression is; raise EvaluationError."""
        value = plain(self._step(values))
        if isinstance(value, (Fraction, float)) and value % 1 == 0:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise EvaluationError(
                f"{self.text}: expected a non-negative integer, found {_shown(value)}"
            )
        return value


def parse(text: str, names: Collection[str]) -> Expression:
    """Check a text that may use the inputs ``names``; raise ExpressionError with the column."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"expected at most {MAX_LENGTH} characters, found {len(text)}", 1)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        told = getattr(error, "msg", None) or type(error).__name__
        raise ExpressionError(f"{told} in {text!r}", getattr(error, "offset", None) or 1) from error
    compiler = _Compiler(text, frozenset(names))
    step = compiler.step(tree, 0)
    return Expression(text, tree, frozenset(compiler.used), step)


class _Compiler:
    """Turn a syntax tree into nested functions, refusing whatever the language lacks."""

    def __init__(self, text: str, names: frozenset[str]) -> None:
        self._text = text
        self._names = names
        self.used: set[str] = set()

    def step(self, node: ast.AST, depth: int) -> _Step:
        if depth > MAX_DEPTH:
            raise self._refusal(node, f"expected at most {MAX_DEPTH} levels of nesting")
        make = getattr(self, f"_{type(node).__name__}", None)
        if make is None:
            raise self._refusal(
                node, f"{_PLAIN.get(type(node), 'this')} is not part of the language"
            )
        step: _Step = make(node, depth + 1)
        return step

    def _Constant(self, node: ast.Constant, depth: int) -> _Step:
        value: Any = node.value
        if isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")):
                raise self._refusal(node, "expected a finite number")
            value = Fraction(str(value))
        elif not (value is None or isinstance(value, (bool, int, str))):
            raise self._refusal(node, f"a constant such as {value!r} is not part of the language")
        return lambda values: value

    def _Name(self, node: ast.Name, depth: int) -> _Step:
        name = node.id
        if name not in self._names:
            near = nearest(name, [*self._names, *FUNCTIONS])
            raise self._refusal(
                node, f"unknown name {name!r}{near}; inputs are {_listed(self._names)}"
            )
        self.used.add(name)
        return lambda values: values[name]

    def _List(self, node: ast.List, depth: int) -> _Step:
        items = [self.step(item, depth) for item in node.elts]
        return lambda values: [item(values) for item in items]

    def _Tuple(self, node: ast.Tuple, depth: int) -> _Step:
        items = [self.step(item, depth) for item in node.elts]
        return lambda values: tuple(item(values) for item in items)

    def _UnaryOp(self, node: ast.UnaryOp, depth: int) -> _Step:
        if type(node.op) not in _UNARY:
            raise self._refusal(node, "this operator is not part of the language")
        _, apply = _UNARY[type(node.op)]
        operand = self.step(node.operand, depth)
        return self._guarded(node, lambda values: apply(plain(operand(values))))

    def _BinOp(self, node: ast.BinOp, depth: int) -> _Step:
        if type(node.op) not in ARITHMETIC:
            raise self._refusal(node, "this operator is not part of the language")
        _, apply = ARITHMETIC[type(node.op)]
        left, right = self.step(node.left, depth), self.step(node.right, depth)
        return self._guarded(
            node, lambda values: apply(_operand(left(values)), _operand(right(values)))
        )

    def _BoolOp(self, node: ast.BoolOp, depth: int) -> _Step:
        parts = [self.step(value, depth) for value in node.values]
        stops_at = isinstance(node.op, ast.Or)

        def evaluate(values: Mapping[str, Any]) -> Any:
            value = None
            for part in parts:
                value = plain(part(values))
                if bool(value) is stops_at:
                    break
            return value

        return self._guarded(node, evaluate)

    def _Compare(self, node: ast.Compare, depth: int) -> _Step:
        steps = [self.step(part, depth) for part in (node.left, *node.comparators)]
        tests = [COMPARISONS[type(op)][1] for op in node.ops]

        def evaluate(values: Mapping[str, Any]) -> bool:
            operands = [plain(step(values)) for step in steps]
            return all(
                test(left, right) for test, left, right in zip(tests, operands, operands[1:])
            )

        return self._guarded(node, evaluate)

    def _IfExp(self, node: ast.IfExp, depth: int) -> _Step:
        test, body, other = (self.step(part, depth) for part in (node.test, node.body, node.orelse))
        return self._guarded(
            node, lambda values: body(values) if plain(test(values)) else other(values)
        )

    def _Subscript(self, node: ast.Subscript, depth: int) -> _Step:
        index_node: Any = node.slice
        if isinstance(index_node, ast.Slice):
            raise self._refusal(node, "a slice is not part of the language")
        value, index = self.step(node.value, depth), self.step(index_node, depth)
        return self._guarded(node, lambda values: value(values)[plain(index(values))])

    def _Call(self, node: ast.Call, depth: int) -> _Step:
        if not isinstance(node.func, ast.Name):
            raise self._refusal(node, "only functions of the vocabulary can be called")
        name = node.func.id
        if name not in FUNCTIONS:
            near = nearest(name, FUNCTIONS)
            raise self._refusal(
                node, f"unknown function {name!r}{near}; known are {_listed(FUNCTIONS)}"
            )
        apply = FUNCTIONS[name].value
        arguments = [self.step(argument, depth) for argument in node.args]
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._refusal(node, "'**' is not part of the language")
            keywords[keyword.arg] = self.step(keyword.value, depth)
        return self._guarded(
            node,
            lambda values: apply(
                *[argument(values) for argument in arguments],
                **{key: argument(values) for key, argument in keywords.items()},
            ),
        )

    def _guarded(self, node: ast.expr, step: _Step) -> _Step:
        """Name the part of the expression in which an error happened."""

        def evaluate(values: Mapping[str, Any]) -> Any:
            try:
                return step(values)
            except EvaluationError:
                raise
            except Exception as error:
                part = ast.get_source_segment(self._text.strip(), node) or self._text
                raise EvaluationError(f"{part}: {type(error).__name__}: {error}") from error

        return evaluate

    def _refusal(self, node: ast.AST, complaint: str) -> ExpressionError:
        return ExpressionError(
            f"{complaint}, in {self._text!r}", getattr(node, "col_offset", 0) + 1
        )


_PLAIN: Mapping[type, str] = {
    ast.Attribute: "an attribute",
    ast.Lambda: "a lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.JoinedStr: "an f-string",
    ast.Starred: "'*'",
    ast.NamedExpr: "':='",
    ast.Await: "await",
    ast.Yield: "yield",
}


def plain(value: Any) -> Any:
    """Return the number in a tensor of one element; anything else as it is."""
    if isinstance(value, (int, float, str, Fraction, list, tuple)) or value is None:
        return value
    item = getattr(value, "item", None)
    shape = getattr(value, "shape", None)
    if item is not None and shape is not None and all(int(size) == 1 for size in shape):
        return item()
    return value


def _operand(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, float):
        return Fraction(str(value))
    if not isinstance(value, (int, Fraction)):
        raise TypeError(f"expected a number, found {short(value)}")
    return value


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Fraction) else repr(value)[:80]


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
